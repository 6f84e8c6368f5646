"""Line 5 of Algorithm 13, summed and averaged."""

import math

import pytest
import torch

from transformulary.data import NO_TOKEN, shift
from transformulary.train import count, total_loss


def test_targets_are_shifted_once():
    """Logits that name the next token cost log(1 + 5 e^-10) each; shifted twice or never they would cost 10 more."""
    rows = torch.tensor([[3, 1, 4, 1, 5]])
    x, y = shift(rows)
    logits = 10.0 * torch.nn.functional.one_hot(rows[:, 1:], 6).double()

    loss = total_loss(logits, y) / count(y)

    assert (1, 4) == (len(x), count(y))
    assert pytest.approx(math.log1p(5 * math.exp(-10)), rel=1e-12) == loss.item()


@pytest.mark.parametrize("parts", [[4], [1, 3], [2, 2], [1, 1, 1, 1]])
def test_the_mean_is_over_all_targets_of_the_update(parts):
    """Sums over parts divided by the count of all have the loss and gradient of the whole, however it is split."""
    w = torch.tensor([0.5, -0.5, 0.0], dtype=torch.float64, requires_grad=True)
    x, y = torch.tensor([[1.0, 1.0, 2.0, 3.0]], dtype=torch.float64), torch.tensor([[2, 0, 0, 1]])

    loss = sum(
        total_loss(a[..., None] * w, b) / count(y) for a, b in zip(x.split(parts, 1), y.split(parts, 1), strict=True)
    )
    loss.backward()

    assert pytest.approx(1.377364, abs=5e-7) == loss.item()
    assert pytest.approx([0.425058, -0.582488, 0.157430], abs=5e-7) == w.grad.tolist()


def test_no_target_no_loss():
    """Where nothing is to be predicted, loss, gradient and count are 0; other rows lose nothing by it."""
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    none = torch.full((2, 3), NO_TOKEN)

    loss = total_loss(logits, none)
    loss.backward()

    assert (0, 0.0) == (count(none), loss.item())
    assert not logits.grad.any()


def test_small_types_are_summed_in_float32():
    """bfloat16 logits give a float32 loss, float64 logits a float64 one."""
    y = torch.zeros(1, 1, dtype=torch.int64)

    assert torch.float32 == total_loss(torch.zeros(1, 1, 3, dtype=torch.bfloat16), y).dtype
    assert torch.float64 == total_loss(torch.zeros(1, 1, 3, dtype=torch.float64), y).dtype

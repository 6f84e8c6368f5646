"""AdamW's step, what decays, and clipping."""

import pytest
import torch
from torch import nn

from transformulary.nn import DTransformer
from transformulary.paper import DTransformerConfig
from transformulary.paper.settings import TrainingSettings
from transformulary.train.optimiser import adamw, clip_gradient, decays, set_rate


def test_three_steps_of_a_constant_gradient():
    """g = 1e-3, eta = 0.1, epsilon = 1e-3: each step goes 0.1 g / (g + epsilon) = 0.05 down from 1."""
    model = nn.ParameterList([nn.Parameter(torch.tensor([1.0], dtype=torch.float64))])
    optimiser = adamw(model, TrainingSettings(eta=0.1, beta_1=0.9, beta_2=0.999, epsilon=1e-3))
    path = []

    for _ in range(3):
        model[0].grad = torch.tensor([1e-3], dtype=torch.float64)
        optimiser.step()
        path.append(model[0].item())

    assert pytest.approx([0.95, 0.90, 0.85], rel=1e-12) == path


def test_embeddings_may_have_a_rate_of_their_own():
    """eta_embedding = 4: W_e and W_p go four times as far in AdamW's first step; the other parameters do not."""
    model = DTransformer(DTransformerConfig(N_V=5, ell_max=4, L=1, H=1, d_e=4, d_mlp=6, tied=True))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimiser = adamw(model, TrainingSettings(eta=0.5, eta_embedding=4.0, weight_decay=0.0))

    for p in model.parameters():
        p.grad = torch.ones_like(p)
    set_rate(optimiser, 0.125)
    optimiser.step()

    for name, p in model.named_parameters():
        step = 0.5 if name in ("W_e.weight", "W_p.weight") else 0.125
        torch.testing.assert_close(before[name] - p, torch.full_like(p, step), rtol=1e-5, atol=1e-6)


def test_decay_is_decoupled_and_of_matrices_only():
    """Without a gradient a matrix shrinks by 1 - eta * weight_decay, and a vector stays."""
    model = nn.ParameterDict({"W": nn.Parameter(torch.ones(2, 2)), "b": nn.Parameter(torch.ones(2))})
    optimiser = adamw(model, TrainingSettings(eta=0.5, weight_decay=0.5))

    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step()

    assert torch.equal(torch.full((2, 2), 0.75), model["W"])
    assert torch.equal(torch.ones(2), model["b"])


def test_what_decays_in_a_gpt():
    """W_e and the matrices of attention and MLP; not W_p, norms and biases."""
    model = DTransformer(DTransformerConfig(N_V=5, ell_max=4, L=1, H=1, d_e=4, d_mlp=6, tied=True))

    decayed = {name for name, p in model.named_parameters() if decays(name, p)}

    assert {"W_qkv.weight", "W_o.weight", "W_mlp1.weight", "W_mlp2.weight", "W_e.weight"} == {
        ".".join(name.split(".")[-2:]) for name in decayed
    }


@pytest.mark.parametrize(("largest", "scale"), [(1.0, 1.0), (0.5, 1.0), (0.25, 0.5), (0.0, 1.0)])
def test_clipping(largest, scale):
    """A gradient of norm 0.5 is scaled down to a smaller limit and bitwise untouched by any other."""
    gradient = torch.tensor([0.3, -0.4], dtype=torch.float64)
    p = nn.Parameter(torch.zeros(2, dtype=torch.float64))
    p.grad = gradient.clone()

    norm = clip_gradient([p], largest)

    assert pytest.approx(0.5, rel=1e-15) == norm
    torch.testing.assert_close(p.grad, gradient * scale, rtol=1e-15, atol=0)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_norm_that_is_not_finite_is_told(bad):
    """One bad element anywhere makes the norm not finite."""
    parameters = [nn.Parameter(torch.zeros(3)) for _ in range(2)]
    parameters[0].grad, parameters[1].grad = torch.ones(3), torch.tensor([0.0, bad, 0.0])

    assert not torch.tensor(clip_gradient(parameters, 1.0)).isfinite()

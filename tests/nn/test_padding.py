"""Sequences of unequal length in one batch: padding on any side, of any id, changes nothing and has no gradient."""

from itertools import product

import pytest
import torch

from nn.models import ARCHITECTURES, EVERY, config, inputs, model, tokens
from transformulary.errors import AlgorithmError
from transformulary.nn import attention_weights
from transformulary.nn.transformer import check_ids
from transformulary.paper import DTransformerConfig, ETransformerConfig, TwoStacks

SIDES = {
    "right": lambda ell, n: list(range(ell)),
    "left": lambda ell, n: list(range(n - ell, n)),
    "inside": lambda ell, n: [0, *range(n - ell + 1, n)],
}
KINDS = list(ARCHITECTURES)


def padded(row, side, pad, n=8):
    """(a batch of one with the row at some of n slots and `pad` at the others, which slots hold it)."""
    at = SIDES[side](len(row), n)
    x, real = torch.full((1, n), pad), torch.zeros(1, n, dtype=torch.bool)
    x[0, at], real[0, at] = row, True
    return x, real


def beside(x, real, more):
    """The row in a batch with another that has no padding."""
    return torch.cat([x, more]), torch.cat([real, torch.ones_like(more, dtype=torch.bool)])


def unequal(c, given, side, pad):
    """What `forward` takes for the sequences `given`, padded, beside longer ones; and which slots of x hold tokens."""
    batch, reals = [], []
    for k, tensor in enumerate(given):
        x, real = padded(tensor[0], side, pad)
        x, real = beside(x, real, tokens(c, 1, 8, seed=9 + k))
        batch.append(x)
        reals.append(real)
    if isinstance(c, TwoStacks):
        return batch, {"real_z": reals[0], "real_x": reals[1]}, reals[1][0]
    if len(batch) == 2:
        batch[1] = torch.where(reals[1], batch[1] % c.segments, pad)
    return batch, {"real": reals[0]}, reals[0][0]


@pytest.mark.parametrize(("kind", "change"), EVERY, ids=str)
def test_alone_equals_in_a_batch(kind, change):
    """A row has the logits that it has alone: padded right, left or in between, whatever the padding's id."""
    c = config(kind, **change)
    fast, given = model(c), inputs(c, 1, 5)

    with torch.no_grad():
        alone = fast(*given)[0]
        for side, pad in product(SIDES, (0, 7, -100)):
            batch, reals, here = unequal(c, given, side, pad)
            torch.testing.assert_close(fast(*batch, **reals)[0, here], alone, rtol=0, atol=1e-12, msg=f"{side} {pad}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", SIDES)
def test_gradients_are_those_of_the_rows_alone(kind, side):
    """The gradient of a loss over the tokens of a padded batch is the sum of the gradients of its rows alone."""
    c = config(kind)
    fast, given = model(c), inputs(c, 1, 5)
    batch, reals, here = unequal(c, given, side, 3)
    fast(*batch, **reals)[0, here].square().sum().backward()
    together = {name: theta.grad.clone() for name, theta in fast.named_parameters()}

    fast.zero_grad()
    fast(*given)[0].square().sum().backward()

    for name, theta in fast.named_parameters():
        torch.testing.assert_close(together[name], theta.grad, rtol=1e-11, atol=1e-11, msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("positions", ["learned", "bucketed", "relative"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_sequence_harms_nobody(kind, positions, dtype):
    """A row without tokens leaves the other row as it is, and every gradient finite."""
    if positions == "relative" and issubclass(kind, TwoStacks):
        positions = "none"
    c = config(kind, eps=1e-5, positions=positions)
    fast, given = model(c).to(dtype), inputs(c, 2, 6)
    reals = [torch.ones_like(x, dtype=torch.bool) for x in given]
    for real in reals:
        real[1] = False
    names = ("real_z", "real_x") if isinstance(c, TwoStacks) else ("real",)

    out = fast(*given, **dict(zip(names, reals, strict=True)))
    out[0].square().sum().backward()

    atol = 1e-12 if dtype == torch.float64 else 0.1
    torch.testing.assert_close(out[:1], fast(*(x[:1] for x in given)), rtol=0, atol=atol)
    assert all(theta.grad.isfinite().all() for theta in fast.parameters())


@pytest.mark.parametrize(
    "change", [{}, {"positions": "rotary"}, {"positions": "relative"}, {"positions": "bucketed"}, {"mask": "local(2)"}]
)
@pytest.mark.parametrize("side", SIDES)
def test_a_padded_prompt_is_continued(change, side):
    """With a past, rows of unequal length go on each after its own last token, as they do alone."""
    c = config(**change)
    fast, row, more = model(c), tokens(c, 1, 3), tokens(c, 1, 4, seed=5)
    x, real = beside(*padded(row[0], side, 7, n=5), tokens(c, 1, 5, seed=6))
    past = fast.new_cache()

    with torch.no_grad():
        alone = fast(torch.cat([row, more], 1))[0, 3:]
        fast(x, past, real=real)
        continued = [fast(token.expand(2, 1), past)[0, 0] for token in more.split(1, 1)]

    torch.testing.assert_close(torch.stack(continued), alone, rtol=0, atol=1e-12)


def test_unequal_pieces_go_on():
    """Each piece may be padded: a row takes two tokens while another takes one; their positions go on from there."""
    c = config()
    fast, a, b = model(c), tokens(c, 1, 6), tokens(c, 1, 4, seed=2)
    past, T, F = fast.new_cache(), True, False

    with torch.no_grad():
        fast(torch.cat([a[:, :3], b[:, :3]]), past)
        x = torch.tensor([[a[0, 3], a[0, 4]], [b[0, 3], 0]])
        piece = fast(x, past, real=torch.tensor([[T, T], [T, F]]))
        last = fast(torch.stack([a[0, 5:], torch.tensor([5])]), past)

        torch.testing.assert_close(piece[0], fast(a)[0, 3:5], rtol=0, atol=1e-12)
        torch.testing.assert_close(piece[1, 0], fast(b)[0, 3], rtol=0, atol=1e-12)
        torch.testing.assert_close(last[0, 0], fast(a)[0, 5], rtol=0, atol=1e-12)
        torch.testing.assert_close(last[1], fast(torch.tensor([[*b[0], 5]]))[0, 4:], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [DTransformerConfig, ETransformerConfig])
@pytest.mark.parametrize("side", SIDES)
def test_nobody_attends_to_padding(kind, side):
    """Its attention weights are 0, in every layer; those of a token's sum to 1."""
    c = config(kind)
    x, real = padded(tokens(c, 1, 5)[0], side, 3)

    for weights in attention_weights(model(c), x, real=real):
        assert float(weights[..., ~real[0]].abs().max()) == 0
        torch.testing.assert_close(weights[0, :, real[0]].sum(-1), torch.ones(4, 5).double())


def test_padding_does_not_count_as_length():
    """Nine tokens in twelve slots fit ell_max = 9; ten do not, and the error says ten."""
    fast = model(config())
    x, real = padded(tokens(fast.config, 1, 9)[0], "left", 0, n=12)
    longer, all_real = padded(tokens(fast.config, 1, 10)[0], "left", 0, n=12)

    assert (1, 12, 11) == fast(x, real=real).shape
    with pytest.raises(AlgorithmError, match="a sequence of 10 tokens is longer than ell_max = 9"):
        fast(longer, real=all_real)


@pytest.mark.parametrize(
    ("real", "message"),
    [
        (torch.ones(1, 4, dtype=torch.bool), r"real has shape \(1, 4\), and x has \(1, 5\)"),
        (torch.ones(1, 5), "values of type float32: true means may attend"),
        (torch.full((1, 5), 2), "values of type int64"),
    ],
)
def test_what_is_not_real(real, message):
    """`real` is booleans, or the integers 0 and 1, one for each slot."""
    with pytest.raises(AlgorithmError, match=message):
        check_ids(torch.ones(1, 5, dtype=torch.int64), 11, real)


def test_integers_0_and_1_say_what_is_real():
    """They are taken as false and true, in every architecture."""
    for kind in KINDS:
        fast, given = model(config(kind)), inputs(config(kind), 1, 5)
        batch, reals, here = unequal(fast.config, given, "left", 3)

        numbers = fast(*batch, **{name: real.long() for name, real in reals.items()})

        assert torch.equal(numbers[0, here], fast(*batch, **reals)[0, here])

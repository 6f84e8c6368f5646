"""Attention of the fast models: masks, empty rows, values that must not leak, head layout, scale."""

import math

import numpy as np
import pytest
import torch

from nn.models import config
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.nn import MHAttention
from transformulary.nn.attend import attend as attend_by
from transformulary.nn.attention import At
from transformulary.nn.cache import FRESH
from transformulary.nn.places import Filled
from transformulary.nn.scores import Scores
from transformulary.paper import Causal, Fixed, Full, Local, Mask, Prefix, Strided

MASKS = [Full(), Causal(), Local(2), Strided(2), Fixed(3, 1), Prefix(2), Local(2) | Strided(3)]


class Rows(Mask):
    """Row t_x of a table says what token t_x may attend to."""

    def __init__(self, rows):
        object.__setattr__(self, "table", torch.tensor(rows, dtype=torch.bool))

    def __call__(self, t_z, t_x):
        return self.table[t_x, t_z]

    def __eq__(self, other):
        return self is other


def attend(Q, K, V, mask, scale):
    """The queries are the LAST ell_x of the ell_z positions."""
    return attend_by(Q, K, V, Scores(mask, Filled(K.shape[2] - Q.shape[2]), scale))


def weights(layer, X):
    """The attention weights that a layer shows."""
    return layer(X, weights=True)[1]


def random(*shape, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def one_by_one(Q, K, V, mask, scale):
    """The definition, a query and a key at a time: weights are proportional to exp(scale q.k) where allowed."""
    Y = torch.zeros(Q.shape[2], V.shape[3], dtype=Q.dtype)
    offset = K.shape[2] - Q.shape[2]
    for t_x in range(Q.shape[2]):
        allowed = [t_z for t_z in range(K.shape[2]) if mask(t_z, offset + t_x)]
        weights = [math.exp(scale * Q[0, 0, t_x] @ K[0, 0, t_z]) for t_z in allowed]
        for t_z, weight in zip(allowed, weights, strict=True):
            Y[t_x] += weight / sum(weights) * V[0, 0, t_z]
    return Y


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("ell_x", [1, 3, 7])
def test_is_the_definition(mask, ell_x):
    """The queries are the last ell_x of 7 positions, whatever the mask: after a cache, and without one."""
    Q, K, V = random(1, 1, ell_x, 4), random(1, 1, 7, 4, seed=1), random(1, 1, 7, 3, seed=2)

    torch.testing.assert_close(attend(Q, K, V, mask, 0.7)[0, 0], one_by_one(Q, K, V, mask, 0.7), rtol=0, atol=1e-14)


def test_a_causal_token_attends_to_itself():
    """Equal scores, values 1, 2, 4: the running means 1, 1.5, 7/3 (a mask off by one or flipped gives others)."""
    Q, V = torch.zeros(1, 1, 3, 1).double(), torch.tensor([1.0, 2, 4]).double()[None, None, :, None]

    assert [1, 1.5, 7 / 3] == pytest.approx(attend(Q, Q, V, Causal(), 1.0).flatten().tolist())


E3 = torch.tensor([[1.0, 0], [0, 1], [1, 1]]).double()[None, None]
V3 = torch.tensor([[1.0, 2], [3, 4], [5, 6]]).double()[None, None]
EMPTY_ROW = Rows([[1, 1, 0], [0, 0, 0], [1, 1, 1]])


def test_a_query_that_may_attend_to_nothing_gets_0():
    """Its output is 0, not NaN and not a mean of masked values; the others do not notice."""
    Y = attend(E3, E3, V3, EMPTY_ROW, 1 / math.sqrt(2))[0, 0]

    expected = torch.tensor([[1.660477, 2.660477], [0, 0], [3.510470, 4.510470]]).double()
    torch.testing.assert_close(Y, expected, rtol=0, atol=1e-6)


def test_gradients_stay_finite_beside_an_empty_row():
    """A loss over the other rows has finite gradients for queries, keys and values."""
    Q, K, V = (t.clone().requires_grad_() for t in (E3, E3, V3))

    attend(Q, K, V, EMPTY_ROW, 1.0)[0, 0, [0, 2]].sum().backward()

    assert [True] * 3 == [bool(t.grad.isfinite().all()) for t in (Q, K, V)]


class Numbers(Mask):
    """The causal mask as numbers: `one` where a token may attend, else 0."""

    def __init__(self, one):
        object.__setattr__(self, "one", one)

    def __call__(self, t_z, t_x):
        return (t_z <= t_x) * self.one


@pytest.mark.parametrize("ell_x", [1, 3])
def test_integers_0_and_1_are_a_mask(ell_x):
    """They are taken as false and true, in the output and in the weights that are shown."""
    Q, layer, X = E3[:, :, -ell_x:], MHAttention(config(), Numbers(1), 0.0).double(), random(1, 3, 8)
    shown = weights(layer, X)

    torch.testing.assert_close(attend(Q, E3, V3, Numbers(1), 1.0), attend(Q, E3, V3, Causal(), 1.0))
    assert (random(3, 3).tril() != 0).tolist() == (shown[0, 0] > 0).tolist()


@pytest.mark.parametrize(("one", "kind"), [(1.0, "float"), (2, "int64"), (-1, "int64"), (1j, "complex")])
def test_other_numbers_are_no_mask(one, kind):
    """They are refused as the oracle does, where the kernel would add them: forwards, and for the weights shown."""
    layer, X = MHAttention(config(), Numbers(one), 0.0).double(), random(1, 3, 8)

    for compute in (layer, lambda X: weights(layer, X)):
        with pytest.raises(AlgorithmError, match=f"mask has values of type {kind}.*: true means may attend"):
            compute(X)
    with pytest.raises(AlgorithmError, match="true means may attend"):
        oracle.Attention(np.ones((2, 3)), np.ones((2, 3)), None, Numbers(one))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("what", ["K", "V"])
@pytest.mark.parametrize("mask", [Causal(), Local(2), Prefix(2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_nothing_leaks_out_of_a_masked_slot(bad, what, mask, dtype):
    """A value that is not finite makes exactly those queries NaN that may attend to it, forwards and backwards."""
    Q, K, V = (random(2, 4, 6, 4, seed=seed).to(dtype) for seed in range(3))
    clean = attend(Q, K, V, mask, 0.5)
    {"K": K, "V": V}[what][1, 2, 3, 1] = bad
    K, V = K.requires_grad_(), V.requires_grad_()
    sees = mask(3, torch.arange(6))

    Y = attend(Q, K, V, mask, 0.5)
    Y[1, 2, ~sees].sum().backward()

    assert sees.tolist() == Y[1, 2].isnan().all(-1).tolist()
    torch.testing.assert_close(Y[1, 2, ~sees], clean[1, 2, ~sees])
    torch.testing.assert_close(Y[0], clean[0])
    assert bool(K.grad.isfinite().all()) and bool(V.grad.isfinite().all())


def test_grouped_queries_share_keys_in_blocks():
    """Query head h asks key/value head ceil(h H_kv / H): of four heads, the first two share the first."""
    Q, K, V = random(1, 4, 5, 3), random(1, 2, 5, 3, seed=1), random(1, 2, 5, 3, seed=2)

    each = [attend(Q[:, [h]], K[:, [g]], V[:, [g]], Causal(), 1.0) for h, g in enumerate([0, 0, 1, 1])]
    torch.testing.assert_close(attend(Q, K, V, Causal(), 1.0), torch.cat(each, 1), rtol=0, atol=1e-15)


def attention(**changes):
    return MHAttention(config(H=2, L=1, **changes), Full(), 0.0).double()


def test_scores_are_divided_by_the_root_of_a_heads_width():
    """d_e = 8, two heads of 4, q = k_1 = (1, 1, 1, 1), k_2 = 0: weights 0.880797 and 0.119203, not those of sqrt(8)."""
    layer = attention()
    with torch.no_grad():
        layer.W_qkv.weight.copy_(torch.cat([torch.eye(8), torch.eye(8), torch.eye(8)]))
        layer.W_qkv.bias.zero_()
        shown = weights(layer, torch.tensor([[[1.0] * 8, [0.0] * 8]]).double())

    torch.testing.assert_close(shown[0, :, 0], torch.tensor([[0.880797, 0.119203]] * 2).double(), rtol=0, atol=1e-6)


def test_heads_are_joined_side_by_side():
    """Values 0..7 for two heads of two tokens come out as rows 0 1 4 5 and 2 3 6 7."""
    layer = attention(d_e=4, d_attn=2)
    layer._among = lambda X, at, past: (
        torch.zeros(1, 2, 2, 2).double(),
        torch.zeros(1, 2, 2, 2).double(),
        torch.arange(8.0).view(1, 2, 2, 2).double(),
    )
    layer.mask = Rows([[1, 0], [0, 1]])
    with torch.no_grad():
        layer.W_o.weight.copy_(torch.eye(4))
        layer.W_o.bias.zero_()

        assert [[0, 1, 4, 5], [2, 3, 6, 7]] == layer(torch.zeros(1, 2, 4).double())[0].tolist()


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_weights_and_output_agree(mask):
    """The weights that are shown are those that were used, and true means may attend in both."""
    layer, X = MHAttention(config(H_kv=2), mask, 0.0).double(), random(2, 6, 8)
    Q, K, V = layer._among(X, At(), FRESH)

    shown = weights(layer, X)

    torch.testing.assert_close(
        shown @ V.repeat_interleave(2, 1), attend(Q, K, V, mask, layer.scale), rtol=0, atol=1e-14
    )
    allowed = torch.tensor([[bool(mask(t_z, t_x)) for t_z in range(6)] for t_x in range(6)])
    assert allowed.expand_as(shown).tolist() == (shown > 0).tolist()


def test_the_weights_of_an_empty_row_are_0():
    """Shown weights of a query that may attend to nothing are all 0, and the output there is the bias b_o alone."""
    layer, X = MHAttention(config(), EMPTY_ROW, 0.0).double(), random(1, 3, 8)

    assert [0.0] * 3 == weights(layer, X)[0, 0, 1].tolist()
    assert layer.W_o.bias.tolist() == layer(X)[0, 1].tolist()

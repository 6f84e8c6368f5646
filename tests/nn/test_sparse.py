"""Sparse masks in parts: the same numbers as the dense kernel and the oracle, with less work."""

import math
from functools import reduce
from operator import or_

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from nn.models import by_the_oracle, config, inputs, model
from transformulary.conform.theta import theta_of
from transformulary.nn import sparse
from transformulary.nn.attend import attend
from transformulary.nn.places import Filled, among
from transformulary.nn.scores import Dense, Scores
from transformulary.nn.sparse import InParts, allowed, in_parts, parts
from transformulary.paper import Causal, Fixed, Full, Local, Prefix, Strided

GPT3 = [Local(8), Local(4) | Strided(4), Fixed(8, 2), Strided(4)]
CPU = torch.device("cpu")
few = st.integers(1, 9)
patterns = st.one_of(
    st.builds(Local, few),
    st.builds(Strided, few),
    few.flatmap(lambda s: st.builds(Fixed, st.just(s), st.integers(1, s))),
)


def random(*shape, seed=0):
    made = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return made.requires_grad_()


def dense(mask, ell):
    return Dense(ell, {"attn_mask": Filled().allowed(mask, ell, ell, CPU)})


@pytest.fixture
def always(monkeypatch):
    """Parts wherever a mask has any, in blocks as short as its width, for sequences however short."""
    monkeypatch.setattr(sparse, "WORTH", math.inf)
    monkeypatch.setattr(sparse, "BLOCK", 1)


@given(st.lists(patterns, min_size=1, max_size=3), st.integers(1, 40), st.sampled_from([1, 3, 64]))
def test_parts_are_the_dense_kernel(patterns, ell, block):
    """Values and gradients of any union of patterns, for any length, are those of the kernel that sees every pair."""
    mask = reduce(or_, patterns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse, "BLOCK", block)
        found = parts(mask)
    Q, K, V = random(2, 4, ell, 3), random(2, 2, ell, 3, seed=1), random(2, 2, ell, 5, seed=2)

    Y = InParts(found, allowed(mask, found, ell, CPU)).attend(Q, K, V, 0.7, 0.0)
    expected = dense(mask, ell).attend(Q, K, V, 0.7, 0.0)

    torch.testing.assert_close(Y, expected, rtol=0, atol=1e-13)
    ours, theirs = (torch.autograd.grad(out.square().sum(), (Q, K, V)) for out in (Y, expected))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-11)


@given(st.lists(patterns, min_size=1, max_size=3), st.integers(1, 30))
def test_every_pair_counts_once(patterns, ell):
    """All parts together hold each pair that the mask allows once, and no other."""
    mask = reduce(or_, patterns)
    found = parts(mask)
    t_x = torch.arange(ell)[:, None]
    t_z = torch.cat([part.keys(t_x).expand(ell, -1) for part in found], 1)
    counted = allowed(mask, found, ell, CPU)

    pairs = sorted((t, z) for t, row, ok in zip(range(ell), t_z.tolist(), counted.tolist(), strict=True)
                   for z, yes in zip(row, ok, strict=True) if yes)  # fmt: skip

    assert pairs == [(t, z) for t in range(ell) for z in range(ell) if mask(z, t)]


@pytest.mark.parametrize("mask", [Causal(), Full(), Prefix(3), Local(4) | Prefix(2)], ids=str)
def test_other_masks_have_no_parts(mask):
    """What is not sparse goes to the dense kernel."""
    assert parts(mask) == ()


@pytest.mark.parametrize("mask", [*GPT3, (Causal(), Local(3)), (Local(2) | Strided(3), Fixed(3, 1))], ids=str)
def test_a_model_in_parts_is_the_oracle(mask, always):
    """GPT-3's layers, banded, strided or fixed, alternating or not: P is the oracle's."""
    c = config(mask=mask)
    fast, x = model(c), inputs(c, 1, 9)

    with torch.no_grad():
        P = fast(*x)[0].softmax(-1).T.numpy()

    np.testing.assert_allclose(P, by_the_oracle(c, theta_of(fast), x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("mask", GPT3, ids=str)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_leaks(mask, bad, always):
    """In parts too, a value that is not finite reaches exactly those who may see it."""
    K, V = random(1, 1, 12, 3), random(1, 1, 12, 3, seed=1)
    V.data[0, 0, 2, 0] = bad

    Y = attend(random(1, 1, 12, 3, seed=2), K, V, Scores(mask, Filled(), 1.0))[0, 0]

    assert [bool(mask(2, t)) for t in range(12)] == Y.isnan().all(-1).tolist()


def work(mask, ell, grad):
    """Floating point operations of attention over ell tokens, forwards and, if `grad`, backwards."""
    Q, K, V = (random(1, 1, ell, 8, seed=k) for k in range(3))
    scores = Scores(mask, Filled(), 1.0)
    with FlopCounterMode(display=False) as counter:
        Y = scores.plan(Q, K).attend(Q, K, V, 1.0, 0.0)
        if grad:
            Y.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("grad", [False, True])
def test_the_work_of_a_band_is_proportional_to_the_length(grad):
    """Twice the tokens under a band of 100 are twice the products; backwards they are twice those of forwards."""
    once, twice = work(Local(100), 1000, grad), work(Local(100), 2000, grad)

    assert twice == 2 * once
    assert once == (3 if grad else 1) * 2 * 2 * 1000 * 199 * 8  # K^T Q and V A, 199 keys in reach of each query's block


@pytest.mark.parametrize(
    ("mask", "keys"),
    [(Strided(64), 64), (Local(64) | Strided(64), 127 + 64), (Fixed(64, 4), 64 + 256)],
    ids=str,
)
@pytest.mark.parametrize("grad", [False, True])
def test_the_work_of_the_factorised_patterns(mask, keys, grad):
    """With strides of the root of the length, 4096 tokens meet a small multiple of 64 keys each, not 4096."""
    assert work(mask, 4096, grad) == (3 if grad else 1) * 2 * 2 * 4096 * keys * 8


def test_short_and_padded_sequences_are_dense():
    """Parts are for whole sequences that are long beside what the mask allows."""
    assert in_parts(Local(100), Filled(), 300, 300, CPU) is None
    assert in_parts(Local(100), Filled(3), 1, 4000, CPU) is None
    assert in_parts(Local(100), among(torch.ones(1, 4000, dtype=torch.bool)), 4000, 4000, CPU) is None
    assert in_parts(Local(100), Filled(), 4000, 4000, CPU) is not None


def test_a_token_after_a_band_sees_the_band_alone():
    """With a past of 500 tokens, the kernel is given the 16 keys of the band."""
    Q, K = random(1, 1, 1, 3), random(1, 1, 500, 3)

    assert Scores(Local(16), Filled(499), 1.0).plan(Q, K).nearest == 16

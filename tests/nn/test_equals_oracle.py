"""The fast models and the oracle compute the same: values, gradients, every choice of every slot, pairs of choices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.models import ARCHITECTURES, EVERY, by_the_oracle, config, fits, inputs, model, pairwise, tokens
from transformulary import oracle
from transformulary.conform.theta import gradient_of, theta_of
from transformulary.nn import TABLES
from transformulary.paper import SLOTS

IDS = [f"{kind.__name__.removesuffix('TransformerConfig')} {change}" for kind, change in EVERY]


def compared(c, seed=0, ell=7):
    """(largest difference of P for one sequence, the slopes of a loss along a random direction): fast and oracle."""
    fast, given = model(c, seed), inputs(c, 1, ell, seed)
    theta, direction = theta_of(fast), oracle.random_theta(c, np.random.default_rng(seed))
    targets = tokens(c, 1, ell, seed + 2)[0]
    ours, theirs = fast(*given)[0], []
    torch.nn.functional.cross_entropy(ours, targets, reduction="sum").backward()
    slope = sum((g * d).sum() for g, d in zip(gradient_of(fast).leaves(), direction.leaves(), strict=True))

    def loss_of(theta):
        theirs.append(by_the_oracle(c, theta, given))
        return loss(theirs[-1], targets)

    exact = oracle.derivative(loss_of, theta, direction)  # P + i h (slope of P)
    return np.abs(ours.detach().softmax(-1).T.numpy() - theirs[0].real).max(), slope, exact


def loss(P, targets):
    return -sum(np.log(P[y, t]) for t, y in enumerate(targets.tolist()))


def test_the_tables_of_both_sides_have_the_same_keys():
    """The fast models have every choice of the paper's table, and no other."""
    assert {slot: set(values) for slot, values in SLOTS.items()} == {slot: set(t) for slot, t in TABLES.items()}


@pytest.mark.parametrize(("kind", "change"), EVERY, ids=IDS)
def test_values_and_gradients(kind, change):
    """P, and the gradient of a loss, are the oracle's, which the complex step makes exact, for every choice."""
    error, slope, exact = compared(config(kind, **change))

    assert error <= 1e-13
    assert exact == pytest.approx(slope, rel=1e-11)


@pytest.mark.parametrize("kind", ARCHITECTURES, ids=lambda kind: kind.__name__)
def test_pairs(kind):
    """So they are for every value of one slot together with every value of another."""
    wrong = {}
    for change in pairwise(kind):
        error, slope, exact = compared(config(kind, **change), ell=5)
        if not (error <= 1e-13 and exact == pytest.approx(slope, rel=1e-11)):
            wrong[str(change)] = error, slope, exact

    assert wrong == {}


def test_the_whole_gradient():
    """Each number of the gradient is the oracle's, for grouped queries, rotation, gates and cycled masks at once."""
    c = config(
        L=2,
        H=2,
        H_kv=1,
        d_e=4,
        d_mlp=3,
        N_V=5,
        positions="rotary",
        norm="rms_norm",
        mlp="gated",
        mask=("causal", "local(2)"),
    )
    fast, given, targets = model(c), inputs(c, 1, 4), tokens(c, 1, 4, 2)[0]
    torch.nn.functional.cross_entropy(fast(*given)[0], targets, reduction="sum").backward()

    whole = oracle.gradient(lambda theta: loss(by_the_oracle(c, theta, given), targets), theta_of(fast))

    for (name, ours), theirs in zip(gradient_of(fast).items(), whole.leaves(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13, err_msg=name)


@st.composite
def changes(draw):
    """An architecture, and a value of every slot that fits the others."""
    kind = draw(st.sampled_from(list(ARCHITECTURES)))
    slots, change = ARCHITECTURES[kind], {}
    for slot in draw(st.permutations(list(slots))):
        fitting = [value for value in slots[slot] if fits(kind, change, value)]
        change |= draw(st.sampled_from(fitting)) if fitting else {}
    return kind, change


@given(changes(), st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_random_configs(change, seed):
    """Values and gradients are the oracle's, for any combination of the slots' values in any architecture."""
    error, slope, exact = compared(config(change[0], **change[1]), seed)

    assert error <= 1e-12
    assert exact == pytest.approx(slope, rel=1e-10, abs=1e-10)

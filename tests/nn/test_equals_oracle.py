"""The fast decoder and the oracle compute the same: values, gradients, every choice of every slot."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nn.models import VARIANTS, config, merged, model, tokens
from transformulary import oracle
from transformulary.conform.theta import gradient_of, theta_of
from transformulary.errors import ConfigError
from transformulary.nn import TABLES, DTransformer
from transformulary.paper import SLOTS

SINGLE = [change for changes in VARIANTS.values() for change in changes]


def largest_error(c, seed=0):
    """Largest difference of P for one sequence, the fast model's from the oracle's."""
    fast, x = model(c, seed), tokens(c, 1, 7, seed)
    with torch.no_grad():
        P = fast(x)[0].softmax(-1).T.numpy()
    return np.abs(P - oracle.DTransformer(x[0].tolist(), theta_of(fast), c)).max()


def test_the_tables_of_both_sides_have_the_same_keys():
    """The fast models have every choice of the paper's table but the two that only the oracle has."""
    lacking = {(slot, value) for slot, values in SLOTS.items() for value in values if value not in TABLES[slot]}

    assert list(TABLES) == list(SLOTS)
    assert {("positions", "relative"), ("positions", "bucketed")} == lacking
    assert [] == [value for slot, table in TABLES.items() for value in table if value not in SLOTS[slot]]


@pytest.mark.parametrize("positions", ["relative", "bucketed"])
def test_a_choice_of_the_oracle_alone_is_one_clear_error(positions):
    """Relative and bucketed positions are refused, naming what there is instead."""
    with pytest.raises(ConfigError, match=f"{positions}.*the fast models have learned, none, sinusoid"):
        DTransformer(config(positions=positions))


@pytest.mark.parametrize("change", SINGLE, ids=str)
def test_values(change):
    """P of Algorithm 10 is the oracle's, for every value of every slot."""
    assert largest_error(config(**change)) <= 1e-13


@pytest.mark.parametrize(("one", "other"), list(combinations(VARIANTS, 2)))
def test_values_of_pairs(one, other):
    """P of Algorithm 10 is the oracle's, for every value of one slot together with every value of another."""
    changes = [merged(a, b) for a in VARIANTS[one] for b in VARIANTS[other]]

    errors = {str(change): largest_error(config(**change)) for change in changes}

    assert {change: error for change, error in errors.items() if not error <= 1e-13} == {}


def slopes(c, seed=0):
    """Slope of the loss of Algorithm 13 along a random direction: the fast model's and the oracle's."""
    fast, x = model(c, seed), tokens(c, 1, 7, seed)
    theta, direction = theta_of(fast), oracle.random_theta(c, np.random.default_rng(seed))
    torch.nn.functional.cross_entropy(fast(x)[0, :-1], x[0, 1:], reduction="sum").backward()
    slope = sum((g * d).sum() for g, d in zip(gradient_of(fast).leaves(), direction.leaves(), strict=True))
    return slope, oracle.derivative(lambda z: oracle_loss(x[0].tolist(), z, c), theta, direction)


def oracle_loss(x, theta, c):
    P = oracle.DTransformer(x, theta, c)
    return -sum(np.log(P[x[t + 1], t]) for t in range(len(x) - 1))


@pytest.mark.parametrize("change", SINGLE, ids=str)
def test_gradients(change):
    """The gradient of the loss is the oracle's, which the complex step makes exact, for every value of every slot."""
    slope, exact = slopes(config(**change))

    assert exact == pytest.approx(slope, rel=1e-11)


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
    fast, x = model(c), tokens(c, 1, 4)
    torch.nn.functional.cross_entropy(fast(x)[0, :-1], x[0, 1:], reduction="sum").backward()

    whole = oracle.gradient(lambda z: oracle_loss(x[0].tolist(), z, c), theta_of(fast))

    for (name, ours), theirs in zip(gradient_of(fast).items(), whole.leaves(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13, err_msg=name)


@given(st.tuples(*(st.sampled_from(changes) for changes in VARIANTS.values())), st.integers(0, 2**16))
@settings(max_examples=40, deadline=None)
def test_random_configs(changes, seed):
    """Values and gradients are the oracle's, for any combination of the slots' values."""
    c = config(**merged(*changes))
    slope, exact = slopes(c, seed)

    assert largest_error(c, seed) <= 1e-12
    assert exact == pytest.approx(slope, rel=1e-10, abs=1e-10)

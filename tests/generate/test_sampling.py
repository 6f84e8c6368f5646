"""From logits to the next token: hand-worked values, and properties of every filter."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformulary.errors import CheckpointError, ConfigError
from transformulary.generate import Sampling
from transformulary.generate.sampling import draw, temperature, top_k, top_p

LOGITS = st.lists(
    st.floats(-50, 50, width=32) | st.sampled_from([-math.inf, 0.0, 1.0]), min_size=1, max_size=12
).filter(lambda logits: max(logits) > -math.inf)


def kept(logits):
    """The ids of positive probability, from 1 as in the paper."""
    return {i + 1 for i, logit in enumerate(logits.tolist()) if logit > -math.inf}


@pytest.mark.parametrize(
    ("p", "mass", "right"),
    [
        ([0.5, 0.41, 0.09], 0.9, {1, 2}),
        ([0.4, 0.3, 0.2, 0.1], 0.8, {1, 2, 3}),
        ([0.5, 0.35, 0.10, 0.05], 0.9, {1, 2, 3}),
        ([0.5, 0.3, 0.2], 0.8, {1, 2}),  # exactly reached, whatever the rounding
        ([0.1, 0.2, 0.7], 0.7, {3}),
        ([0.25, 0.25, 0.25, 0.25], 0.5, {1, 2}),  # among equals the lower ids
        ([0.3, 0.0, 0.7], 1.0, {1, 3}),
        ([0.3, 0.0, 0.7], 0.0, {3}),
        ([0.5, 0.5], 0.0, {1}),
    ],
)
def test_top_p(p, mass, right):
    """The smallest set whose mass reaches p, the token that crosses it included; at least one."""
    logits = torch.tensor(p, dtype=torch.float64).log()

    assert kept(top_p(logits, mass)) == right


@given(p=st.lists(st.integers(0, 20), min_size=1, max_size=60).filter(any), mass=st.floats(0, 1))
def test_top_p_is_the_definition(p, mass):
    """Ranked by probability, then by id, the tokens kept are the shortest beginning whose mass reaches p."""
    exact = [Fraction(n, sum(p)) for n in p]
    ranked = sorted(range(len(p)), key=lambda i: (-exact[i], i))
    reaches = (n for n in range(1, len(p)) if sum(exact[i] for i in ranked[:n]) >= Fraction(mass) - Fraction(1, 10**12))
    right = {i + 1 for i in ranked[: next(reaches, len(p))] if p[i]}

    assert kept(top_p(torch.tensor(p, dtype=torch.float64).log(), mass)) == right


def test_top_p_of_1_keeps_what_is_too_small_to_be_seen_in_the_sum():
    """top_p = 1 keeps every token of positive probability, and changes no logit."""
    logits = torch.tensor([0.0, -60.0, -700.0], dtype=torch.float64)

    assert top_p(logits, 1.0) is logits


@pytest.mark.parametrize(
    ("logits", "k", "right"),
    [
        ([1.0, 3.0, 2.0], 5, {1, 2, 3}),
        ([1.0, 3.0, 2.0], 3, {1, 2, 3}),
        ([1.0, 3.0, 2.0], 1, {2}),
        ([1.0, 3.0, 2.0], 0, {1, 2, 3}),
        ([2.0, 2.0, 1.0, 2.0], 2, {1, 2}),
        ([2.0, -math.inf, 1.0], 3, {1, 3}),
        ([0.0] * 50, 3, {1, 2, 3}),
    ],
)
def test_top_k(logits, k, right):
    """The k most probable; among equals the lower ids; 0 and more than there are keep all."""
    assert kept(top_k(torch.tensor(logits), k)) == right


@pytest.mark.parametrize(
    ("logits", "tau", "q"),
    [
        ([1.0, 3.0, 3.0], 0.0, [0, 1, 0]),
        ([1.0, 3.0, 3.0], 5e-324, [0, 0.5, 0.5]),
        ([-3e38, 3e38], 1e-300, [0, 1]),
        ([1.0, 3.0, -math.inf], math.inf, [0.5, 0.5, 0]),
        ([0.0, math.log(3.0)], 1.0, [0.25, 0.75]),
        ([0.0, math.log(3.0)], 0.5, [0.1, 0.9]),
        ([0.0, math.log(4.0)], 2.0, [1 / 3, 2 / 3]),
    ],
)
def test_temperature(logits, tau, q):
    """q is proportional to p^(1/tau); 0 takes the first maximum, infinity is uniform over what is possible."""
    probabilities = Sampling(tau=tau)(torch.tensor(logits))

    torch.testing.assert_close(probabilities, torch.tensor(q, dtype=torch.float64), rtol=0, atol=1e-7)


@given(logits=LOGITS, tau=st.floats(0, allow_nan=False), k=st.integers(0, 15), p=st.floats(0, 1))
def test_every_choice_gives_a_distribution(logits, tau, k, p):
    """Whatever the settings, q is a distribution over tokens of positive probability, with at most k of them."""
    logits = torch.tensor(logits)

    q = Sampling(tau=tau, top_k=k, top_p=p)(logits)

    assert math.isclose(float(q.sum()), 1)
    assert int((q > 0).sum()) <= (k or len(q))
    assert bool((q[logits == -math.inf] == 0).all())


@given(logits=LOGITS, tau=st.floats(0.1, 10), k=st.integers(1, 15), p=st.floats(0, 1))
def test_the_order_of_the_filters(logits, tau, k, p):
    """Temperature, then top-k, then top-p: each sees what the one before it left."""
    logits = torch.tensor(logits, dtype=torch.float64)

    one_by_one = top_p(top_k(temperature(logits, tau), k), p).softmax(0)

    assert torch.equal(Sampling(tau=tau, top_k=k, top_p=p)(logits), one_by_one)


def test_top_p_sees_what_top_k_left():
    """With two tokens left, 0.5 and 0.3 become 5/8 and 3/8: the first reaches 0.6 alone."""
    logits = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64).log()

    q = Sampling(top_k=2, top_p=0.6)(logits)

    assert q.tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "settings",
    [
        {"tau": -1.0},
        {"tau": math.nan},
        {"top_k": -1},
        {"top_p": -0.1},
        {"top_p": 1.1},
        {"top_p": math.nan},
    ],
)
def test_impossible_settings(settings):
    """Settings outside their domain are refused by name."""
    (name,) = settings

    with pytest.raises(ConfigError, match="temperature" if name == "tau" else name):
        Sampling(**settings)


@pytest.mark.parametrize("logits", [[0.0, math.nan], [math.inf, 0.0], [-math.inf, -math.inf]])
@pytest.mark.parametrize("tau", [0.0, 1.0])
def test_logits_of_a_damaged_model(logits, tau):
    """Where the softmax is no distribution nothing is drawn."""
    with pytest.raises(CheckpointError, match="largest logit is"):
        Sampling(tau=tau)(torch.tensor(logits))


def test_tokens_are_drawn_with_their_probabilities():
    """20,000 draws have the frequencies of q within five standard deviations; probability 0 is never drawn."""
    q = torch.tensor([0.1, 0.0, 0.6, 0.3], dtype=torch.float64)
    generator, n = torch.Generator().manual_seed(0), 20_000

    count = torch.bincount(torch.tensor([draw(q, generator) for _ in range(n)]), minlength=4)

    assert count[1] == 0
    assert bool(((count - n * q).abs() <= 5 * (n * q * (1 - q)).sqrt()).all())

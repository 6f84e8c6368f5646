"""Algorithm 14: prompting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle.notation import proportional, sample
from transformulary.paper import DTransformerConfig

c = DTransformerConfig(N_V=5, ell_max=6, L=1, H=1, d_e=4, d_mlp=3, eps=1e-5)
theta = oracle.random_theta(c, np.random.default_rng(1), scale=0.8)


class Given:
    """A generator whose next number is known."""

    def __init__(self, u):
        self.u = u

    def random(self):
        return self.u


def generate(x, ell_gen, tau=1.0, seed=0):
    return oracle.DInference(x, theta, c, ell_gen=ell_gen, tau=tau, rng=np.random.default_rng(seed))


def test_distribution_of_samples():
    """Tokens are drawn with the probabilities of the last column, tempered: chi-square below its 99.9 % point."""
    rng, counts = np.random.default_rng(0), np.zeros(5)
    for _ in range(4000):
        counts[oracle.DInference([1, 2], theta, c, ell_gen=1, tau=0.7, rng=rng)[0]] += 1

    p = oracle.DTransformer([1, 2], theta, c)[:, -1] ** (1 / 0.7)
    expected = 4000 * p / p.sum()
    assert ((counts - expected) ** 2 / expected).sum() < 18.47  # 4 degrees of freedom


def test_sample_by_given_numbers():
    """The token is the first whose cumulated probability exceeds the uniform number."""
    q = np.array([0.25, 0.0, 0.5, 0.25])

    drawn = [sample(q, Given(u)) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, np.nextafter(1, 0))]

    assert drawn == [0, 0, 2, 2, 3, 3]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(any), st.integers(0, 3))
def test_the_largest_random_number_draws_a_token(q, zeros):
    """With u just below 1 it is the last token of positive probability, whatever rounding made of the sum."""
    q = np.array(q) / sum(q)
    last = int(np.flatnonzero(q > 1e-10)[-1])

    drawn = sample(np.append(q, np.zeros(zeros)), Given(np.nextafter(1, 0)))

    assert last <= drawn < len(q)
    assert q[drawn] > 0


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_temperature_is_softmax_of_scaled_logits(tau):
    """q proportional to p^(1/tau) is softmax(logits / tau)."""
    logits = np.random.default_rng(0).normal(size=8) * 3

    q = proportional(oracle.softmax(logits), tau)

    np.testing.assert_allclose(q, oracle.softmax(logits / tau), rtol=0, atol=1e-15)


def test_limits_of_the_temperature():
    """tau = 0 is the most probable token, the lowest id among equals; infinity is uniform; tiny tau is finite (E15)."""
    p = np.array([0.1, 0.4, 0.4, 0.1])

    np.testing.assert_array_equal(proportional(p, 0), [0, 1, 0, 0])
    np.testing.assert_array_equal(proportional(p, np.inf), [0.25] * 4)
    np.testing.assert_allclose(proportional(p, 1e-300), [0, 0.5, 0.5, 0], rtol=0, atol=1e-15)


@given(seeds, st.floats(0, 5))
def test_proportional_is_a_distribution(rng, tau):
    """Whatever the temperature, q is a distribution, also where p has zeros."""
    p = oracle.softmax(rng.normal(size=6) * 100)
    p[0] = 0

    q = proportional(p, tau)

    assert q.min() >= 0
    assert abs(q.sum() - 1) < 1e-12
    assert q[0] == 0


def test_greedy_prefix():
    """At tau = 0 generating 4 tokens is generating 2 and then 2 more; no randomness is left."""
    first = generate([1, 2], 2, tau=0)

    assert generate([1, 2], 4, tau=0, seed=7) == first + generate([1, 2, *first], 2, tau=0, seed=8)


def test_same_generator_same_tokens():
    """The generator alone decides the draws."""
    assert generate([1], 5, seed=3) == generate([1], 5, seed=3)


def test_result_is_the_continuation():
    """y has ell_gen tokens, without the prompt, which is not changed."""
    x = [1, 2]

    y = generate(x, 3)

    assert len(y) == 3
    assert x == [1, 2]
    assert generate([1, 2], 0) == []


def test_length_limit():
    """A prompt of ell_max tokens yields one token; more is an error naming the numbers, before anything runs (E10)."""
    assert len(generate([1] * 6, 1)) == 1
    with pytest.raises(AlgorithmError, match=r"prompt of 4 tokens and ell_gen = 4 .* ell_max = 6 .* = 3 can"):
        generate([1] * 4, 4)


@pytest.mark.parametrize(
    ("x", "tau", "words"),
    [([], 1.0, "prompt is empty"), ([1], -1.0, "temperature"), ([1], float("nan"), "temperature")],
)
def test_domain(x, tau, words):
    """An empty prompt (E11), a negative or undefined temperature are errors."""
    with pytest.raises(AlgorithmError, match=words):
        generate(x, 1, tau)

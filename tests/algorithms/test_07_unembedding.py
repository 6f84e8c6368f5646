"""Algorithm 7: unembedding; and the functions that formulas name."""

import math

import numpy as np
import pytest
from hypothesis import given

from strategies import seeds
from transformulary import oracle


def test_softmax_by_hand():
    """softmax(0, 1, 2) = .09003057, .24472847, .66524096."""
    p = oracle.unembedding(np.array([1.0]), np.array([[0.0], [1.0], [2.0]]))

    np.testing.assert_allclose(p, [0.09003057, 0.24472847, 0.66524096], rtol=0, atol=5e-9)


def test_softmax_is_by_column():
    """Equation (2) normalises columns: rows do not sum to 1."""
    A = np.array([[0.0, 1.0], [math.log(3), 1.0]])

    np.testing.assert_allclose(oracle.softmax(A), [[0.25, 0.5], [0.75, 0.5]], rtol=0, atol=1e-15)


@given(seeds)
def test_is_a_distribution(rng):
    """p is positive and sums to 1, and huge scores do not overflow."""
    p = oracle.unembedding(rng.normal(size=4), 300 * rng.normal(size=(6, 4)))

    assert p.min() >= 0
    assert abs(p.sum() - 1) < 1e-14


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (oracle.GELU, [-0.004050, -0.045500, -0.158655, -0.154269, 0.345731, 0.841345, 1.954500, 2.995950]),
        (oracle.GELU_tanh, [-0.003637, -0.045402, -0.158808, -0.154286, 0.345714, 0.841192, 1.954598, 2.996363]),
        (oracle.ReLU, [0, 0, 0, 0, 0.5, 1, 2, 3]),
        (oracle.SiLU, [-0.142278, -0.238406, -0.268941, -0.188770, 0.311230, 0.731059, 1.761594, 2.857722]),
    ],
)
def test_activations(function, expected):
    """The activations at -3, -2, -1, -0.5, 0.5, 1, 2, 3; GELU is the exact form, equation (5)."""
    values = function(np.array([-3, -2, -1, -0.5, 0.5, 1, 2, 3]))

    np.testing.assert_allclose(values, expected, rtol=0, atol=5.1e-7)


@pytest.mark.parametrize("function", [oracle.GELU, oracle.GELU_tanh, oracle.ReLU, oracle.SiLU])
def test_activations_under_the_complex_step(function):
    """f(x + ih)/h has the derivative as its imaginary part: compared with a central difference."""
    x = np.array([-800.0, -3, -1.2, -0.3, 0.4, 1.7, 800])

    slope = function(x + 1e-30j).imag / 1e-30

    central = (function(x + 1e-6) - function(x - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, central, rtol=0, atol=1e-7)

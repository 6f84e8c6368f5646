"""Algorithm 9c: classes of an encoded sequence."""

import numpy as np
import pytest
from hypothesis import given

from strategies import seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError


def parameters(rng, d_e=4, N_C=3):
    return rng.normal(size=(d_e, d_e)), rng.normal(size=d_e), rng.normal(size=(N_C, d_e)), rng.normal(size=N_C)


@given(seeds)
def test_is_a_distribution_over_classes(rng):
    """It has N_C positive numbers that sum to 1, and depends on the first column of X alone."""
    X, theta = rng.normal(size=(4, 5)), parameters(rng)

    p_C = oracle.classification(X, *theta)

    assert p_C.shape == (3,) and p_C.min() > 0
    assert 1 == pytest.approx(p_C.sum(), abs=1e-15)
    np.testing.assert_array_equal(oracle.classification(X[:, :1], *theta), p_C)


def test_a_worked_value():
    """With W_pool = 2, b_pool = 1, e = tanh(2 * 0.5 + 1); two classes e and -e have the odds exp(2 e)."""
    one = np.ones((1, 1))

    p_C = oracle.classification(0.5 * one, 2 * one, one[0], np.array([[1.0], [-1.0]]), np.zeros(2))

    assert np.exp(2 * np.tanh(2)) == pytest.approx(p_C[0] / p_C[1])


@pytest.mark.parametrize("X", [np.ones((4, 0)), np.ones(4)])
def test_there_must_be_a_first_token(X):
    """An X without columns, or that is no matrix, is an error that says so."""
    with pytest.raises(AlgorithmError, match="one column per token, at least one"):
        oracle.classification(X, *parameters(np.random.default_rng(0)))

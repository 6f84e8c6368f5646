"""Algorithm 6: layer norm; RMSnorm."""

import numpy as np
import pytest
from hypothesis import given

from strategies import seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle import Zero
from transformulary.paper import Choices

one, zero = np.ones(4), np.zeros(4)


def test_by_hand():
    """(1, 2, 3, 4) has mean 2.5 and variance 1.25 (divided by 4, not 3)."""
    e_hat = oracle.layer_norm(np.array([1.0, 2, 3, 4]), one, zero)

    np.testing.assert_allclose(e_hat, np.array([-1.5, -0.5, 0.5, 1.5]) / np.sqrt(1.25), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("eps", "expected"), [(0.0, [1.732051, -0.577350]), (1e-5, [1.732005, -0.577335])]
)  # fmt: skip
def test_eps_is_inside_the_root(eps, expected):
    """(1, 0, 0, 0): eps is added to the variance, under the root."""
    e_hat = oracle.layer_norm(np.array([1.0, 0, 0, 0]), one, zero, Choices(eps=eps))

    np.testing.assert_allclose(e_hat, [expected[0], *3 * [expected[1]]], rtol=0, atol=5e-7)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0])
def test_constant_column_without_eps(value):
    """Equal numbers have variance 0, and Algorithm 6 has no eps: an error, not NaN (E7)."""
    with pytest.raises(AlgorithmError, match="all 4 numbers of e are equal"):
        oracle.layer_norm(np.full(4, value), one, zero)


def test_constant_column_in_a_model():
    """Inside a model the error names line, layer and column."""
    from transformulary.paper import DTransformerConfig

    c = DTransformerConfig(N_V=5, ell_max=4, L=2, H=1, d_e=4, d_mlp=3)
    theta = oracle.random_theta(c, np.random.default_rng(0))
    theta.W_e[:, 3], theta.W_p[:, 1] = 1, 1

    with pytest.raises(AlgorithmError, match=r"Algorithm 10, line 5, layer 1, column 2 \(10\.5\[l=1,t=2\]\): all 4"):
        oracle.DTransformer([0, 3, 1], theta, c)


def test_constant_column_with_eps():
    """With eps a constant column becomes beta."""
    beta = np.arange(4.0)

    np.testing.assert_array_equal(oracle.layer_norm(np.full(4, 7.0), one, beta, Choices(eps=1e-5)), beta)


@given(seeds)
def test_invariant_under_shift_and_scale(rng):
    """layer_norm(a e + b) = layer_norm(e) for a > 0: only the direction of the centred vector matters."""
    e, gamma, beta = rng.normal(size=(3, 8))

    moved = oracle.layer_norm(3 * e + 5, gamma, beta)

    np.testing.assert_allclose(moved, oracle.layer_norm(e, gamma, beta), rtol=0, atol=1e-12)


@given(seeds)
def test_scale_and_offset_fold_into_the_next_line(rng):
    """W (gamma * e^ + beta) + b = (W diag gamma) e^ + (W beta + b)."""
    e, gamma, beta = rng.normal(size=(3, 8))
    W, b = rng.normal(size=(5, 8)), rng.normal(size=5)

    applied = W @ oracle.layer_norm(e, gamma, beta) + b

    folded = (W * gamma) @ oracle.layer_norm(e, np.ones(8), np.zeros(8)) + (W @ beta + b)
    np.testing.assert_allclose(applied, folded, rtol=0, atol=1e-13)


@given(seeds)
def test_rms_norm_is_layer_norm_of_a_centred_vector(rng):
    """RMSnorm is Algorithm 6 with m = 0 and beta = 0: equal on vectors whose mean is 0."""
    e, gamma = rng.normal(size=(2, 8))
    e = e - e.mean()

    np.testing.assert_allclose(
        oracle.RMSnorm(e, gamma, Zero()), oracle.layer_norm(e, gamma, Zero()), rtol=0, atol=1e-13
    )


def test_rms_norm_by_hand():
    """(3, 4) has root mean square sqrt(12.5); the mean is not removed."""
    np.testing.assert_allclose(
        oracle.RMSnorm(np.array([3.0, 4.0]), np.ones(2), Zero()), np.array([3, 4]) / np.sqrt(12.5), rtol=0, atol=1e-15
    )


def test_rms_norm_of_zero():
    """RMSnorm of the zero vector without eps is an error."""
    with pytest.raises(AlgorithmError, match="all 2 numbers of e are 0"):
        oracle.RMSnorm(np.zeros(2), np.ones(2), Zero())

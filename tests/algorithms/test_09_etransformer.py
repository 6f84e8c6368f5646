"""Algorithm 9: the encoder."""

import numpy as np
import pytest
from hypothesis import given

from strategies import seeds, sequences
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import ETransformerConfig

SIZES = {"N_V": 7, "ell_max": 6, "L": 2, "H": 2, "d_e": 4, "d_mlp": 5}


@given(seeds, sequences(7))
def test_columns_are_distributions(rng, x):
    """Every column of P is a distribution, also where the last projection has another width (E2: W_u is N_V x d_f)."""
    c = ETransformerConfig(**SIZES, d_f=3)

    P = oracle.ETransformer(x, oracle.random_theta(c, rng), c)

    np.testing.assert_allclose(P.sum(0), np.ones(len(x)), rtol=0, atol=1e-14)


def test_bidirectional():
    """The last token changes the first column."""
    c = ETransformerConfig(**SIZES)
    theta = oracle.random_theta(c, np.random.default_rng(0))

    difference = oracle.ETransformer([1, 2, 3], theta, c) - oracle.ETransformer([1, 2, 4], theta, c)

    assert np.abs(difference[:, 0]).max() > 1e-5


@given(seeds, sequences(7, least=2, most=6))
def test_equivariance_without_positions(rng, x):
    """Without positions the encoder commutes with permutations of the tokens."""
    c = ETransformerConfig(**SIZES, positions="none")
    theta, p = oracle.random_theta(c, rng), rng.permutation(len(x))

    permuted = oracle.ETransformer([x[k] for k in p], theta, c)

    np.testing.assert_allclose(permuted, oracle.ETransformer(x, theta, c)[:, p], rtol=0, atol=1e-13)


def test_one_segment_folds_into_the_positions():
    """If all tokens are in segment 1, W_s is the same as adding its first column to every position (spec 6.2)."""
    c = ETransformerConfig(**SIZES, segments=2, absent=frozenset({"b_u"}))
    plain = ETransformerConfig(**SIZES)
    theta = oracle.random_theta(c, np.random.default_rng(0))
    folded = theta.map(np.copy)
    folded.W_p = theta.W_p + theta.W_s[:, :1]
    del folded.W_s

    P = oracle.ETransformer([1, 2, 3], theta, c, [0, 0, 0])

    np.testing.assert_allclose(oracle.ETransformer([1, 2, 3], folded, plain), P, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("segments", "s"), [(2, []), (2, [0]), (2, [0, 2]), (0, [0, 1])])
def test_segments(segments, s):
    """A model with segments needs one per token within range; a model without takes none."""
    c = ETransformerConfig(**SIZES, segments=segments)

    with pytest.raises(AlgorithmError, match="segments"):
        oracle.ETransformer([1, 2], oracle.random_theta(c, np.random.default_rng(0)), c, s)

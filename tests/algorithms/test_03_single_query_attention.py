"""Algorithm 3: basic single-query attention."""

import math

import numpy as np
import pytest

from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle import Theta
from transformulary.paper import Full


def weights(rng, d_in=5, d_attn=3, d_out=4):
    return Theta(
        W_q=rng.normal(size=(d_attn, d_in)), b_q=rng.normal(size=d_attn),
        W_k=rng.normal(size=(d_attn, d_in)), b_k=rng.normal(size=d_attn),
        W_v=rng.normal(size=(d_out, d_in)), b_v=rng.normal(size=d_out),
    )  # fmt: skip


def test_by_hand():
    """With one query direction, alpha = softmax of q k_t / sqrt(1) and v~ the weighted mean of the values."""
    one, zero = np.ones((1, 1)), np.zeros(1)
    W = Theta(W_q=one, W_k=one, W_v=one, b_q=zero, b_k=zero, b_v=zero)
    e, context = np.array([1.0]), [np.array([0.0]), np.array([math.log(3)])]

    v_tilde = oracle.single_query_attention(e, context, W)

    np.testing.assert_allclose(v_tilde, [0.75 * math.log(3)], rtol=0, atol=1e-15)  # weights 1/4 and 3/4


def test_is_algorithm_4_with_one_query():
    """Algorithm 3 is Algorithm 4 with ell_x = 1 and Mask = 1."""
    rng = np.random.default_rng(0)
    W, X = weights(rng), rng.normal(size=(5, 7))

    v_tilde = oracle.single_query_attention(X[:, 2], list(X.T), W)

    np.testing.assert_allclose(v_tilde, oracle.Attention(X[:, 2:3], X, W, Full())[:, 0], rtol=0, atol=1e-14)


def test_empty_context():
    """Attention to nothing is 0/0: an error."""
    with pytest.raises(AlgorithmError, match="context is empty"):
        oracle.single_query_attention(np.ones(5), [], weights(np.random.default_rng(0)))

"""Algorithm 5: multi-head attention."""

import numpy as np
from hypothesis import given

from strategies import masks, seeds
from transformulary import oracle
from transformulary.oracle import random_theta
from transformulary.oracle.theta import W_qkv
from transformulary.paper import DTransformerConfig, Full


def bundle(rng, **sizes):
    usual = {"N_V": 3, "ell_max": 8, "L": 1, "H": 4, "d_e": 6, "d_mlp": 1, "d_attn": 3, "d_mid": 2}
    c = DTransformerConfig(**usual | sizes)
    return random_theta(c, rng, scale=1.0).W[0]


@given(seeds, masks)
def test_sum_over_heads(rng, mask):
    """V~ = sum over heads of W_o^h Y^h, plus one b_o: heads are stacked, not interleaved."""
    W, X = bundle(rng), rng.normal(size=(6, 5))

    V_tilde = oracle.MHAttention(X, X, W, mask)

    heads = [oracle.Attention(X, X, W_qkv(W, h, h), mask) for h in range(4)]
    expected = sum(W.W_o[:, 2 * h : 2 * h + 2] @ heads[h] for h in range(4)) + W.b_o[:, None]
    np.testing.assert_allclose(V_tilde, expected, rtol=0, atol=1e-13)


@given(seeds, masks)
def test_value_bias_folds_into_the_output_bias(rng, mask):
    """b_v can be 0 if b_o is b_o + W_o [b_v^1; ...; b_v^H]: columns of softmax sum to 1."""
    W, X = bundle(rng), rng.normal(size=(6, 5))
    folded = W.map(np.copy)
    folded.b_o = W.b_o + W.W_o @ np.concatenate(W.b_v)
    folded.b_v = [0 * b for b in W.b_v]

    difference = oracle.MHAttention(X, X, folded, mask) - oracle.MHAttention(X, X, W, mask)

    assert np.abs(difference).max() < 1e-13


@given(seeds)
def test_grouped_queries_share_keys_and_values(rng):
    """With H_kv = 2 of H = 4, heads 1, 2 use the first keys and values and heads 3, 4 the second."""
    grouped, X = bundle(rng, H_kv=2), rng.normal(size=(6, 5))
    full = grouped.map(np.copy)
    for name in ("W_k", "b_k", "W_v", "b_v"):
        one, two = getattr(grouped, name)
        setattr(full, name, [one, one, two, two])

    np.testing.assert_array_equal(oracle.MHAttention(X, X, grouped, Full()), oracle.MHAttention(X, X, full, Full()))


def test_order_of_concatenation():
    """Rows of Y are head by head: values 0..7 for two heads give [0,1,4,5] and [2,3,6,7], not interleaved."""
    W = bundle(np.random.default_rng(0), H=2, d_e=4, d_attn=2, d_mid=2)
    values = np.arange(8.0).reshape(2, 2, 2)  # head, token, width
    X = np.eye(4)[:, :2]
    for h in range(2):
        W.W_q[h], W.b_q[h] = 1e4 * np.eye(2, 4), 0 * W.b_q[h]  # every token attends to itself
        W.W_k[h], W.b_k[h] = np.eye(2, 4), 0 * W.b_k[h]
        W.W_v[h], W.b_v[h] = np.hstack([values[h].T, np.zeros((2, 2))]), 0 * W.b_v[h]

    Y = oracle.record("MHAttention", X, X, W, Full())["5.3"]

    np.testing.assert_array_equal(Y.T, [[0, 1, 4, 5], [2, 3, 6, 7]])

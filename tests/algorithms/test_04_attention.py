"""Algorithm 4: attention of one head."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from strategies import causal_masks, masks, seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle import Theta
from transformulary.paper import Causal, Choices, Full

NO_BIASES = {"b_q": np.zeros(2), "b_k": np.zeros(2), "b_v": np.zeros(2)}
IDENTITY = Theta(W_q=np.eye(2), W_k=np.eye(2), W_v=np.eye(2), **NO_BIASES)


def weights(rng, d_x=4, d_z=4, d_attn=3, d_out=2):
    return Theta(
        W_q=rng.normal(size=(d_attn, d_x)), b_q=rng.normal(size=d_attn),
        W_k=rng.normal(size=(d_attn, d_z)), b_k=rng.normal(size=d_attn),
        W_v=rng.normal(size=(d_out, d_z)), b_v=rng.normal(size=d_out),
    )  # fmt: skip


def attended(Q, V, mask, **choices):
    """Attention where queries are keys and the values are given, without projections."""
    d = len(V)
    W = Theta(W_q=np.eye(len(Q)), W_k=np.eye(len(Q)), W_v=np.hstack([np.zeros((d, len(Q))), np.eye(d)]),
              b_q=np.zeros(len(Q)), b_k=np.zeros(len(Q)), b_v=np.zeros(d))  # fmt: skip
    W.W_k = np.hstack([W.W_k, np.zeros((len(Q), d))])
    return oracle.Attention(Q, np.vstack([Q, V]), W, mask, Choices(**choices))


def test_causal_by_hand():
    """With equal scores every token averages what it may see: 1, (1 + 2)/2, (1 + 2 + 4)/3."""
    V_tilde = attended(np.zeros((1, 3)), np.array([[1.0, 2.0, 4.0]]), Causal())

    np.testing.assert_allclose(V_tilde, [[1, 1.5, 7 / 3]], rtol=0, atol=1e-15)


def test_scale_is_of_the_head():
    """Scores are divided by sqrt(d_attn) of the head: q = k_1 = (1,1,1,1), k_2 = 0 gives weights .880797, .119203."""
    Q, Z = np.ones((4, 1)), np.array([[1.0, 0.0]] * 4)
    W = Theta(W_q=np.eye(4), W_k=np.eye(4), W_v=np.eye(4), b_q=np.zeros(4), b_k=np.zeros(4), b_v=np.zeros(4))
    values = oracle.record("Attention", Q, Z, W, Full())

    alpha = values["4.6:softmax"][:, 0]

    np.testing.assert_allclose(alpha, [0.880797, 0.119203], rtol=0, atol=5e-7)


def test_masked_by_hand():
    """The rows that a mask leaves: worked example with keys (1,0), (0,1), (1,1) and one key hidden."""
    Q, V = np.array([[1.0, 0, 1], [0, 1, 1]]), np.array([[1.0, 3, 5], [2, 4, 6]])
    keep = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1]], dtype=bool).T  # [key, query]

    V_tilde = attended(Q, V, lambda t_z, t_x: keep[t_z, t_x])

    np.testing.assert_allclose(V_tilde[:, 0], [1.660477, 2.660477], rtol=0, atol=5e-7)
    np.testing.assert_allclose(V_tilde[:, 2], [3.510470, 4.510470], rtol=0, atol=5e-7)


def test_a_token_that_may_attend_to_nothing():
    """A fully masked column is 0/0: an error naming the line and the column (E9)."""
    keep = np.array([[1, 0, 1]] * 3, dtype=bool)

    with pytest.raises(AlgorithmError, match=r"Algorithm 4, line 6 \(4\.6\): softmax of column 2"):
        oracle.Attention(np.ones((2, 3)), np.ones((2, 3)), IDENTITY, lambda t_z, t_x: keep[t_z, t_x])


def test_mask_must_be_boolean():
    """A float mask is refused: it would be a bias; 0/1 integers are taken as boolean."""
    X = np.ones((2, 3))

    with pytest.raises(AlgorithmError, match="true means may attend"):
        oracle.Attention(X, X, IDENTITY, lambda t_z, t_x: (t_z <= t_x) * 1.0)
    np.testing.assert_array_equal(
        oracle.Attention(X, X, IDENTITY, lambda t_z, t_x: (t_z <= t_x) * 1), oracle.Attention(X, X, IDENTITY, Causal())
    )


@given(seeds, causal_masks, st.integers(1, 5))
def test_causal_bitwise(rng, mask, t):
    """Under a causal mask, changing tokens after t changes no bit of columns 1..t."""
    W, X = weights(rng), rng.normal(size=(4, 6))
    other = np.hstack([X[:, :t], rng.normal(size=(4, 6 - t))])

    before = oracle.Attention(X, X, W, mask)
    after = oracle.Attention(other, other, W, mask)

    np.testing.assert_array_equal(after[:, :t], before[:, :t])


@given(seeds)
def test_permutation(rng):
    """Without a mask, permuting the context changes nothing, and permuting the primary tokens permutes the result."""
    W, X, Z = weights(rng), rng.normal(size=(4, 5)), rng.normal(size=(4, 6))
    p, q = rng.permutation(5), rng.permutation(6)

    permuted = oracle.Attention(X[:, p], Z[:, q], W, Full())

    np.testing.assert_allclose(permuted, oracle.Attention(X, Z, W, Full())[:, p], rtol=0, atol=1e-14)


@given(seeds, masks)
def test_key_bias_is_invisible(rng, mask):
    """b_k adds a constant to every column of S, which softmax removes."""
    W, X = weights(rng), rng.normal(size=(4, 5))
    other = W.map(np.copy)
    other.b_k = other.b_k + 1

    difference = oracle.Attention(X, X, other, mask) - oracle.Attention(X, X, W, mask)

    assert np.abs(difference).max() < 1e-13


@given(seeds, masks)
def test_no_scale_is_a_longer_query(rng, mask):
    """Attention without 1/sqrt(d_attn) is Algorithm 4 with W_q and b_q multiplied by sqrt(d_attn)."""
    W, X = weights(rng), rng.normal(size=(4, 5))
    longer = W.map(np.copy)
    longer.W_q, longer.b_q = math.sqrt(3) * W.W_q, math.sqrt(3) * W.b_q

    unscaled = oracle.Attention(X, X, W, mask, Choices(scale="none"))

    np.testing.assert_allclose(unscaled, oracle.Attention(X, X, longer, mask), rtol=0, atol=1e-13)


@given(seeds, st.integers(0, 50))
def test_rotary_scores_depend_on_distance(rng, shift):
    """<rotate(q, s + n), rotate(k, t + n)> does not depend on n: rotary positions are relative."""
    q, k, c = rng.normal(size=6), rng.normal(size=6), Choices(positions="rotary")

    moved = oracle.rotate(q, 3 + shift, 60, c) @ oracle.rotate(k, 1 + shift, 60, c)

    np.testing.assert_allclose(moved, oracle.rotate(q, 3, 60, c) @ oracle.rotate(k, 1, 60, c), rtol=0, atol=1e-12)


def test_rotary_by_hand():
    """Halves are paired, not neighbours: (1, 0, 0, 0) turns into (cos t, 0, sin t, 0)."""
    q_hat = oracle.rotate(np.array([1.0, 0, 0, 0]), 2, 3, Choices(positions="rotary"))

    np.testing.assert_allclose(q_hat, [math.cos(2), 0, math.sin(2), 0], rtol=0, atol=1e-15)


def test_relative_is_transformer_xl():
    """Gopher's scores are the four terms of Transformer-XL, here with its padded and shifted matrix product."""
    rng = np.random.default_rng(3)
    d_e, d, ell = 4, 2, 5
    W, X = weights(rng, d_attn=d, d_out=d), rng.normal(size=(d_e, ell))
    W.u, W.v, W.W_r = rng.normal(size=d), rng.normal(size=d), rng.normal(size=(d, d_e))
    c = type("C", (), {"positions": "relative", "d_e": d_e, "scale": "sqrt", "qk_norm": False, "dropout": None})()

    S = oracle.record("Attention", X, X, W, Causal(), c)["4.4"]

    Q, K = W.W_q @ X + W.b_q[:, None], W.W_k @ X + W.b_k[:, None]
    omega = 10000.0 ** (-2 * np.arange(d_e // 2) / d_e)
    R = np.stack([np.concatenate([np.sin(n * omega), np.cos(n * omega)]) for n in range(ell - 1, -1, -1)], 1)
    by_distance = (Q + W.v[:, None]).T @ W.W_r @ R  # [query, distance ell-1 ... 0]
    padded = np.hstack([np.zeros((ell, 1)), by_distance]).reshape(ell + 1, ell)[1:].reshape(ell, ell)
    expected = ((Q + W.u[:, None]).T @ K + padded).T
    seen = np.triu(np.ones((ell, ell), bool))
    np.testing.assert_allclose(S[seen], expected[seen], rtol=0, atol=1e-13)


def test_t5_buckets():
    """Near distances have a bucket each, far ones share; T5's table for both directions and for the past only."""
    from transformulary.oracle.notation import bucket

    both = [bucket(r, Full()) for r in (-200, -9, -7, -1, 0, 1, 7, 8, 12, 127, 200)]
    past = [bucket(r, Causal()) for r in (3, 0, -1, -15, -16, -20, -127, -500)]

    assert both == [15, 8, 7, 1, 0, 17, 23, 24, 25, 31, 31]
    assert past == [0, 0, 1, 15, 16, 17, 31, 31]


@pytest.mark.parametrize("mask", [Full(), Causal()], ids=str)
def test_t5_buckets_are_those_of_transformers(mask):
    """Encoder and decoder of the published T5 have the same bucket for every distance."""
    from transformers.models.t5.modeling_t5 import T5Attention

    from transformulary.oracle.notation import bucket

    distances = torch.arange(-600, 601)
    theirs = T5Attention._relative_position_bucket(distances, bidirectional=not mask.causal)

    assert theirs.tolist() == [bucket(delta, mask) for delta in distances.tolist()]


@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_queries_and_keys_are_normed_before_they_turn(norm):
    """Lines 1a and 2a: a head attends as if its queries and keys had been normed by Algorithm 6 beforehand."""
    rng = np.random.default_rng(0)
    c = Choices(norm=norm, eps=1e-3, positions="rotary", qk_norm=True)
    gammas = {name: rng.normal(size=4) for name in ("gamma_q", "beta_q", "gamma_k", "beta_k")}
    W, X = Theta(**vars(weights(rng, d_attn=4)) | gammas), rng.normal(size=(4, 3))
    Q, K = W.W_q @ X + W.b_q[:, None], W.W_k @ X + W.b_k[:, None]
    alike = oracle.layer_norm if norm == "layer_norm" else oracle.RMSnorm
    Q = np.stack([alike(q, W.gamma_q, W.beta_q, c) for q in Q.T], 1)
    K = np.stack([alike(k, W.gamma_k, W.beta_k, c) for k in K.T], 1)
    both = np.concatenate([Q, K, W.W_v @ X + W.b_v[:, None]])
    normed = {name: np.eye(10)[at] for name, at in (("W_q", slice(4)), ("W_k", slice(4, 8)), ("W_v", slice(8, 10)))}
    zeros = {"b_q": np.zeros(4), "b_k": np.zeros(4), "b_v": np.zeros(2)}

    V_tilde = oracle.Attention(X, X, W, Causal(), c)

    expected = oracle.Attention(both, both, Theta(**normed, **zeros), Causal(), Choices(positions="rotary"))
    np.testing.assert_allclose(V_tilde, expected, rtol=0, atol=1e-14)

"""An attention in NumPy.  `transformulary conform examples/numpy_attention.py` says what is wrong with it."""

import numpy as np

TOKENS = "rows"


def attention(X, Z, weights, mask):
    """One head: every row of X looks things up in the rows of Z, where mask[query, key] is true."""
    Q = X @ weights.W_q.T + weights.b_q
    K = Z @ weights.W_k.T + weights.b_k
    V = Z @ weights.W_v.T + weights.b_v
    scores = Q @ K.T / Q.shape[-1]
    scores = np.where(mask, scores, -np.inf)
    A = np.exp(scores - scores.max(-1, keepdims=True))
    return A / A.sum(-1, keepdims=True) @ V

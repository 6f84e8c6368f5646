"""A decoder "like GPT" as a tutorial describes it, in NumPy, and adapters that hold it against the paper.

`transformulary conform examples/like_gpt.py` says in what it is not like GPT; docs/worked-examples.md explains it.
"""

import numpy as np

TOKENS = "rows"


def softmax(scores):
    """Each row becomes weights that sum to 1."""
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def self_attention(q, k, v):
    """One head; whatever is in the sequence may be looked at."""
    return softmax(q @ k.T / np.sqrt(k.shape[-1])) @ v


def gelu(x):
    """The tanh form."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def norm(X, gamma, beta):
    """Layer norm of each row."""
    return (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * gamma + beta


def block(X, w):
    """Attention, then the MLP; each is added to its input, and the sum is normed."""
    q, k, v = X @ w.W_q.T + w.b_q, X @ w.W_k.T + w.b_k, X @ w.W_v.T + w.b_v
    heads = [self_attention(*head) for head in zip(*(np.split(y, w.H, -1) for y in (q, k, v)), strict=True)]
    X = norm(X + np.concatenate(heads, -1) @ w.W_o.T + w.b_o, w.gamma_1, w.beta_1)
    return norm(X + gelu(X @ w.W_mlp1.T + w.b_mlp1) @ w.W_mlp2.T + w.b_mlp2, w.gamma_2, w.beta_2)


def attention(X, Z, weights, mask):
    """One adapter: a head. What the tutorial has no place for, the mask, stays unused."""
    w = weights
    return self_attention(X @ w.W_q.T + w.b_q, Z @ w.W_k.T + w.b_k, Z @ w.W_v.T + w.b_v)


def model(tokens, weights):
    """Another: the whole model, with the embeddings and the unembedding that the tutorial leaves out."""
    X = weights.W_e[tokens] + weights.W_p[: len(tokens)]
    for layer in weights.layers:
        X = block(X, layer)
    return X @ weights.W_u.T

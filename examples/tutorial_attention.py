"""Attention as many tutorials teach it, in PyTorch, and an adapter that holds it against the paper.

`transformulary conform examples/tutorial_attention.py` finds two things to mend; docs/worked-examples.md explains them.
"""

import torch
import torch.nn.functional as F

TOKENS, ARRAY = "rows", torch.from_numpy


def scaled_dot_product_attention(q, k, v, mask):
    """(output, weights): masked scores become a very large negative number."""
    scores = q @ k.mT / k.shape[-1] ** 0.5
    weights = scores.masked_fill(~mask, -1e9).softmax(-1)
    return weights @ v, weights


def attention(X, Z, weights, mask):
    """The adapter. It unpacks the two results as the tutorial itself goes on to do."""
    q, k, v = (
        F.linear(Y, W, b)
        for Y, W, b in (
            (X, weights.W_q, weights.b_q),
            (Z, weights.W_k, weights.b_k),
            (Z, weights.W_v, weights.b_v),
        )
    )
    attention_weights, output = scaled_dot_product_attention(q, k, v, mask)
    return output, attention_weights

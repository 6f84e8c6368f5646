"""Lines 4-6 of Algorithm 4 by the fastest kernel that does them, and the attention weights that it used."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from transformulary.nn.scores import Keys, Queries, Scores, Values
from transformulary.nn.sparse import attend_in_parts, worthwhile

Outcome = Float[Tensor, "B H ell_x d_mid"]


def attend(Q: Queries, K: Keys, V: Values, scores: Scores, dropout: float = 0.0) -> Outcome:
    """softmax(S / sqrt(d_attn)) V, lines 4-6 of Algorithm 4.

    Query head h asks key/value head ceil(h H_kv / H).  A query that may attend to nothing gets 0, and no value leaks
    out of a slot that is masked for a query, NaN and infinity included.

    Raises AlgorithmError for a mask that is neither boolean nor made of the integers 0 and 1.
    """
    scores, K, V = scores.near(Q, K, V)
    options: dict[str, Any] = {"dropout_p": dropout, "scale": scores.scale, "enable_gqa": Q.shape[1] != K.shape[1]}
    if parts := worthwhile(scores, Q, K):
        Y = attend_in_parts(Q, K, V, scores, parts, dropout)
    else:
        Y = F.scaled_dot_product_attention(Q, K, V, **scores.options(Q, K), **options)
    return Y if _finite(Y) else _quarantined(Q, K, V, scores, options)


def weigh(Q: Queries, K: Keys, scores: Scores) -> Float[Tensor, "B H ell_x ell_z"]:
    """The softmax of line 6 of Algorithm 4, one row per query; a query that may attend to nothing has zeros."""
    allowed = scores.allowed(Q, K)
    S = scores.scaled(Q, K).masked_fill(~allowed, -math.inf)
    return S.softmax(-1).masked_fill(~allowed, 0)


def _finite(Y: Tensor) -> bool:
    """A sum shows every NaN and infinity at the price of one pass; a compiled graph cannot ask."""
    return torch.compiler.is_compiling() or bool(Y.detach().sum().isfinite())


def _quarantined(Q: Queries, K: Keys, V: Values, scores: Scores, options: dict[str, Any]) -> Outcome:
    """The same attention where some key or value is not finite: NaN for the queries that may see one, and only those.

    The kernels multiply a masked value by its weight 0, and 0 times NaN is NaN.
    """
    sound = K.isfinite().all(-1, keepdim=True) & V.isfinite().all(-1, keepdim=True)
    allowed = scores.allowed(Q, K)
    K, V = K.where(sound, 0), V.where(sound, 0)
    Y = F.scaled_dot_product_attention(Q, K, V, **scores.options(Q, K), **options)
    ill = (allowed & ~sound.mT).any(-1, keepdim=True)
    return Y.masked_fill(ill.repeat_interleave(Q.shape[1] // K.shape[1], 1), torch.nan)

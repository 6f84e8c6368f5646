"""Lines 4-6 of Algorithm 4 by the fastest kernel that does them, and the attention weights that it used."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from transformulary.nn.scores import Scores
from transformulary.nn.sparse import Keys, Queries, Values, repeated

Outcome = Float[Tensor, "B H ell_x d_mid"]


def attend(Q: Queries, K: Keys, V: Values, scores: Scores, dropout: float = 0.0) -> Outcome:
    """softmax(S / sqrt(d_attn)) V, lines 4-6 of Algorithm 4.

    Query head h asks key/value head ceil(h H_kv / H).  A query that may attend to nothing gets 0, and no value leaks
    out of a slot that is masked for a query, NaN and infinity included.

    Raises AlgorithmError for a mask that is neither boolean nor made of the integers 0 and 1.
    """
    plan = scores.plan(Q, K)
    Y = plan(Q, K, V, scores.scale, dropout)
    if _finite(Y):
        return Y
    # The kernels multiply a masked value by its weight 0, and 0 times NaN is NaN: compute without what is not finite,
    # and say NaN for the queries that may see it.
    sound = K.isfinite().all(-1, keepdim=True) & V.isfinite().all(-1, keepdim=True)
    ill = (scores.allowed(Q, K) & ~repeated(sound, Q).mT).any(-1, keepdim=True)
    return plan(Q, K.where(sound, 0), V.where(sound, 0), scores.scale, dropout).masked_fill(ill, torch.nan)


def weigh(Q: Queries, K: Keys, scores: Scores) -> Float[Tensor, "B H ell_x ell_z"]:
    """The softmax of line 6 of Algorithm 4, one row per query; a query that may attend to nothing has zeros."""
    allowed = scores.allowed(Q, K)
    S = scores.scaled(Q, K).masked_fill(~allowed, -math.inf)
    return S.softmax(-1).masked_fill(~allowed, 0)


def _finite(Y: Tensor) -> bool:
    """A sum shows every NaN and infinity at the price of one pass; a compiled graph cannot ask."""
    return torch.compiler.is_compiling() or bool(Y.detach().sum().isfinite())

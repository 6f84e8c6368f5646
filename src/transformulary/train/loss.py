"""Line 5 of Algorithm 13."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformulary.data import NO_TOKEN


def total_loss(logits: Float[Tensor, "B ell N_V"], targets: Int[Tensor, "B ell"]) -> Float[Tensor, ""]:
    """- sum of log P[targets[b, t], t] over all real targets, in nats, at least in float32.

    NO_TOKEN is no target.  Without any target the sum is 0 and so is its gradient.
    """
    exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return F.cross_entropy(exact.flatten(0, 1), targets.flatten(), ignore_index=NO_TOKEN, reduction="sum")


def count(targets: Int[Tensor, "B ell"]) -> int:
    """How many real targets there are."""
    return int((targets != NO_TOKEN).sum())

"""AdamW with decoupled decay of matrices, and the norm of a gradient."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from transformulary.paper.settings import TrainingSettings


def decays(name: str, parameter: Tensor) -> bool:
    """Weight decay is for matrices: not for norms, biases and embeddings of positions."""
    return parameter.ndim >= 2 and "W_p" not in name.split(".")


def adamw(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """Line 6 of Algorithm 13 as it is done today: AdamW (arXiv:1711.05101), all parameters in one kernel.

    epsilon is added to the root of the bias-corrected mean square; decay is eta * weight_decay * theta.
    """
    s = settings
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    groups = [
        {"params": [p for name, p in named if decays(name, p)], "weight_decay": s.weight_decay},
        {"params": [p for name, p in named if not decays(name, p)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [g for g in groups if g["params"]], lr=s.eta, betas=(s.beta_1, s.beta_2), eps=s.epsilon, fused=True
    )


def clip_gradient(parameters: Iterable[Tensor], largest: float) -> float:
    """The norm of the gradient; if it exceeds `largest` (0 = no limit), the gradient is scaled down to it, in place."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if 0 < largest < norm:
        torch._foreach_mul_(gradients, largest / norm)
    return norm

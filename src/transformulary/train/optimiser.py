"""AdamW with decoupled decay of matrices, and the norm of a gradient."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from transformulary.paper.parameters import PLACES, TOKENS
from transformulary.paper.settings import TrainingSettings


def decays(name: str, parameter: Tensor) -> bool:
    """Weight decay is for matrices: not for norms, biases and embeddings of positions."""
    return parameter.ndim >= 2 and not set(PLACES) & set(name.split("."))


def embeds(name: str) -> bool:
    """Tables of the embedding (and W_u where it is W_e) may have a learning rate of their own."""
    return name.removesuffix(".weight") in TOKENS + PLACES


def adamw(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """Line 6 of Algorithm 13 as it is done today: AdamW (arXiv:1711.05101), all parameters in one kernel.

    epsilon is added to the root of the bias-corrected mean square; decay is eta * weight_decay * theta.
    `set_rate` gives it the learning rate of each step.
    """
    s = settings
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for name, p in model.named_parameters():
        multiple = s.eta_embedding if embeds(name) else 1.0
        decay = s.weight_decay if decays(name, p) else 0.0
        groups.setdefault((multiple, decay), []).append(p)
    described = [{"params": ps, "multiple": m, "weight_decay": decay} for (m, decay), ps in groups.items()]
    return torch.optim.AdamW(described, lr=s.eta, betas=(s.beta_1, s.beta_2), eps=s.epsilon, fused=True)


def set_rate(optimiser: torch.optim.AdamW, eta: float) -> None:
    """The learning rate of the next step: eta, or the multiple of it that a group has."""
    for group in optimiser.param_groups:
        group["lr"] = eta * group["multiple"]


def clip_gradient(parameters: Iterable[Tensor], largest: float) -> float:
    """The norm of the gradient; if it exceeds `largest` (0 = no limit), the gradient is scaled down to it, in place."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if 0 < largest < norm:
        torch._foreach_mul_(gradients, largest / norm)
    return norm

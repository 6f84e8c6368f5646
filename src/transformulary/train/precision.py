"""float32, bfloat16 or float64: of the products, and of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter

import torch
from torch import nn

from transformulary.nn import DTransformer

#: precision -> (type of the parameters, context in which the model is applied)
PRECISIONS: dict[str, tuple[torch.dtype, Callable[[], AbstractContextManager[object]]]] = {
    "float32": (torch.float32, nullcontext),
    "bfloat16": (torch.float32, lambda: torch.autocast("cpu", torch.bfloat16)),
    "float64": (torch.float64, nullcontext),
}


def choose(model: DTransformer, loss: Callable[[], torch.Tensor], repeats: int = 3) -> str:
    """What "auto" means for this model here: float64 if it is float64, else the faster of float32 and bfloat16.

    `loss` applies the model to one batch of the size it will be trained on.  Each of the two precisions goes
    forth and back a few times, in turn, and the fastest round counts: no processor is known by name.  No
    gradient, random number or mode of the model is left changed.
    """
    if next(model.parameters()).dtype == torch.float64:
        return "float64"
    rounds = [{p: _seconds(model, loss, p) for p in ("float32", "bfloat16")} for _ in range(1 + repeats)]
    fastest = {p: min(r[p] for r in rounds[1:]) for p in rounds[0]}  # the first round warms up
    return min(fastest, key=lambda p: fastest[p])


def _seconds(model: nn.Module, loss: Callable[[], torch.Tensor], precision: str) -> float:
    parameters = [p for p in model.parameters() if p.requires_grad]
    with torch.random.fork_rng(devices=[]):
        began = perf_counter()
        with PRECISIONS[precision][1]():
            value = loss()
        torch.autograd.grad(value, parameters, allow_unused=True)
        return perf_counter() - began

"""How a PyTorch model is called, whoever wrote it: by the names of `transformers` where it has them, else in order."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from transformulary.paper import Read


def call(model: nn.Module, rows: Sequence[Read], **more: Any) -> Any:
    """What a model returns for a batch of what it reads; each row as long as the others.

    x alone is its first argument.  Segments are token_type_ids if it has that, else its second.  A context is
    input_ids, with decoder_input_ids for x, if it has that, else its first, and x its second.
    """
    x = ids(model, [row.x for row in rows])
    if rows[0].z:
        z = ids(model, [row.z for row in rows])
        if _named(model, "decoder_input_ids"):
            return model(input_ids=z, decoder_input_ids=x, **more)
        return model(z, x, **more)
    if rows[0].s:
        s = ids(model, [row.s for row in rows])
        return model(x, token_type_ids=s, **more) if _named(model, "token_type_ids") else model(x, s, **more)
    return model(x, **more)


def _named(model: nn.Module, name: str) -> bool:
    """Whether `forward` has such an argument, or takes any and is called as those of `transformers` are."""
    arguments = inspect.signature(model.forward).parameters
    others = any(argument.kind is argument.VAR_KEYWORD for argument in arguments.values())
    return name in arguments or (others and "attention_mask" in arguments)


def parameters(model: nn.Module) -> list[str]:
    """The names of the arguments of a model's `forward`."""
    return list(inspect.signature(model.forward).parameters)


def ids(model: nn.Module, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Token ids (B, ell) where the model is."""
    return torch.tensor([list(row) for row in rows], device=next(iter(tensors_of(model)), torch.empty(0)).device)


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """What a model's numbers are in: its parameters, or, without any, its other tensors."""
    return [*model.parameters()] or [tensor for _, tensor in other_tensors(model)]


def other_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of real numbers that are no parameters: buffers, and plain attributes of modules."""
    for place, module in model.named_modules():
        for name, value in [*module.named_buffers(recurse=False), *vars(module).items()]:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                yield f"{place}.{name}".lstrip("."), value

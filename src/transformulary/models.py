"""Where a checkpoint becomes a model with its tokenizer, and back: the ecosystem's files, safely read and written.

config.json             sizes and choices; in the words of a published family that can express them, else in ours
model.safetensors       the parameters
tokenizer.json          the vocabulary
generation_config.json  how to generate by default
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformulary.files import write_atomically
from transformulary.formats import (
    TIED,
    Described,
    apart,
    describe,
    format_for,
    parts,
    read_json,
    reader,
    unwrapped,
)
from transformulary.nn import DTransformer
from transformulary.tokens import Tokenizer, load_tokenizer

#: The types in which parameters may be stored.
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


@dataclass(frozen=True)
class Loaded:
    """A checkpoint in memory.

    model       in the precision in which it is stored, not training
    tokenizer   None where the folder, or the GGUF file, has none that we read
    generation  the content of generation_config.json, in its own words; empty where there is none
    """

    model: DTransformer
    tokenizer: Tokenizer | None
    generation: dict[str, Any]


def load(where: str | Path) -> Loaded:
    """A model, on the processor, with its tokenizer and its settings for generation.

    Args:
        where: a folder, a file, or the name of a model in the Hugging Face cache: all that `open_source` finds.

    Raises:
        CheckpointError: a file is missing or damaged, a tensor is missing, extra or mis-shaped, a config key has no
            rule, or the tokenizer is not the one that the model was saved with; the message names file and tensor.
    """
    described = describe(where)
    folder = described.source.folder
    generation = folder / "generation_config.json"
    return Loaded(
        model=_load_model(described),
        tokenizer=load_tokenizer(described),
        generation=read_json(generation) if generation.is_file() else {},
    )


def save(
    folder: str | Path,
    model: nn.Module,
    tokenizer: Tokenizer | None = None,
    generation: Mapping[str, Any] | None = None,
) -> None:
    """Write a folder that `load` and `transformers` read; each file is replaced whole, config.json last.

    Wherever this is cut short, the folder holds the old model, the new one, or none that `load` would take: a
    config.json that says something else goes first.

    Args:
        folder: made if it is missing.
        model: a DTransformer, compiled or wrapped or not; its precision is kept.
        tokenizer: the one that the model was trained with; its hash is stored, so that no other is taken for it.
        generation: further keys of generation_config.json, `temperature` say.
    """
    folder, model = Path(folder), bare(model)
    form = format_for(model.config)
    ends = {"bos_token_id": tokenizer and tokenizer.bos_token, "eos_token_id": tokenizer and tokenizer.eos_token}
    about = {"dtype": str(model.W_e.weight.dtype).removeprefix("torch."), **ends}
    theirs = form.write_config(model.config) | about | {"transformulary": {"tokenizer": tokenizer and tokenizer.hash}}
    config = folder / "config.json"
    if config.is_file() and config.read_text(encoding="utf-8", errors="replace") != _json(theirs):
        config.unlink()
    if tokenizer:
        tokenizer.save(folder)
    write_atomically(folder / "generation_config.json", _json({**ends, **(generation or {})}))
    write_atomically(folder / "model.safetensors", to_bytes(dict(_stored(model)), {"format": "pt"}))
    write_atomically(config, _json(theirs))


def bare(model: nn.Module) -> DTransformer:
    """The model inside what torch.compile and parallel training wrap around it."""
    while not isinstance(model, DTransformer):
        inner = next((m for name, m in model.named_children() if unwrapped(f"{name}.") == ""), None)
        assert inner is not None, f"{type(model).__name__} is no DTransformer"
        model = inner
    return model


def _stored(model: DTransformer) -> Iterator[tuple[str, Tensor]]:
    """(their name, tensor) of what a file holds."""
    config = model.config
    ours = apart(config, {unwrapped(name): tensor for name, tensor in model.state_dict().items()})
    for name, tensor in format_for(config).stored(config, ours, torch.cat):
        yield name, tensor.contiguous().cpu()


def _load_model(described: Described) -> DTransformer:
    read, config = reader(described), described.config
    with torch.device("meta"), Undrawn():  # shapes only: nothing takes memory before the file has been found right
        model = DTransformer(config)
    dtype = DTYPES[described.dtype]
    state = {
        name: nn.Parameter(torch.cat([torch.tensor(read(part), dtype=dtype) for part in parts(name)]))
        for name in model.state_dict()
        if not (config.tied and name in TIED)
    }
    state |= {twin: state[original] for twin, original in TIED.items() if config.tied}
    model.load_state_dict(state, assign=True)
    return model.eval()


class Undrawn(TorchFunctionMode):
    """Inside, nothing of torch.nn.init runs: shapes have no numbers, and PyTorch takes seconds to find that out."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawn = getattr(func, "__module__", "") == nn.init.__name__
        return (*args, *kwargs.values())[0] if drawn else func(*args, **(kwargs or {}))


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"

"""Where a folder becomes a model with its tokenizer, and back: the ecosystem's files, safely read and written.

config.json             sizes and choices; GPT-2's where GPT-2 can express them, else our own
model.safetensors       the parameters
tokenizer.json          the vocabulary
generation_config.json  how to generate by default
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformulary.errors import CheckpointError
from transformulary.files import write_atomically
from transformulary.formats import (
    TIED,
    Described,
    Entry,
    Source,
    describe,
    format_for,
    read_header,
    read_json,
    unwrapped,
)
from transformulary.nn import DTransformer
from transformulary.paper import DTransformerConfig, leaves, parameters
from transformulary.tokens import Tokenizer


@dataclass(frozen=True)
class Loaded:
    """A folder in memory.

    model       in the precision in which it is stored, not training
    tokenizer   None where the folder has none
    generation  the content of generation_config.json, in its own words; empty where there is none
    """

    model: DTransformer
    tokenizer: Tokenizer | None
    generation: dict[str, Any]


def load(folder: str | Path) -> Loaded:
    """The model of a folder, on the processor, with its tokenizer and its settings for generation.

    Raises:
        CheckpointError: a file is missing or damaged, a tensor is missing, extra or mis-shaped, a config key has no
            rule, or the tokenizer is not the one that the model was saved with; the message names file and tensor.
    """
    folder = Path(folder)
    described = describe(folder)
    generation = folder / "generation_config.json"
    return Loaded(
        model=_load_model(folder, described),
        tokenizer=_load_tokenizer(folder, described),
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
    """(their name, tensor) of what a file holds: one copy of what is tied."""
    tensors = {unwrapped(name): tensor for name, tensor in model.state_dict().items()}
    kept = [name for name in tensors if not (model.config.tied and name in TIED)]
    for name, source in format_for(model.config).sources(kept, model.config.L):
        yield source.name, source.save(tensors[name]).contiguous().cpu()


def _load_model(folder: Path, described: Described) -> DTransformer:
    path, config = folder / "model.safetensors", described.config
    if not path.is_file():
        raise CheckpointError(f"{folder} has no model.safetensors. (Pickled and sharded checkpoints are not read.)")
    header = read_header(path)
    _check_size(path, config, header)
    with torch.device("meta"), Undrawn():  # shapes only: nothing takes memory before the file has been found right
        model = DTransformer(config)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    plan = described.format.plan(config, shapes, header, path)
    tensors = {name: nn.Parameter(tensor) for name, tensor in _read(path, plan).items()}
    for twin, original in TIED.items() if config.tied else ():
        _check_twin(path, plan, tensors, twin, original)
        tensors[twin] = tensors[original]
    model.load_state_dict(tensors, assign=True)
    return model.eval()


class Undrawn(TorchFunctionMode):
    """Inside, nothing of torch.nn.init runs: shapes have no numbers, and PyTorch takes seconds to find that out."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawn = getattr(func, "__module__", "") == nn.init.__name__
        return (*args, *kwargs.values())[0] if drawn else func(*args, **(kwargs or {}))


def _check_size(path: Path, config: DTransformerConfig, header: Mapping[str, Entry]) -> None:
    """Absurd sizes are found out by counting: a layer has tensors, and a number takes more than a byte."""
    numbers = sum(n * prod(shape) for _, n, shape in leaves(parameters(config), config))
    if config.L > len(header) or numbers > path.stat().st_size:
        raise CheckpointError(
            f"{path} has {len(header)} tensors in {path.stat().st_size} bytes; config.json describes a model of "
            f"{config.L} layers and {numbers} numbers: they do not belong together, or one of them is damaged."
        )


def _read(path: Path, plan: Mapping[str, Source]) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: source.load(file.get_tensor(source.name)) for name, source in plan.items()}
    except SafetensorError as error:
        raise CheckpointError(f"{path}: {error}") from None


def _check_twin(
    path: Path, plan: Mapping[str, Source], tensors: Mapping[str, Tensor], twin: str, original: str
) -> None:
    if twin in tensors and not torch.equal(tensors[twin], tensors[original]):
        raise CheckpointError(
            f"{path}: {plan[twin].name} and {plan[original].name} differ, and config.json says that they are tied: "
            f"which of them is W_u is anyone's guess."
        )


def _load_tokenizer(folder: Path, described: Described) -> Tokenizer | None:
    there = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json"))
    tokenizer = Tokenizer.load(folder) if there else None
    ours = described.theirs.get("transformulary")
    if isinstance(ours, dict) and "tokenizer" in ours and ours["tokenizer"] != (tokenizer and tokenizer.hash):
        found = "that of another vocabulary" if tokenizer else "missing"
        raise CheckpointError(
            f"{folder / 'tokenizer.json'} is {found}, not the one that the model was saved with: "
            f"every token id would mean something else. Put the right file back."
        )
    if tokenizer and tokenizer.N_V > described.config.N_V:
        raise CheckpointError(
            f"{folder}: the tokenizer has N_V = {tokenizer.N_V} tokens, the model only N_V = {described.config.N_V}: "
            f"they do not belong together."
        )
    return tokenizer


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"

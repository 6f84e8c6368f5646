"""One file that training can go on from, bit by bit: parameters, moments, random state, position, settings, tokenizer.

`training.safetensors` holds tensors named `theta.NAME`, `exp_avg.NAME`, `exp_avg_sq.NAME`, `step.NAME`, `random` and,
of a run limited by time, `clock`, the seconds before each step by which its rate went; its header holds everything else
as JSON, and a checksum of that and of the tensors.  Nothing is pickled, and no other file is needed: wherever a run is
killed, this one is of one run and of one step.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer as Pipeline
from torch import Tensor

from transformulary.errors import CheckpointError
from transformulary.files import write_atomically
from transformulary.formats.state import FORMAT, NAME, Raw, checksum, read_state
from transformulary.tokens import Tokenizer

#: What is counted, and in which type.
COUNTERS: dict[str, type] = {"step": int, "seconds": float, "tokens": int, "epoch": int, "window": int}


@dataclass(frozen=True)
class State:
    """What training is at the end of one step.

    tensors   parameters, moments, random state, clock
    progress  step, seconds, tokens, epoch, window
    config    what the run was asked for: model, training, text, tokenizer
    tokenizer what made the token ids
    about     plain data of whoever started the training, kept for whoever goes on with it
    record    what happened, for whoever describes the run: sizes of the text, sessions, measurement (`Run.record`)
    """

    tensors: dict[str, Tensor]
    progress: dict[str, Any]
    config: dict[str, Any]
    tokenizer: Tokenizer
    about: Mapping[str, Any] = field(default_factory=dict)
    record: Mapping[str, Any] = field(default_factory=dict)


def save_state(folder: str | Path, state: State) -> None:
    """Write `training.safetensors`, atomically.  Raises OSError; the previous file is then untouched."""
    from transformulary import __version__

    tensors = {name: t.detach().contiguous() for name, t in state.tensors.items()}
    header = {
        "format": FORMAT,
        "progress": state.progress,
        "config": state.config,
        "tokenizer": {"pipeline": state.tokenizer.pipeline.to_str(), "special": state.tokenizer.special},
        "about": dict(state.about),
        "record": dict(state.record),
        "versions": {"transformulary": __version__, "torch": torch.__version__},
    }
    text = json.dumps(header)
    metadata = {"transformulary": text, "sha256": checksum(text, (raw(*tensor) for tensor in tensors.items()))}
    write_atomically(Path(folder) / NAME, safetensors.torch.save(tensors, metadata))


def load_state(folder: str | Path) -> State:
    """Read `training.safetensors`.

    Raises:
        CheckpointError: it is missing, truncated, damaged, or written by a later version; the message names it.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {NAME}: there is no training to resume.")
    header = read_state(path)
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged, or no training state ({error}).") from error
    match header:
        case {
            "progress": dict(progress),
            "config": {"model": dict(), "training": dict()} as config,
            "tokenizer": {"pipeline": str(pipeline), "special": dict(special)},
            "about": dict(about),
        } if all(_counts(progress.get(name), kind) for name, kind in COUNTERS.items()):
            record = header.get("record")  # which earlier versions did not keep
            tokenizer = _tokenizer(pipeline, special, path)
            return State(tensors, progress, config, tokenizer, about, record if isinstance(record, dict) else {})
    raise CheckpointError(f"{path} has values in its header that are none: it was not written by this program.")


def _counts(value: Any, kind: Any) -> bool:
    return type(value) is kind and bool(0 <= value < math.inf)


def _tokenizer(pipeline: str, special: dict[str, str], path: Path) -> Tokenizer:
    try:
        return Tokenizer(Pipeline.from_str(pipeline), special)
    except Exception as error:  # the library has no narrower class
        raise CheckpointError(f"{path} holds no tokenizer that can be read: {error}") from None


def raw(name: str, tensor: Tensor) -> Raw:
    """A tensor as `checksum` takes it."""
    return name, str(tensor.dtype), tuple(tensor.shape), tensor.reshape(-1).view(torch.uint8).numpy().data


#: What may differ when a run goes on: limits, and what changes no number.
FREE = {"training.steps", "training.seconds", "training.eval_every", "training.eval_tokens", "training.save_every"}
FREE |= {"training.compile"}


def check_same_run(saved: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raise CheckpointError unless a run that is asked for is the one that was saved, but for what is `FREE`."""
    old, new = _flat(saved), _flat(asked)
    for key in sorted(old.keys() | new.keys()):
        if key not in FREE and old.get(key) != new.get(key):
            raise CheckpointError(
                f"cannot resume with another configuration: {key} was {old.get(key)!r}, now it is {new.get(key)!r}. "
                f"Leave it as it was, or start anew."
            )


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat

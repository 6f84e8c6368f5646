"""One file that training can go on from, bit by bit: parameters, moments, random state, position, settings.

`training.safetensors` holds tensors named `theta.NAME`, `exp_avg.NAME`, `exp_avg_sq.NAME`, `step.NAME` and
`random`; its header holds everything else as JSON, with a checksum of the tensors.  Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from transformulary.errors import CheckpointError
from transformulary.files import write_atomically
from transformulary.formats import read_header

NAME = "training.safetensors"
FORMAT = 1


@dataclass(frozen=True)
class State:
    """What training is at the end of one step.

    tensors   parameters, moments and random state
    progress  step, seconds, tokens, epoch, window
    config    what the run was asked for: model, training, text, tokenizer
    """

    tensors: dict[str, Tensor]
    progress: dict[str, Any]
    config: dict[str, Any]


def save_state(folder: str | Path, state: State) -> None:
    """Write `training.safetensors`, atomically.  Raises OSError; the previous file is then untouched."""
    from transformulary import __version__

    tensors = {name: t.detach().contiguous() for name, t in state.tensors.items()}
    header = {
        "format": FORMAT,
        "progress": state.progress,
        "config": state.config,
        "sha256": _digest(tensors),
        "versions": {"transformulary": __version__, "torch": torch.__version__},
    }
    write_atomically(Path(folder) / NAME, safetensors.torch.save(tensors, {"transformulary": json.dumps(header)}))


def load_state(folder: str | Path) -> State:
    """Read `training.safetensors`.

    Raises:
        CheckpointError: it is missing, truncated, damaged, or written by a later version; the message names it.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {NAME}: there is no training to resume.")
    read_header(path)
    try:
        with safe_open(path, "pt") as file:
            header = json.loads((file.metadata() or {})["transformulary"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        state, written = State(tensors, header["progress"], header["config"]), header["format"]
        damaged = header["sha256"] != _digest(tensors)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged, or no training state ({error}).") from error
    if written != FORMAT:
        raise CheckpointError(f"{path} has format {written}; this version reads format {FORMAT}.")
    if damaged:
        raise CheckpointError(f"{path} is damaged: its tensors do not have the checksum in its header.")
    return state


def _digest(tensors: dict[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        t = tensors[name]
        digest.update(f"{name} {t.dtype} {tuple(t.shape)}".encode())
        digest.update(t.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


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

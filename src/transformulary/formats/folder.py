"""The config.json of a model's folder: which format it is in, and what it says.  Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats.format import Format
from transformulary.formats.gpt2 import GPT2
from transformulary.formats.native import NATIVE
from transformulary.formats.strict import parse_object
from transformulary.paper import DTransformerConfig

#: In the order of preference: a model is saved in the first format that can express its config.
FORMATS = (GPT2, NATIVE)


@dataclass(frozen=True)
class Described:
    """What the config.json of a folder says: in their words, in ours, and by which tables."""

    format: Format
    config: DTransformerConfig
    theirs: dict[str, Any]


def describe(folder: str | Path) -> Described:
    """Read the config.json of a folder.

    Raises CheckpointError: there is no such folder or file, it is no JSON object, its model_type is unknown, or it
    has a key without a rule, a value that we do not compute, or impossible sizes.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        what = "has no config.json" if Path(folder).is_dir() else "is no folder"
        raise CheckpointError(f"{folder} {what}: a model is a folder with config.json and model.safetensors.")
    theirs = read_json(path)
    kind = theirs.get("model_type")
    format = next((known for known in FORMATS if known.model_type == kind), None)
    if format is None:
        readable = ", ".join(known.model_type for known in FORMATS)
        raise CheckpointError(f"{path}: model_type = {kind!r} is none of those that can be read: {readable}.")
    try:
        return Described(format, format.read_config(theirs), theirs)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error}") from None


def format_for(config: DTransformerConfig) -> Format:
    """The first format that reads back exactly this config from what it writes; our own always does."""
    return next(known for known in FORMATS if known.expresses(config))


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.  Raises CheckpointError: it is none, or a key occurs twice."""
    return parse_object(path.read_bytes(), path)

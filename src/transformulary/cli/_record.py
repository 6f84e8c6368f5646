"""What a training state records of its run, checked once, when it is read: every value by its kind and its range."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import pairwise
from math import inf, isnan
from pathlib import Path
from sys import float_info
from typing import Any

from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats import read_floats
from transformulary.formats.state import RECORD, read_state
from transformulary.formats.strict import parse_object
from transformulary.paper import DTransformerConfig
from transformulary.paper.settings import TrainingSettings

#: What a precision means.
PRECISION = {
    "float32": "in float32",
    "float64": "in float64",
    "bfloat16": "products in bfloat16, all else in float32",
}


@dataclass(frozen=True)
class Kind:
    """A kind of value: what it is called, and whether a value is of it."""

    called: str
    fits: Callable[[Any], bool]


def whole(least: int = 0) -> Kind:
    """A number of things."""
    return Kind(f"a whole number, at least {least}", lambda value: type(value) is int and least <= value < 2**63)


NUMBER = Kind("a number, at least 0", lambda value: type(value) in (int, float) and 0 <= value <= float_info.max)
TEXT = Kind("text", lambda value: type(value) is str and bool(value))
SHA256 = Kind(
    "64 digits of a fingerprint", lambda value: type(value) is str and bool(re.fullmatch("[0-9a-f]{64}", value))
)
ANY = Kind("anything", lambda value: True)
PART = {"sequences": whole(), "tokens": whole()}
LEARNT = {"sequences": whole(1), "tokens": whole(1)}
SESSION = {
    "step": whole(), "steps": whole(), "seconds": NUMBER, "threads": whole(1), "machine": TEXT,
    "versions": {"transformulary": TEXT, "torch": TEXT, "python": TEXT},
}  # fmt: skip
#: The header: a table has these keys and no other, a list any number of what stands in it.
HEADER = {
    "format": ANY,
    "progress": {"step": whole(), "seconds": NUMBER, "tokens": whole(), "epoch": whole(), "window": whole()},
    "config": {
        "model": {f.name: ANY for f in fields(DTransformerConfig)},
        "training": {f.name: ANY for f in fields(TrainingSettings)},
        "sha256 of the token ids": SHA256,
        "sha256 of the tokenizer": SHA256,
    },
    "tokenizer": {"pipeline": TEXT, "special": ANY},
    "about": ANY,
    "record": {
        "version": Kind(f"{RECORD}", lambda value: type(value) is int and value == RECORD),
        "corpus": {"learnt from": LEARNT, "held out": PART},
        "sessions": [SESSION],
        "measured": ANY,
    },
    "versions": {"transformulary": TEXT, "torch": TEXT},
}
MEASURED = {"step": whole(), "nats_per_token": NUMBER, "tokens": whole(1)}
#: What `transformulary train` keeps of the texts; whoever trains from Python may keep what he likes.
ABOUT = {
    "data": {"text": [TEXT], "tokenizer": TEXT, "vocabulary": whole(), "held_out": NUMBER},
    "files": [{"name": TEXT, "characters": whole(), "sha256": SHA256}],
}


def recorded(path: Path) -> dict[str, Any]:
    """The header of a training state, with the tokenizer's pipeline as an object.

    Raises CheckpointError, naming the file and the value: it is damaged (`read_state`), of an earlier version that
    recorded less, or has a value that no run has.
    """
    header = read_state(path)
    _refuse_other_versions(header, path)
    try:
        _check(header, HEADER)
        if header["record"]["measured"] is not None:
            _check(header["record"]["measured"], MEASURED, "record.measured")
        if not isinstance(header["about"], dict) or ABOUT.keys() & header["about"].keys():
            _check(header["about"], ABOUT, "about")
        config = DTransformerConfig.from_dict(header["config"]["model"])
        settings = TrainingSettings.from_dict(header["config"]["training"])
        header["tokenizer"]["pipeline"] = _pipeline(header["tokenizer"], config.N_V, path)
        for words, holds in _facts(header, config, settings):
            if not holds:
                raise ConfigError(words)
    except ConfigError as error:
        raise CheckpointError(f"{path}: {error} Its header was not written by this program.") from None
    return header


def _refuse_other_versions(header: dict[str, Any], path: Path) -> None:
    """Raise CheckpointError where the record is of a later version, or an earlier one left something out."""
    earlier = "record" not in header
    match header.get("record"):
        case {"version": int(version)} if version != RECORD:
            raise CheckpointError(f"{path} has a record of version {version}; this version reads version {RECORD}.")
        case {"sessions": [{"step": int(first)}, *_]}:
            earlier = first > 0
    if not earlier:
        return
    raise CheckpointError(
        f"{path} was written, or begun, by an earlier version: it lacks how many sequences and tokens were learnt "
        f"from, and when, with what limits and by which versions the run went on. Train anew to have them."
    )


def _check(value: Any, wanted: Any, at: str = "") -> None:
    """Raise ConfigError, saying where, unless a value is made as `wanted` says."""
    if isinstance(wanted, Kind):
        if not wanted.fits(value):
            raise ConfigError(f"{at} = {value!r} must be {wanted.called}.")
    elif isinstance(wanted, list):
        if not isinstance(value, list) or not value:
            raise ConfigError(f"{at} = {value!r} must be a list of at least one.")
        for n, one in enumerate(value):
            _check(one, wanted[0], f"{at}[{n}]")
    else:
        if not isinstance(value, dict):
            raise ConfigError(f"{at} = {value!r} must be a table.")
        if wrong := sorted(value.keys() ^ wanted.keys()):
            raise ConfigError(f"{at or 'the header'} {'has' if wrong[0] in value else 'lacks'} {wrong[0]!r}.")
        for name, kind in wanted.items():
            _check(value[name], kind, f"{at}.{name}" if at else name)


def _pipeline(tokenizer: dict[str, Any], N_V: int, path: Path) -> dict[str, Any]:
    """The tokenizer's pipeline; its special tokens, and what the special roles are, have been checked."""
    pipeline = parse_object(tokenizer["pipeline"].encode(errors="replace"), f"{path}: its tokenizer")
    token = Kind(
        "a token: its content and its id",
        lambda t: (
            isinstance(t, dict) and TEXT.fits(t.get("content")) and type(t.get("id")) is int and 0 <= t["id"] < N_V
        ),
    )
    if pipeline.setdefault("added_tokens", []) != []:
        _check(pipeline["added_tokens"], [token], "tokenizer.added_tokens")
    _check(tokenizer["special"], Kind("a table", lambda value: isinstance(value, dict)), "tokenizer.special")
    _check(tokenizer["special"], dict.fromkeys(tokenizer["special"], TEXT), "tokenizer.special")
    return pipeline


def _facts(
    header: dict[str, Any], config: DTransformerConfig, settings: TrainingSettings
) -> Iterator[tuple[str, bool]]:
    """What holds between the values of any run, and the words where it does not."""
    step, sessions = header["progress"]["step"], header["record"]["sessions"]
    ends = [one["step"] for one in sessions[1:]] + [step]
    yield "config.model leaves something open.", config.to_dict() == header["config"]["model"]
    yield "config.training leaves something open.", settings.to_dict() == header["config"]["training"]
    yield f"precision = {settings.precision!r} is none of {', '.join(PRECISION)}.", settings.precision in PRECISION
    yield "record.sessions do not begin one after the other.", all(a["step"] < b["step"] for a, b in pairwise(sessions))
    for one, end in zip(sessions, ends, strict=True):
        yield f"a session of {one['steps']} steps is at step {end}.", one["step"] <= end <= (one["steps"] or end)
    last = sessions[-1]["steps"], sessions[-1]["seconds"]
    yield f"the last session's limits {last} are not the run's.", last == (settings.steps, settings.seconds)
    measured = header["record"]["measured"]
    if measured:
        yield f"measured after step {measured['step']} of {step}.", measured["step"] <= step


def clock(path: Path, step: int) -> list[float | None] | None:
    """The seconds before each step, None where they are not recorded; None if nowhere.

    Raises CheckpointError: they are not one for each of `step` steps, in order.
    """
    numbers = read_floats(path, "clock")
    if numbers is None:
        return None
    known = [second for second in numbers if not isnan(second)]
    if len(numbers) != step or known != sorted(known) or not all(0 <= second < inf for second in known):
        raise CheckpointError(f"{path}: its clock is not the seconds before each of {step} steps.")
    return [None if isnan(second) else second for second in numbers]

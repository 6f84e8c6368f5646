"""Options of the command line and keys of a TOML file that mean the fields of a dataclass: one text for all three."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from transformulary.errors import ConfigError

TYPES = {"int": int, "float": float}
#: Second spellings that many fingers know.
ALSO = {"eta": ("--lr",), "L": ("--layers",), "H": ("--heads",)}


def described(cls: type) -> dict[str, str]:
    """What the docstrings of a dataclass and its bases say of each field (`name  text`, with indented lines below)."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        for names, text in re.findall(r"^ {4}(\w+(?:, \w+)*) {2,}(\S.*(?:\n {8,}\S.*)*)", base.__doc__ or "", re.M):
            texts |= dict.fromkeys(names.split(", "), re.sub(r"\s+", " ", text))
    return texts


def add_fields(
    parser: Any,
    cls: type,
    defaults: Mapping[str, Any],
    leave_out: Iterable[str] = (),
    notes: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """One option for every field: `ell_max` is --ell-max.  Options that are not given are not in the namespace.

    `notes` says of some fields what the docstring of the class does not: how the option is typed.
    """
    texts = {**described(cls), **notes}
    for f in fields(cls):
        if f.name not in leave_out:
            default = defaults.get(f.name, None if f.default is MISSING else f.default)
            says = "" if default is None else f" (default: {_shown(default)})"
            help_text = texts.get(f.name, "").replace("%", "%%") + says
            spelled = ("--" + f.name.replace("_", "-"), *ALSO.get(f.name, ()))
            parser.add_argument(*spelled, dest=f.name, default=argparse.SUPPRESS, help=help_text, **_kind(f))


def _kind(f: Field[Any]) -> dict[str, Any]:
    if f.type == "bool":
        return {"action": argparse.BooleanOptionalAction}
    if f.type in TYPES:
        return {"type": TYPES[str(f.type)], "metavar": "N" if f.type == "int" else "X"}
    if f.type == "str":
        return {"metavar": "NAME"}
    return {"action": "append", "metavar": "NAME"}  # a collection: the option may be repeated


def _shown(value: Any) -> str:
    if isinstance(value, tuple | frozenset):
        return ", ".join(sorted(map(str, value)))
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def given(args: argparse.Namespace, cls: type) -> dict[str, Any]:
    """The fields that the command line gave."""
    return {f.name: getattr(args, f.name) for f in fields(cls) if hasattr(args, f.name)}


def read_toml(path: str | Path, sections: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The tables of a TOML file.  Raises ConfigError for another section, a key outside all, or a syntax error."""
    from transformulary.files import read_text

    text = read_text(path)
    try:
        content = tomllib.loads(text)
        _refuse_long(content)
    except (ValueError, RecursionError) as error:  # of syntax, or of numbers and lists beyond reason
        raise ConfigError(f"{path} is not TOML: {str(error).rstrip('.')}.") from error
    for name, table in content.items():
        if not isinstance(table, dict):
            raise ConfigError(f"{path}: {name!r} stands outside a section; the sections are {', '.join(sections)}.")
        if name not in sections:
            raise ConfigError(f"{path}: there is no section [{name}]. {nearest(name, sections)}")
    return {name: content.get(name, {}) for name in sections}


def _refuse_long(value: Any) -> None:
    """Raise ValueError for a whole number that TOML does not have."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"it has a whole number of {value.bit_length()} bits, and 64 are the most")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_long(inner)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint at what a misspelt name may have meant."""
    names = list(names)
    close = get_close_matches(name, names, 1)
    return f"Did you mean {close[0]}?" if close else f"There are: {', '.join(names)}."


def write_toml(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """The TOML text that `read_toml` reads back."""
    blocks = [
        f"[{name}]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in table.items()) for name, table in sections.items()
    ]
    return "\n".join(blocks)


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)

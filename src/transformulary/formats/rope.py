"""Rotary positions in a config.json of `transformers`: rope_theta and rope_scaling, since version 5 rope_parameters.

What may stand there, and the formulas that give a number which was left out, are those of
`transformers/modeling_rope_utils.py`.
"""

from __future__ import annotations

from math import log
from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats.format import Keys

#: The base where no key says it.
BASE = 10000.0
THETA, LENGTH = "rope_theta", "original_max_position_embeddings"

#: Their rope_type -> ours, and the numbers that it has: their name -> our field.
KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("geometric", {}),
    "linear": ("linear", {"factor": "factor"}),
    "dynamic": ("dynamic", {"factor": "factor"}),
    "yarn": (
        "yarn",
        {
            "factor": "factor",
            "beta_fast": "beta_fast",
            "beta_slow": "beta_slow",
            "attention_factor": "attention_factor",
            LENGTH: "ell_train",
        },
    ),
    "llama3": (
        "llama3",
        {"factor": "factor", "low_freq_factor": "beta_slow", "high_freq_factor": "beta_fast", LENGTH: "ell_train"},
    ),
}
#: Numbers that have no default.
NEEDED = {"linear": ["factor"], "dynamic": ["factor"], "llama3": ["factor", "low_freq_factor", "high_freq_factor"]}
#: What else may stand there, and the only value that we compute.
REQUIRED = {"partial_rotary_factor": 1.0, "truncate": True}
#: What else may stand there and changes nothing: theirs of dynamic frequencies is max_position_embeddings.
HARMLESS = {kind: {"finetuned"} | ({LENGTH} if kind == "dynamic" else set()) for kind in KINDS}


def read(theirs: dict[str, Any]) -> dict[str, Any]:
    """base, frequencies and their numbers."""
    given = _once(theirs, "rope_parameters", theirs, "rope_scaling")
    given = {"rope_type": "default"} if given is None else given
    if not isinstance(given, dict) or not given:
        raise ConfigError(f"rope_scaling = {given!r} is no table of names and numbers.")
    base = _once(given, THETA, theirs, THETA)
    kind = _once(given, "rope_type", given, "type")
    kind = "default" if kind is None else kind
    if kind not in KINDS:
        raise ConfigError(f"rope_type = {kind!r} is not computed, only {', '.join(KINDS)}.")
    frequencies, names = KINDS[kind]
    numbers = {name: value for name, value in given.items() if value is not None and name not in HARMLESS[kind]}
    numbers = _checked(kind, {name: numbers[name] for name in numbers if name not in (THETA, "rope_type", "type")})
    longest = theirs.get("max_position_embeddings")
    if LENGTH in names:
        said = (theirs.get(LENGTH), numbers.get(LENGTH), longest)
        numbers[LENGTH] = next((length for length in said if length is not None), None)
    if kind == "yarn":
        numbers = _yarn(numbers, longest)
    ours = {names[name]: value for name, value in numbers.items() if name in names}
    return {"base": BASE if base is None else base, "frequencies": frequencies, **ours}


def missing_base(theirs: dict[str, Any]) -> float | None:
    """The base that no key says, newer files in a table of its own."""
    tables = (theirs.get("rope_parameters"), theirs.get("rope_scaling"))
    return None if any(isinstance(table, dict) and THETA in table for table in tables) else BASE


def _once(one: dict[str, Any], name: str, other: dict[str, Any], also: str) -> Any:
    """The value that may stand in two places.  Raises ConfigError where both say something else."""
    a, b = one.get(name), other.get(also)
    if a is not None and b is not None and a != b:
        raise ConfigError(f"{name} = {a!r} and {also} = {b!r}: which of the two is meant is anyone's guess.")
    return b if a is None else a


def _checked(kind: str, numbers: dict[str, Any]) -> dict[str, Any]:
    names = KINDS[kind][1]
    for name, value in REQUIRED.items():
        if numbers.pop(name, value) != value:
            raise ConfigError(f"rotary positions with {name} other than {value!r} are not computed.")
    optional = {"mscale", "mscale_all_dim"} if kind == "yarn" else set()
    if unknown := sorted(set(numbers) - set(names) - optional):
        raise ConfigError(f"{unknown[0]} of rotary positions of type {kind} has no rule: it might change the numbers.")
    if missing := [name for name in NEEDED.get(kind, []) if name not in numbers]:
        raise ConfigError(f"rotary positions of type {kind} lack {missing[0]}.")
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{name} = {value!r} of rotary positions is no number.")
    return numbers


def _yarn(numbers: dict[str, Any], longest: Any) -> dict[str, Any]:
    """YaRN's defaults: the factor is that of the lengths, the attention factor grows with its logarithm."""
    factor = numbers.get("factor", longest / numbers[LENGTH] if longest else None)
    if factor is None:
        raise ConfigError("rotary positions of type yarn lack factor.")
    one, other = numbers.pop("mscale", 0), numbers.pop("mscale_all_dim", 0)
    attention = _mscale(factor, one) / _mscale(factor, other) if one and other else _mscale(factor, 1)
    return {"attention_factor": attention, "beta_fast": 32, "beta_slow": 1, **numbers, "factor": factor}


def _mscale(factor: float, scale: float) -> float:
    return 1.0 if factor <= 1 else 0.1 * scale * log(factor) + 1.0


def write(ours: dict[str, Any]) -> dict[str, Any]:
    """rope_theta and rope_scaling, which all versions of `transformers` read."""
    kind, (_, names) = next(item for item in KINDS.items() if item[1][0] == ours["frequencies"])
    scaling = {"rope_type": kind} | {theirs: ours[name] for theirs, name in names.items()}
    return {THETA: ours["base"], "rope_scaling": scaling if names else None}


ROPE = Keys((THETA, "rope_scaling", "rope_parameters", LENGTH), read, write, {THETA: missing_base})

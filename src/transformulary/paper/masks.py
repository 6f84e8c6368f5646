"""Masks as values, equation (3): mask(t_z, t_x) is true where token t_x may attend to token t_z.

One polarity everywhere: TRUE MEANS MAY ATTEND.  t_z is the position of a key (a row of the paper's
Mask), t_x that of a query (a column).  Positions count from 0; every rule below compares positions
or differences of positions, so counting from 1 changes nothing, except in `Prefix` and `Fixed`, whose
docstrings say so.  Each rule takes ints, NumPy arrays and torch tensors alike and broadcasts.

Sources: equation (3) for `Full` and `Causal`; GPT-3 (section 7 of the paper) for `Local`; the Sparse
Transformer's published code for `Strided` and `Fixed`.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass, fields
from typing import Any

from transformulary.errors import ConfigError


@dataclass(frozen=True)
class Mask:
    """A rule (t_z, t_x) -> may token t_x attend to token t_z?  `a | b` allows what either allows."""

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        raise TypeError("Mask is the common base of the rules; use Full(), Causal(), Local(width), ...")

    def __or__(self, other: Mask) -> Mask:
        return Union(*(self.members + other.members))

    @property
    def members(self) -> tuple[Mask, ...]:
        return (self,)

    @property
    def causal(self) -> bool:
        """True where no token may look at a later one (so keys and values can be cached)."""
        return True

    def __str__(self) -> str:
        numbers = ",".join(map(str, astuple(self)))
        return type(self).__name__.lower() + (f"({numbers})" if numbers else "")


@dataclass(frozen=True)
class Full(Mask):
    """Every token attends to every token: Mask = 1, "bidirectional"."""

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return (t_z == t_z) & (t_x == t_x)

    @property
    def causal(self) -> bool:
        return False


@dataclass(frozen=True)
class Causal(Mask):
    """A token attends to itself and to earlier tokens: [[t_z <= t_x]], "unidirectional"."""

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return t_z <= t_x


@dataclass(frozen=True)
class Local(Mask):
    """Causal, and at most the `width` nearest tokens, itself included (GPT-3's banded layers)."""

    width: int

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return (t_z <= t_x) & (t_x - t_z < self.width)


@dataclass(frozen=True)
class Strided(Mask):
    """Causal, and every `stride`-th token back; the Sparse Transformer's pattern is Local(s) | Strided(s)."""

    stride: int

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return (t_z <= t_x) & ((t_x - t_z) % self.stride == 0)


@dataclass(frozen=True)
class Fixed(Mask):
    """Causal, within the block of `stride` tokens or one of the last `summary` tokens of any block.

    Blocks start at the first token: position t (from 0) lies in block t // stride.
    """

    stride: int
    summary: int

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        same_block = t_z // self.stride == t_x // self.stride
        is_summary = t_z % self.stride >= self.stride - self.summary
        return (t_z <= t_x) & (same_block | is_summary)


@dataclass(frozen=True)
class Prefix(Mask):
    """The first `n` tokens see one another both ways; the rest is causal."""

    n: int

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return (t_z <= t_x) | (t_z < self.n)

    @property
    def causal(self) -> bool:
        return self.n <= 1


class Union(Mask):
    """What any of several masks allows."""

    def __init__(self, *masks: Mask) -> None:
        object.__setattr__(self, "_members", tuple(dict.fromkeys(masks)))

    @property
    def members(self) -> tuple[Mask, ...]:
        return self._members  # type: ignore[attr-defined,no-any-return]

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        allowed = self.members[0](t_z, t_x)
        for mask in self.members[1:]:
            allowed = allowed | mask(t_z, t_x)
        return allowed

    @property
    def causal(self) -> bool:
        return all(mask.causal for mask in self.members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Union) and set(self.members) == set(other.members)

    def __hash__(self) -> int:
        return hash(frozenset(self.members))

    def __repr__(self) -> str:
        return f"Union({', '.join(map(repr, self.members))})"

    def __str__(self) -> str:
        return " | ".join(map(str, self.members))


MASKS: dict[str, type[Mask]] = {kind.__name__.lower(): kind for kind in (Full, Causal, Local, Strided, Fixed, Prefix)}


def parse_mask(text: str) -> Mask:
    """The mask that str(mask) spells: "causal", "local(256)", "local(3) | strided(3)".

    Raises ConfigError for a name or a count of numbers that no mask has.
    """
    masks = [_one(part.strip(), text) for part in text.split("|")]
    return masks[0] if len(masks) == 1 else Union(*masks)


def _one(part: str, text: str) -> Mask:
    found = re.fullmatch(r"([a-z]+)(?:\(\s*(\d+(?:\s*,\s*\d+)*)\s*\))?", part)
    kind = MASKS.get(found[1]) if found else None
    numbers = [int(n) for n in found[2].split(",")] if found and found[2] else []
    if kind is None or len(numbers) != len(fields(kind)):
        known = ", ".join(
            n + (f"({','.join(f.name for f in fields(k))})" if fields(k) else "") for n, k in MASKS.items()
        )
        raise ConfigError(f"mask {text!r} is none of {known}, nor several of them joined by |.")
    if kind is not Prefix and any(n < 1 for n in numbers):
        raise ConfigError(f"mask {text!r}: widths and strides are at least 1.")
    return kind(*numbers)

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
from abc import ABC, abstractmethod
from dataclasses import astuple, dataclass, field, fields
from functools import reduce
from operator import or_
from typing import Any

from transformulary.errors import AlgorithmError, ConfigError

#: No size, and no number of a mask, is larger: no array has an index beyond.
MOST = 2**63 - 1
#: No mask is the union of more.
JOINED = 16


@dataclass(frozen=True)
class Mask(ABC):
    """A rule (t_z, t_x) -> may token t_x attend to token t_z?  `a | b` allows what either allows.

    Raises ConfigError when a number is not whole or too small.
    """

    def __post_init__(self) -> None:
        for f in fields(self):
            value, least = getattr(self, f.name), f.metadata.get("least", 1)
            if type(value) is not int or value < least:
                kind = type(self).__name__
                raise ConfigError(f"{kind}: {f.name} = {value!r} must be a whole number, at least {least}.")
            if value > MOST:
                raise ConfigError(f"{type(self).__name__}: {f.name} has {value.bit_length()} bits, which is absurd.")

    @abstractmethod
    def __call__(self, t_z: Any, t_x: Any) -> Any:
        """True where token t_x may attend to token t_z; a bool for ints, else an array that broadcasts both."""

    def __or__(self, other: Mask) -> Mask:
        if not isinstance(other, Mask):
            return NotImplemented
        return self if {*self.members} == {*other.members} else Union((self, other))

    @property
    def members(self) -> tuple[Mask, ...]:
        """The masks that this one is the union of; itself, unless it is a `Union`."""
        return (self,)

    @property
    def causal(self) -> bool:
        """True where no token may look at a later one (so keys and values can be cached)."""
        return True

    def kept(self, ell: int) -> int:
        """How many of `ell` keys, the nearest ones, the last of `ell` tokens and those after it may ever use."""
        return ell

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

    def kept(self, ell: int) -> int:
        return min(ell, self.width)


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

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.summary > self.stride:
            raise ConfigError(
                f"Fixed: summary = {self.summary} is more than stride = {self.stride}: "
                f"a block of stride tokens has no more than these to be its summary."
            )

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        same_block = t_z // self.stride == t_x // self.stride
        is_summary = t_z % self.stride >= self.stride - self.summary
        return (t_z <= t_x) & (same_block | is_summary)


@dataclass(frozen=True)
class Prefix(Mask):
    """The first `n` tokens see one another both ways; the rest is causal."""

    n: int = field(metadata={"least": 0})

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return (t_z <= t_x) | (t_z < self.n)

    @property
    def causal(self) -> bool:
        return self.n <= 1


@dataclass(frozen=True)
class Union(Mask):
    """What any of several masks allows; `a | b` makes one.  Order, nesting and repetition mean nothing."""

    masks: tuple[Mask, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.masks, tuple) or not all(isinstance(mask, Mask) for mask in self.masks):
            raise ConfigError(f"Union: masks = {self.masks!r} must be a tuple of masks.")
        distinct = {member for mask in self.masks for member in mask.members}
        if len(distinct) < 2:
            raise ConfigError(f"Union: masks = {self.masks!r} must hold at least two that differ.")
        if len(distinct) > JOINED:
            raise ConfigError(f"a mask joins {len(distinct)} parts, and {JOINED} are more than any model has.")
        object.__setattr__(self, "masks", tuple(sorted(distinct, key=str)))

    @property
    def members(self) -> tuple[Mask, ...]:
        return self.masks

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return reduce(or_, (mask(t_z, t_x) for mask in self.masks))

    @property
    def causal(self) -> bool:
        return all(mask.causal for mask in self.masks)

    def kept(self, ell: int) -> int:
        return max(mask.kept(ell) for mask in self.masks)

    def __str__(self) -> str:
        return " | ".join(map(str, self.masks))


def no_mask(kind: object) -> AlgorithmError:
    """What is said of a rule whose values are of a type that is neither boolean nor 0/1 integers."""
    return AlgorithmError(
        f"the mask has values of type {kind}: true means may attend, and nothing else is a mask. "
        f"A number that is added to the scores is a bias, not a mask. "
        f"Where 1 and 0 mean true and false, make it boolean: mask.bool(), of NumPy mask.astype(bool)."
    )


MASKS: dict[str, type[Mask]] = {kind.__name__.lower(): kind for kind in (Full, Causal, Local, Strided, Fixed, Prefix)}


def parse_mask(text: str) -> Mask:
    """The mask that str(mask) spells: "causal", "local(256)", "local(3) | strided(3)".

    Raises ConfigError for a name, a count of numbers or a number that no mask has.
    """
    parts = text.split("|")
    if len(parts) > JOINED:
        raise ConfigError(f"a mask joins {len(parts)} parts, and {JOINED} are more than any model has.")
    return reduce(or_, (_one(part.strip(), text) for part in parts))


def _one(part: str, text: str) -> Mask:
    number = r"\s*-?[0-9]{1,18}\s*"
    found = re.fullmatch(rf"([a-z]+)(?:\(({number}(?:,{number})*)\))?", part)
    kind = MASKS.get(found[1]) if found else None
    numbers = [int(n) for n in found[2].split(",")] if found and found[2] else []
    if kind is None or len(numbers) != len(fields(kind)):
        raise ConfigError(f"mask {text!r} is none of {', '.join(map(_form, MASKS))}, nor several of them joined by |.")
    return kind(*numbers)


def _form(name: str) -> str:
    """ "local" -> "local(width)": how a mask is spelled."""
    names = ",".join(f.name for f in fields(MASKS[name]))
    return name + (f"({names})" if names else "")

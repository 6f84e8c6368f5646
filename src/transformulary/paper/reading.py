"""What a model reads: one sequence of token ids, or two, and what goes with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Read:
    """What a model reads, as ids from 0.

    x  the primary sequence
    z  the context, of an encoder-decoder
    s  the segment of every token of x, of an encoder that has segments
    """

    x: tuple[int, ...]
    z: tuple[int, ...] = ()
    s: tuple[int, ...] = ()

    @classmethod
    def of(cls, x: Read | Sequence[int]) -> Read:
        """Itself, or a sequence alone."""
        return x if isinstance(x, Read) else cls(tuple(x))

    def first(self, few: int) -> Read:
        """The same with the first tokens of x."""
        return Read(self.x[:few], self.z, self.s[:few])

    def length(self, side: str) -> int:
        """How many tokens x or z has."""
        return len(getattr(self, side))

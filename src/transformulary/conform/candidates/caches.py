"""Algorithm 10 with a cache, on the oracle: what a right one does, and the ways in which caches are known to be wrong.

Run on a piece of a sequence, six expressions of the lines need what came before; here they ask a `Memory`.  A way is
what they are told.  To add one, add a row: a sentence, and which of the answers differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.mistakes.parts import POS
from transformulary.conform.wrong import wider
from transformulary.oracle import Theta
from transformulary.oracle.components import rotate
from transformulary.oracle.watch import Variant, Watch, nothing
from transformulary.paper import Causal, DTransformerConfig

Array = NDArray[Any]
#: Keys and values of all tokens so far, of one head of one layer.
Remembered = tuple[Array, Array]

CACHED = Variant(
    "cached",
    {
        "10.2": (POS, POS.replace("t,", "memory.at(t),")),
        "4.3a": ("rotate(Q[:, t], t,", "rotate(Q[:, t], memory.at(t),"),
        "4.3b": ("rotate(K[:, t], t,", "rotate(K[:, t], memory.at(t),"),
        "4.4": ("K.T @ Q", "memory.keys(K).T @ Q"),
        "4.5": ("Mask(t_z, t_x)", "memory.mask(Mask, t_z, t_x)"),
        "4.6": ("V @", "memory.values(V) @"),
    },
)


@dataclass(frozen=True)
class Way:
    """One way to keep a cache; the defaults are right.

    at      (memory, t): the position of token t of the piece
    before  (memory, i): keys and values of the tokens before the piece; i counts the heads of all layers
    met     (memory, K): all keys as queries meet them
    mask    (memory, Mask, t_z, t_x): which of those keys the tokens of the piece attend to
    """

    says: str = ""
    at: Callable[[Memory, int], int] = lambda m, t: m.length + t
    before: Callable[[Memory, int], Remembered | None] = lambda m, i: m.past[i] if m.past else None
    met: Callable[[Memory, Array], Array] = lambda m, K: K
    mask: Callable[[Memory, Any, Array, Array], Any] = lambda m, Mask, t_z, t_x: Mask(m.first + t_z, m.length + t_x)


class Memory:
    """A cache, in one way: what the lines of the oracle ask.

    length  tokens before the piece;  ell: tokens of it;  first: position of the first key that is there
    past    what was remembered of them, by head;  start: how many there were when this way began
    """

    length: int
    ell: int
    first: int
    start: int

    def __init__(self, c: DTransformerConfig, way: Way) -> None:
        self.c, self.way = c, way
        self.length = self.ell = self.first = self.start = 0
        self.past: list[Remembered] = []
        self.now: list[Remembered] = []
        self.K: Array = np.empty(0)

    def turn_to(self, way: Way) -> Memory:
        """The same past, from now on kept in another way."""
        other = copy(self)
        other.way, other.start = way, self.length + self.ell
        return other

    def run(self, piece: Sequence[int], theta: Theta) -> Array:
        """The logits of one more piece, one row per token; then it is remembered too."""
        self.length, self.ell = self.length + self.ell, len(piece)
        self.past, self.now = self.now, []
        seen: dict[str, Array] = {}

        def keep(path: str, value: Any) -> Any:
            if path == "10.11:logits":
                seen[path] = value
            return value

        watch = Watch(keep, {"memory": self}, inside=nothing)
        watch.on = {CACHED: 0}
        with np.errstate(all="ignore"):
            watch.algorithms.DTransformer(list(piece), theta, self.c)
        return np.asarray(seen["10.11:logits"].T)

    def at(self, t: int) -> int:
        return self.way.at(self, t)

    def keys(self, K: Array) -> Array:
        self.K = self._joined(0, K)
        self.first = self.length + self.ell - self.K.shape[1]
        return self.way.met(self, self.K)

    def mask(self, Mask: Any, t_z: Array, t_x: Array) -> Any:
        return self.way.mask(self, Mask, t_z, t_x)

    def values(self, V: Array) -> Array:
        V = self._joined(1, V)
        self.now.append((self.K, V))
        return V

    def _joined(self, part: int, new: Array) -> Array:
        before = self.way.before(self, len(self.now))
        return new if before is None else np.hstack([before[part], new])


def turned(m: Memory, K: Array, by: Callable[[int], int], times: int) -> Array:
    """Rotary keys of the tokens before the piece, each turned further; `times` more than once, so 0 is in all once."""
    if m.c.positions != "rotary":
        return K
    c = replace(m.c, attention_factor=m.c.attention_factor**times)
    return np.stack([rotate(k, by(s), m.length, c) if s < m.length else k for s, k in enumerate(K.T)], 1)


def _again(m: Memory, i: int) -> Remembered:
    K, V = m.past[i]
    return turned(m, K, lambda s: s, 1), V


def _of_layer(by: int) -> Callable[[Memory, int], Remembered]:
    return lambda m, i: m.past[(i + by * m.c.H) % len(m.past)]


def _window(change: Callable[[Any], Any]) -> Callable[[Memory, Any, Array, Array], Any]:
    """The mask that decoding uses in place of each one; the first piece has the right one."""
    return lambda m, Mask, t_z, t_x: change(Mask)(m.first + t_z, m.length + t_x)


def dropped(n: int) -> Way:
    """The first n tokens are no longer in the cache."""

    def before(m: Memory, i: int) -> Remembered:
        K, V = m.past[i]
        first = n - (m.length - K.shape[1])
        return K[:, first:], V[:, first:]

    return Way(f"the first {f'{n} tokens are' if n > 1 else 'token is'} dropped from the cache", before=before)


RIGHT = Way()
#: What is known to go wrong once the first piece, which is right, has been read.
WAYS = (
    Way("positions are not advanced: every piece begins at 0 again", at=lambda m, t: t),
    Way("positions are not advanced: they stay what they were after the first piece", at=lambda m, t: m.start + t),
    Way("positions are advanced by one too much", at=lambda m, t: m.length + t + 1),
    Way("positions are advanced by one too little", at=lambda m, t: m.length + t - 1),
    Way("the past is lost", before=lambda m, i: None),
    Way("the past is lost, and every piece begins at position 0 again", before=lambda m, i: None, at=lambda m, t: t),
    Way(
        "the mask lays the first new token upon the first key instead of the last upon the last",
        mask=lambda m, Mask, t_z, t_x: Mask(t_z, t_x),
    ),
    Way("cached keys, which are rotated already, are rotated again with every piece", before=_again),
    Way("keys are cached before rotation, and then not rotated", met=lambda m, K: turned(m, K, lambda s: -s, -1)),
    Way(
        "keys are cached before rotation, and all are then rotated by the position of the newest token",
        met=lambda m, K: turned(m, K, lambda s: m.length + m.ell - 1 - s, 0),
    ),
    Way("every layer reads the cache of the layer before it", before=_of_layer(-1)),
    Way("every layer reads the cache of the layer after it", before=_of_layer(1)),
    Way("every layer reads the cache of the first", before=lambda m, i: m.past[i % m.c.H]),
    Way("the window is one token too wide once there is a cache", mask=_window(lambda mask: wider(mask, 1))),
    Way("the window is one token too narrow once there is a cache", mask=_window(lambda mask: wider(mask, -1))),
    Way("the window is not kept once there is a cache", mask=_window(lambda mask: Causal())),
)

#: How many tokens of padding are put before a sequence.
PADS = 3
#: What is known to go wrong with it, of one piece.
PADDED = (
    Way("positions are counted from the padding", mask=lambda m, Mask, t_z, t_x: Mask(t_z, t_x) & unpadded(t_z, t_x)),
    Way("the padding is attended to", at=lambda m, t: max(t - PADS, 0)),
    Way("the padding is attended to, and positions are counted from it"),
)


def unpadded(t_z: Array, t_x: Array) -> Any:
    """Only the padding itself, whose values nobody reads, attends to padding."""
    return (t_z >= PADS) | (t_x < PADS)

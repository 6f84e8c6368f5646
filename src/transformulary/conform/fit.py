"""The number of a mistake that has one: any base of a rotation, any constant of a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: A number is sought where some number changes nearly what is wanted: the cosine between both, at least.
ALONG = 0.5
#: What a number leaves of a difference that it explains, at most: one number can always explain a little.
LEFT = 0.3
#: Newton's steps, of the logarithm, and how often a step that is too long is halved.
STEPS, HALVINGS = 30, 6


def fit(
    change: Callable[[float], Array], wanted: Array, known: Sequence[tuple[float, Array]], parts: Sequence[int]
) -> float | None:
    """The positive number with which a mistake explains a difference; None where none does.

    change  what the mistake changes, by its number
    wanted  the difference
    known   some numbers and what they change
    parts   so many of the first numbers of a change are looked at, few at first: where a base is a little off, what
            late tokens do says nothing, since they have turned many times
    """
    parts = [part for part in parts if wanted[:part].any()]
    if not parts or not np.isfinite(_size(wanted)):
        return None
    if max(abs(_cosine(of[: parts[0]], wanted[: parts[0]])) for _, of in known) < ALONG:
        return None
    number = min(known, key=lambda k: _size(wanted[: parts[0]] - k[1][: parts[0]]))[0]
    for part in parts:
        number = _nearest(lambda n, part=part: wanted[:part] - change(n)[:part], number)  # type: ignore[misc]
    return number if _size(wanted - change(number)) < LEFT * _size(wanted) else None


def nearest_whole(change: Callable[[float], Array], wanted: Array, most: int) -> float | None:
    """The same for a number that counts, below `most`; all are tried."""
    left = {float(n): _size(wanted - change(n)) for n in range(1, most)}
    number = min(left, key=left.__getitem__, default=0.0)
    return number if left and left[number] < LEFT * _size(wanted) else None


def shorter(number: float) -> Iterator[float]:
    """The number with 1, 2, 3, ... digits, and at last itself."""
    yield from dict.fromkeys([*(float(f"{number:.{digits}g}") for digits in range(1, 13)), number])


def _nearest(left: Callable[[float], Array], number: float) -> float:
    """The number that leaves the smallest square, by Newton's method from a number near it."""
    r, small = left(number), 2.0**-12
    for _ in range(STEPS):
        slope = (left(number * (1 + small)) - r) / small
        length = float(slope @ slope)
        if not length:
            break
        step = min(max(-float(slope @ r) / length, -1.0), 1.0)
        tries = ((number * np.exp(step * 0.5**k)) for k in range(HALVINGS))
        better = next(((n, new) for n in tries if _size(new := left(n)) < _size(r)), None)
        if better is None:
            break
        done = _size(better[1]) > 0.9 * _size(r)
        number, r = float(better[0]), better[1]
        if done:
            break
    return number


def _size(v: Array) -> float:
    return float(np.linalg.norm(v))


def _cosine(a: Array, b: Array) -> float:
    return float(a @ b) / ((_size(a) * _size(b)) or 1.0)

"""How two values of one line are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle.lines import line_at
from transformulary.oracle.path import Path, parse

Array = NDArray[Any]

#: What sums lose by rounding at most, relative to the largest: other orders lose more than one rounding.
ROUNDED = 8 * 2.0**-53
#: One digit.
BELOW, ABOVE = (Context(prec=1, rounding=how) for how in (ROUND_FLOOR, ROUND_CEILING))


def error_of(ours: Array, theirs: Array) -> float:
    """The largest difference relative to the largest finite number of ours; infinite for another shape or no number.

    Infinities, such as those of masked scores, agree with themselves; so does what is no number, since what is
    computed from theirs is none either.
    """
    if np.shape(ours) != np.shape(theirs):
        return float("inf")
    scale = _largest(ours) or 1.0
    with np.errstate(invalid="ignore"):
        same = (theirs == ours) | (np.isnan(theirs) & np.isnan(ours))
        error = float(np.where(same, 0.0, np.abs(theirs - ours)).max()) / scale
    return error if error == error else float("inf")


def added_error(ours: Array, theirs: Array, X: Array) -> float:
    """The error of what is added to X; what differs no more than sums with X lose is the same."""
    with np.errstate(invalid="ignore"):  # infinities, less themselves
        lost = np.abs(theirs - ours) <= ROUNDED * _largest(ours)
        return error_of(ours - X, np.where(lost, ours, theirs) - X)


def error_beside(base: Array | None, ours: Array, theirs: Array) -> float:
    """The error of a value and, where X is known to which its line adds, of what is added, whichever is larger."""
    error = error_of(ours, theirs)
    if base is not None and np.shape(base) == np.shape(theirs):
        return max(error, added_error(ours, theirs, base))
    return error


def told(error: float, allowed: float) -> bool:
    """Whether an error says anything: rounding alone may not change the value by all of its size."""
    return allowed < 1 or not error <= allowed


def at_most(allowed: float, agrees: bool = False) -> str:
    """An error that is allowed, in one digit, rounded so that what is said to be above it, or to agree, is."""
    return f"{float((ABOVE if agrees else BELOW).create_decimal(repr(float(allowed)))):.0e}"


def _largest(value: Array) -> float:
    """The size of the largest finite number."""
    return float(np.abs(value, where=np.isfinite(value), out=np.zeros(np.shape(value))).max())


def matrix(value: Any) -> Any:
    """A value as an array: the family e_1, e_2, ... of line 2 side by side."""
    return np.stack(value, 1) if isinstance(value, list) else value


def log_probabilities(P: Array) -> Array:
    """Logits of given probabilities, those that sum to 0 over the vocabulary."""
    logs = np.log(np.maximum(P, 1e-300))
    return np.asarray(logs - logs.mean(0))


class Comparison:
    """Remembers the residual streams of a model, to compare what lines add to them.

    seen  path -> their value
    """

    def __init__(self, seen: Mapping[str, Array]) -> None:
        self.seen = seen
        self.streams: dict[str, Array] = {}
        self._unseen: dict[str, list[Path]] = {"x": [], "z": []}

    def error(self, path: str, ours: Array, theirs: Array) -> float:
        """The error of a value, and of what its line adds, whichever is larger."""
        return error_beside(self.base(path), ours, theirs)

    def base(self, path: str) -> Array | None:
        """The X to which the line of a value adds; None for a line that does not, or where X was not seen."""
        line = line_at(path)
        return self.streams.get(line.stream) if line.adds and is_line(path) and not self._unseen[line.side] else None

    def gap(self, path: str) -> list[Path]:
        """Lines not seen of which the value at a path is made."""
        line = line_at(path)
        own = self._unseen[line.side]
        crossed = line.side == "x" and any(each.crosses for each in (line, *(line_at(str(other)) for other in own)))
        return [*(self._unseen["z"] if crossed else ()), *own]

    def passed(self, path: str) -> None:
        """A value that was seen has been dealt with; what an unseen line has added to X is still in X."""
        line = line_at(path)
        unseen = self._unseen[line.side]
        if is_line(path) and line.stream:
            self.streams[line.stream] = self.seen[path]
            unseen.clear()
        while unseen and not line_at(str(unseen[-1])).stream:
            unseen.pop()

    def own(self, path: str, ours: Any) -> None:
        """A value that nothing of theirs depends on: what follows is compared beside ours."""
        if is_line(path) and (stream := line_at(path).stream):
            self.streams[stream] = matrix(ours)

    def missed(self, path: str) -> None:
        """A line was computed whose value was not seen."""
        if is_line(path) and not any(name == "t" for name, _ in parse(path).steps[0].indices):
            self._unseen[line_at(path).side].append(parse(path))


def is_line(path: str) -> bool:
    """Whether a path is of a line of the outermost algorithm, and of nothing in it."""
    return "/" not in path and ":" not in path


def outermost(seen: Mapping[str, Array]) -> dict[str, Array]:
    """The values that are in no other one: whole lines, and what was seen of a line that was not seen as a whole."""
    return {path: value for path, value in seen.items() if not any(out in seen for out in _around(path))}


def _around(path: str) -> Iterator[str]:
    """The paths of the lines that a value is in."""
    for end in range(1, len(path)):
        if path[end] in "/:":
            yield path[:end]

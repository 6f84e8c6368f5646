"""What a difference that no known mistake explains looks like, in a reader's words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def describe(ours: Array, theirs: Array) -> str:
    """What a difference looks like: another shape, scaled, shifted, permuted, or where it is."""
    if np.shape(ours) != np.shape(theirs):
        return f"its shape is {np.shape(theirs)}, and should be {np.shape(ours)}"
    if not np.all(np.isfinite(theirs)):
        return f"{int((~np.isfinite(theirs)).sum())} of {theirs.size} numbers are not finite"
    if ours.ndim != 2:
        return "all of it differs"
    close = 1e-4 * float(np.abs(ours).max())
    for what, candidate in _rearranged(ours, theirs):
        if np.abs(candidate - theirs).max() <= close:
            return what
    return _where(np.abs(theirs - ours) > close * 1e-4)


def _rearranged(ours: Array, theirs: Array) -> Iterable[tuple[str, Array]]:
    scale = float((ours * theirs).sum() / (ours * ours).sum()) if ours.any() else 1.0
    yield f"it is the right value times {scale:.6g}", scale * ours
    yield "a constant is added", ours + float((theirs - ours).mean())
    if ours.shape[0] == ours.shape[1]:
        yield "it is transposed", ours.T
    yield "it is shifted by one token", np.hstack([theirs[:, :1], ours[:, :-1]])
    yield "it is shifted by one token", np.hstack([ours[:, 1:], theirs[:, -1:]])
    yield "its rows are permuted", ours[_matching(ours, theirs)]
    yield "its tokens are permuted", ours[:, _matching(ours.T, theirs.T)]


def _matching(ours: Array, theirs: Array) -> Any:
    """For every row of theirs, the row of ours that is nearest."""
    distance = (theirs**2).sum(1)[:, None] - 2 * theirs @ ours.T + (ours**2).sum(1)[None]
    return distance.argmin(1)


def _where(wrong: Array) -> str:
    rows, columns = np.flatnonzero(wrong.any(1)) + 1, np.flatnonzero(wrong.any(0)) + 1
    parts = []
    if len(columns) < wrong.shape[1]:
        parts.append(f"tokens {_ranges(columns)} of {wrong.shape[1]} differ")
    if len(rows) < wrong.shape[0]:
        parts.append(f"rows {_ranges(rows)} of {wrong.shape[0]} differ")
    return ", ".join(parts) or "all rows and tokens differ"


def _ranges(numbers: Array) -> str:
    """1-3, 7, 9-12 (the first few)."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    text = [f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(text[:5]) + (", ..." if len(text) > 5 else "")

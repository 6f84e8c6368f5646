"""What a difference that no known mistake explains looks like, in a reader's words.

The likeliest first: one pattern that turns our value into theirs (scaled, shifted, permuted, rounded, ...), in all
tokens or in those that differ; else which tokens, rows and heads differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle.precision import rounded

Array = NDArray[Any]

#: A pattern explains a difference if it leaves at most this much of it.
LEFT = 1e-2
#: What differs by less than this much of the largest difference counts as equal.
EQUAL = 1e-6
#: Precisions that a value may have been rounded to.
ROUNDINGS = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Heads:
    """How line 4 of Algorithm 5 joins the heads: W_o (d_e, H d_mid), b_o (d_e) or 0, and H."""

    W_o: Array
    b_o: Any
    H: int

    def apart(self, added: Array) -> Array | None:
        """The output of every head, (H, d_mid, ell), from what attention adds; None where W_o does not tell."""
        W, joined = np.asarray(self.W_o), added - (np.zeros_like(added) + self.b_o[:, None])
        if W.shape[0] < W.shape[1]:
            return None
        try:
            Y = np.linalg.solve(W, joined) if W.shape[0] == W.shape[1] else np.linalg.lstsq(W, joined, rcond=None)[0]
        except np.linalg.LinAlgError:
            return None
        if not np.abs(W @ Y - joined).max() <= EQUAL * np.abs(joined).max():
            return None
        return np.asarray(Y.reshape(self.H, -1, added.shape[1]))


@dataclass(frozen=True)
class Base:
    """What a line adds something to, in the shape of the sum: its name, and what to call the rest."""

    value: Array
    name: str
    rest: str


def describe(
    ours: Array, theirs: Array, base: Base | None = None, heads: Heads | None = None, allowed: float = 0.0
) -> str:
    """What the difference of two values looks like.

    Args:
        ours, theirs: the values, tokens as columns.
        base: a part that both have, if it is known: then the rest is described.
        heads: how the rest is made of heads.
        allowed: the error that is agreement, relative to the largest number of ours.
    """
    if np.shape(ours) != np.shape(theirs):
        return _shapes(np.shape(ours), np.shape(theirs))
    masked = np.isneginf(ours)
    if (open_ := masked & ~np.isneginf(theirs)).any():
        span = " to ".join(dict.fromkeys(f"{end(theirs[open_]):.4g}" for end in (np.min, np.max)))
        return f"{int(open_.sum())} of {int(masked.sum())} masked numbers are {span}, not minus infinity"
    ours, theirs = np.where(masked, 0.0, ours), np.where(masked, 0.0, theirs)
    if ours.ndim != 2 or not np.isfinite(ours).all():
        return "all of it differs"
    if strange := not_finite(theirs):
        return strange
    noise = allowed * float(np.abs(ours).max())
    if moved := next(_moved(ours, theirs, "it"), ""):
        return moved
    if base is None or base.value.shape != ours.shape or not base.value.any():
        return _description(ours, theirs, noise)
    rest = ours - base.value
    a, b = _coefficients(theirs, base.value, rest)
    if _explains(a * base.value + b * rest, ours, theirs) and abs(a - 1) > LEFT:
        return f"{base.name} is multiplied by {a:.4g}" + (f", and {base.rest} by {b:.4g}" if abs(b - 1) > LEFT else "")
    return _description(rest, theirs - base.value, noise, base.rest, heads)


def not_finite(theirs: Array) -> str:
    """How many numbers of a matrix are not finite, and in which tokens; "" if all are."""
    strange = np.asarray(~np.isfinite(theirs))
    if not strange.any():
        return ""
    where = _among(np.asarray(strange.any(0)), "tokens", ", in ")
    return f"{int(strange.sum())} of {theirs.size} numbers are not finite{where}"


def _shapes(ours: tuple[int, ...], theirs: tuple[int, ...]) -> str:
    """Of matrices in words, that hold whether tokens are rows or columns."""
    if len(ours) != 2 or len(theirs) != 2:
        return f"its shape is {theirs}, and should be {ours}"
    turned = ": it is transposed, or TOKENS says the other way round" if theirs == ours[::-1] else ""
    has = f"it has {theirs[0]} numbers for each of {theirs[1]} tokens"
    return f"{has}, and should have {ours[0]} for each of {ours[1]}{turned}"


def _coefficients(theirs: Array, *parts: Array) -> Array:
    table = np.stack([part.ravel() for part in parts], 1)
    return np.asarray(np.linalg.lstsq(table, theirs.ravel(), rcond=None)[0])


def _description(ours: Array, theirs: Array, noise: float, it: str = "it", heads: Heads | None = None) -> str:
    if moved := next(_moved(ours, theirs, it), ""):
        return moved
    tokens, rows = (_wrong(ours, theirs, axis, noise) for axis in (0, 1))
    places = [_among(tokens, "tokens"), _among(rows, "rows")]
    pattern = next(_changed(ours[:, tokens], theirs[:, tokens], it), "")
    before, after = (heads.apart(ours), heads.apart(theirs)) if heads and not pattern else (None, None)
    if before is not None and after is not None:
        pattern = next(_of_heads(before[..., tokens], after[..., tokens]), "")
        places += [] if pattern else [_among(_wrong(before, after, (1, 2)), "heads")]
    place = ", ".join(filter(None, places))
    if pattern:
        return f"{place} differ, where {pattern}" if place else pattern
    return f"{place or 'all rows and tokens'} differ"


def _wrong(ours: Array, theirs: Array, axis: int | tuple[int, int], noise: float = 0.0) -> Array:
    """Where something differs by more than noise, along the axes that are left."""
    change = np.abs(theirs - ours)  # something does, so half of the largest change is no noise
    return np.asarray((change > min(max(noise, EQUAL * change.max()), change.max() / 2)).any(axis))


def _explains(candidate: Array, ours: Array, theirs: Array) -> bool:
    return bool(np.abs(candidate - theirs).max() <= LEFT * np.abs(ours - theirs).max())


def _moved(ours: Array, theirs: Array, it: str) -> Iterator[str]:
    """The patterns of a whole value: its numbers are in other places."""
    first, last = theirs[:, :1], theirs[:, -1:]
    moved = {
        "transposed": ours.T,
        "reversed, the last token first": ours[:, ::-1],
        "reversed, the last row first": ours[::-1],
        "shifted by one token": np.hstack([first, ours[:, :-1]]),
        "shifted by one token back": np.hstack([ours[:, 1:], last]),
    }
    for how, candidate in moved.items():
        if candidate.shape == theirs.shape and _explains(candidate, ours, theirs):
            yield f"{it} is {how}"
    for what, order, candidate in (
        ("rows", rows := _matching(ours, theirs), ours[rows]),
        ("tokens", tokens := _matching(ours.T, theirs.T), ours[:, tokens]),
    ):
        if _explains(candidate, ours, theirs):
            if np.array_equal(order, np.arange(len(order))[::-1]):
                yield f"{what} are in reverse order"
            how = "permuted" if len(set(order)) == len(order) else "those of others"
            yield f"{what} {_ranges(np.flatnonzero(order != np.arange(len(order))) + 1)} of {len(order)} are {how}"


def _changed(ours: Array, theirs: Array, it: str) -> Iterator[str]:
    """The patterns of the tokens that differ: their numbers are others."""
    change = theirs - ours
    once = float((ours * theirs).sum() / ((ours * ours).sum() or 1.0))
    by_token, by_row = _factors(ours, theirs, 0), _factors(ours, theirs, 1)
    top, bottom = theirs.max(), theirs.min()
    at_top, at_bottom = (theirs == top).sum() > 1, (theirs == bottom).sum() > 1
    several, of = theirs.shape[1] > 1, "" if it == "it" else f" of {it}"
    patterns: list[tuple[str, Array, bool]] = [
        (f"{it} is 0", 0 * ours, True),
        (f"{it} is the right value times {once:.6g}", once * ours, True),
        (f"{change.mean():.4g} is added to every number{of}", ours + change.mean(), True),
        (f"the same column is added to every token{of}", ours + change.mean(1, keepdims=True), several),
        (f"to every token{of} a number of its own is added", ours + change.mean(0), True),
        (f"every token{of} is the right one times a factor of its own, {_span(by_token)}", by_token * ours, True),
        (f"every row{of} is the right one times a factor of its own, {_span(by_row)}", by_row * ours, several),
        (f"{it} is cut off at {top:.4g}", np.minimum(ours, top), at_top),
        (f"{it} is cut off at {bottom:.4g}", np.maximum(ours, bottom), at_bottom),
        (f"{it} is cut off at {bottom:.4g} and {top:.4g}", np.clip(ours, bottom, top), at_top and at_bottom),
        *((f"{it} is rounded to {p}", rounded(ours, p).wide(), True) for p in ROUNDINGS),
    ]  # fmt: skip
    yield from (what for what, candidate, sensible in patterns if sensible and _explains(candidate, ours, theirs))


def _factors(ours: Array, theirs: Array, axis: int) -> Array:
    """For every vector along an axis, the number that turns ours into theirs best."""
    length = (ours * ours).sum(axis, keepdims=True)
    return np.asarray((ours * theirs).sum(axis, keepdims=True) / np.where(length, length, 1.0))


def _span(factors: Array) -> str:
    return f"{factors.min():.4g} to {factors.max():.4g}"


def _matching(ours: Array, theirs: Array) -> Array:
    """For every row of theirs, the row of ours that is nearest."""
    distance = (theirs**2).sum(1)[:, None] - 2 * theirs @ ours.T + (ours**2).sum(1)[None]
    return np.asarray(distance.argmin(1))


def _of_heads(ours: Array, theirs: Array) -> Iterator[str]:
    """The patterns of (H, d_mid, ell), the outputs of heads: of those that differ, then of all."""
    wrong = _wrong(ours, theirs, (1, 2))
    if not wrong.all():
        several = "each of heads" if wrong.sum() > 1 else "head"
        before, after = (Y[wrong].reshape(-1, Y.shape[-1]) for Y in (ours, theirs))
        yield from _changed(before, after, f"{several}{_among(wrong, '')}")
    factors, flat = _factors(ours, theirs, 1), (len(ours), -1)
    if _explains(factors * ours, ours, theirs):
        yield f"every token of every head is the right one times a factor of its own, {_span(factors)}"
    order = _matching(ours.reshape(flat), theirs.reshape(flat))
    if _explains(ours[order], ours, theirs):
        yield f"heads {', '.join(map(str, order + 1))} stand in place of 1 to {len(ours)}"


def _among(wrong: Array, what: str, before: str = "") -> str:
    """tokens 3-5 of 12; nothing where all are."""
    if wrong.all():
        return ""
    return f"{before}{what} {_ranges(np.flatnonzero(wrong) + 1)} of {len(wrong)}"


def _ranges(numbers: Array) -> str:
    """1-3, 7, 9-12 (the first few)."""
    runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
    text = [f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(text[:5]) + (", ..." if len(text) > 5 else "")

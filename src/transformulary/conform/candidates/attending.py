"""What is asked of a function of attention beside its values: what it returns, and a query that may see nothing.

Algorithm 4 leaves such a query undefined: line 6 is 0/0.  The rule here is that all its weights are 0.  Padding on the
left makes such queries, a decoder's own mask does not; so a call of its own asks.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from transformulary.conform.candidates.candidate import Array, array
from transformulary.conform.notes import AGREES, DIFFERS, NOTE, UNSEEN, Note
from transformulary.errors import CandidateError

#: Functions that may return (output, attention weights).
ATTENDING = frozenset({"attention", "mha"})
#: Two results are the same if they differ by no more than this, relative to the larger one: float32 may compute them.
CLOSE = 1e-4
#: The erratum in docs/errata.md.
RULE = (
    "they must be 0 (line 6 of Algorithm 4 is 0/0 there: erratum E9), which matters where the outputs of such queries "
    "are read, as in a mean over padded tokens"
)
#: X, weights, and a mask -> the output of the function; tokens are columns.
Call = Callable[[Array, SimpleNamespace, Array], Array]


def output_of(name: str, result: Any, ell: int) -> tuple[Any, Note | None]:
    """The output among what a function of attention returned, and a note if its weights stand before it."""
    if not (isinstance(result, tuple) and len(result) == 2):
        return result, None
    first, second = result
    if not _are_weights(first, ell) or _are_weights(second, ell):
        return first, None
    says = f"{name} returns (weights, output); it must return the output, or (output, weights)"
    return second, Note("results", DIFFERS, says)


def _are_weights(value: Any, ell: int) -> bool:
    """Whether these are attention weights: from token to token, none negative, at most 1 for each query together."""
    try:
        A = array(value, "")
    except CandidateError:
        return False
    square = A.ndim >= 2 and A.shape[-2:] == (ell, ell)
    return square and bool((A >= 0).all()) and min(A.sum(axis).max() for axis in (-1, -2)) < 1 + CLOSE


def ask_alone(name: str, call: Call, X: Array, weights: SimpleNamespace) -> Note:
    """What a function makes of a last token that may attend to nothing."""
    ell = X.shape[1]
    everything, before = np.ones((ell, ell), bool), np.arange(ell) < ell - 1
    what = f"in {name}, a query that may attend to nothing"
    with np.errstate(all="ignore"):
        try:
            theirs = call(X, weights, everything & before)[:, -1]
        except CandidateError:
            return Note("masks", AGREES, f"{what} is refused")
        unmasked, uniform, nothing = (
            call(X, w, everything) for w in (weights, _without(weights, "q"), _without(weights, "v"))
        )
        alone, beside_others = (call(Y, weights, np.eye(ell, dtype=bool)) for Y in (X, np.where(before, -X, X)))
    if not _close(alone[:, -1], beside_others[:, -1]):
        return Note("masks", UNSEEN, f"{name} does not keep to its mask")
    if not np.isfinite(theirs).all():
        return Note("masks", NOTE, f"{what} gets NaN; weights of 0 would be safe in a padded batch")
    if _close(theirs, nothing[:, -1]):
        return Note("masks", AGREES, f"{what} gets nothing")
    for does, Y in (("uniform weights", uniform), ("the weights that it would have without a mask", unmasked)):
        if _close(theirs, Y[:, -1]):
            return Note("masks", DIFFERS, f"{what} gets {does}; {RULE}")
    return Note("masks", NOTE, f"{what} gets something else than nothing")


def _without(weights: SimpleNamespace, q: str) -> SimpleNamespace:
    """The weights with queries, or values, of 0."""
    zero = {name: 0 * getattr(weights, name) for name in (f"W_{q}", f"b_{q}")}
    return SimpleNamespace(**vars(weights) | zero)


def _close(a: Array, b: Array) -> bool:
    return bool(np.abs(a - b).max() <= CLOSE * max(np.abs(a).max(), np.abs(b).max()))

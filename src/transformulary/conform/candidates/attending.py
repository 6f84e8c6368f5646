"""What is asked of a function of attention beside its values: what it returns, padding, a query that may see nothing.

A mask that lets every token see all is that of an encoder and of cross-attention: there only padding needs one, and no
run of one sequence has any.  And Algorithm 4 leaves a query undefined that may attend to nothing: line 6 is 0/0.  The
rule here is that all its weights are 0.  Padding on the left makes such queries, a decoder's own mask does not.  So
calls of their own ask.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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
#: The same of X and Z.
Crossing = Callable[[Array, Array, SimpleNamespace, Array], Array]


def output_of(name: str, result: Any, shapes: Collection[tuple[int, ...]]) -> tuple[Any, Note | None]:
    """The output among what a function of attention returned, and a note if its weights stand before it.

    shapes: those that weights may have
    """
    if not (isinstance(result, tuple) and len(result) == 2):
        return result, None
    first, second = result
    if not _are_weights(first, shapes) or _are_weights(second, shapes):
        return first, None
    says = f"{name} returns (weights, output); it must return the output, or (output, weights)"
    return second, Note("results", DIFFERS, says)


def _are_weights(value: Any, shapes: Collection[tuple[int, ...]]) -> bool:
    """Whether these are attention weights: from token to token, none negative, at most 1 for each query together."""
    try:
        A = array(value, "")
    except CandidateError:
        return False
    return A.shape[-2:] in shapes and bool((A >= 0).all()) and min(A.sum(axis).max() for axis in (-1, -2)) < 1 + CLOSE


def takes_transposed(name: str, tokens: str) -> Note:
    """A note of attention for which only the transposed of its mask will do."""
    axes = "[query, key]" if tokens == "rows" else "[key, query]"
    return Note("masks", DIFFERS, f"{name} takes its mask transposed: it is mask{axes}, true where a token may attend")


def ask_padded(name: str, call: Crossing, X: Array, Z: Array, weights: SimpleNamespace, tokens: str) -> Note:
    """What a function makes of a last token of Z that nobody may attend to; `tokens` are its rows or columns."""
    mask, last = np.ones((Z.shape[1], X.shape[1]), bool), np.arange(Z.shape[1]) == Z.shape[1] - 1
    mask[last] = False
    where = name if X is Z else f"{name} from one sequence to another"

    def both(mask: Array) -> tuple[bool, bool]:
        beside, other = (call(X, Y, weights, mask) for Y in (Z, np.where(last, -Z, Z)))
        return bool(np.isfinite(beside).all()), _close(beside, other)

    with np.errstate(all="ignore"):
        try:
            finite, hidden = both(mask)
            turned = not (finite and hidden) and mask.shape == mask.T.shape and all(both(mask.T))
        except CandidateError as error:
            return Note("masks", UNSEEN, f"beside padding, {error}")
    if turned:
        return takes_transposed(name, tokens)
    if not finite:
        return Note("masks", DIFFERS, f"{where} gives no number where its mask leaves out padding")
    if hidden:
        return Note("masks", AGREES, f"{where} does not see padding")
    return Note("masks", DIFFERS, f"{where} sees padding: a token that its mask leaves out changes the result")


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

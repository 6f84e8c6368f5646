"""What a PyTorch model returns: the last line itself, or, beside a place that shows it, the same once more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from transformulary.conform.allowance import EXACT, FACTOR, UNIT
from transformulary.conform.candidates.candidate import Array, array, single
from transformulary.conform.compared import error_of
from transformulary.conform.dumps import name_of, precision_of
from transformulary.conform.notes import DIFFERS, UNSEEN, Note
from transformulary.errors import CandidateError
from transformulary.oracle import softmax
from transformulary.oracle.lines import line_at
from transformulary.oracle.whole import Model

#: What models call what they return, in `transformers`' words; an encoder alone has no logits.
RETURNED = ("logits", "last_hidden_state")


def logits(output: Any) -> Any:
    """The logits (B, ell, N_V) in what a model returns: an array, its first of several, its `.logits`, its "logits"."""
    for name in RETURNED:
        found = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        output = output if found is None else found
    return output[0] if isinstance(output, tuple | list) and output else output


def columns(value: Any, what: str, tokens: str, ndim: int = 2) -> Array:
    """What a module has, without its batch of one, tokens as columns.  Raises CandidateError: no floats we know."""
    shown, kind = single(array(value, what), ndim), name_of(getattr(value, "dtype", "float64"))
    if kind not in UNIT:
        raise CandidateError(f"{what} is {kind}, and must be one of {', '.join(UNIT)}.")
    return shown.T if tokens == "rows" else shown


def probabilities(numbers: Array) -> Array:
    """Of logits."""
    with np.errstate(invalid="ignore"):
        return np.asarray(softmax(numbers))


def _exp(logs: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logs))


#: What the last line may be given as -> its probabilities.
FORMS: Mapping[str, Callable[[Array], Array]] = {
    "logits": probabilities,
    "probabilities": np.asarray,
    "log-probabilities": _exp,
}


def another_form(what: str, numbers: Array, output: str, precision: str, place: str = "") -> tuple[Note, ...]:
    """A note where numbers of the last line are those of another of `FORMS` than they should be, as their sums show.

    What softmax makes of log-probabilities is what it makes of logits: no comparison of that can tell.  `place` is what
    a table has to say of it beside OUTPUT.
    """
    off, found = FACTOR * max(UNIT[precision], UNIT["float32"]), "logits"
    for form in list(FORMS)[1:]:
        P = FORMS[form](numbers)
        found = form if (P >= 0).all() and (np.abs(P.sum(0) - 1) <= off).all() else found
    if len(numbers) == 1 or found in ("logits", output):
        return ()
    says = f'{what} returns {found}, and not {output}: if they are meant, write {place}OUTPUT = "{found}"'
    return (Note("output", DIFFERS, says),)


def unsteady(what: str, first: Array, second: Array, precision: str, left_on: Sequence[str] = ()) -> tuple[Note, ...]:
    """A note if two runs on the same input differ by more than rounding.

    left_on: modules that are in training mode though the model was told to evaluate.
    """
    error = error_of(first, second) if first.size else 0.0
    if error <= max(EXACT, FACTOR * UNIT[precision]):
        return ()
    why = f"{', '.join(left_on)} stay in training mode" if left_on else "dropout that is left on, other random numbers"
    says = f"{what} gives other numbers each time ({error:.0e} apart): {why}, or what the run before has left"
    return (Note("results", DIFFERS, f"{says}. Call eval(), or seed it, and compare again"),)


def last_line(
    whole: Model, shown: Array | None, returned: Any, tokens: str, output: str, precision: str
) -> tuple[Array, bool, tuple[Note, ...]]:
    """(the last line, whether it is what the model returns, what is to be said of it).

    What the model returns counts, whatever a place beside it shows.

    Args:
        whole: what the model should be.
        shown: what the place of the last line shows, if there is one.
        returned: by the model; beside a place, in whichever of `FORMS` is nearest.
        tokens, output: as in a `Table`.
        precision: the model's.
    """
    found, last = logits(returned), f"line {line_at(whole.output).label}"
    ndim, form = 1 if whole.gives == "classes" else 2, FORMS[output] if whole.probable else np.asarray

    def of_form(numbers: Array) -> tuple[Note, ...]:
        place = f'"{whole.output}": ":out" into PLACES, and '
        return another_form("the model", numbers, output, precision_of(found), place) if whole.probable else ()

    if shown is None:
        numbers = columns(found, "what the model returns", tokens, ndim)
        return form(numbers), True, of_form(numbers)
    P = form(shown)
    if not whole.probable and not hasattr(returned, "last_hidden_state"):  # what is made of the vectors is its own
        return P, False, ()
    try:
        numbers = columns(found, "it", tokens, ndim)
    except CandidateError as no_array:
        return P, False, (Note("output", UNSEEN, f"what the model returns is not compared with {last}: {no_array}"),)
    if numbers.shape != P.shape:
        says = f"its shape is {numbers.shape}, and that of {last} {P.shape}"
        return P, False, (Note("output", UNSEEN, f"what the model returns is not compared with {last}: {says}"),)
    error, nearest = min(((error_of(P, Q), Q) for Q in (f(numbers) for f in FORMS.values())), key=lambda pair: pair[0])
    largest = np.abs(shown[np.isfinite(shown)]).max(initial=1.0)  # what was rounded, before the softmax
    if error <= max(EXACT, FACTOR * largest * max(UNIT[kind] for kind in (precision, precision_of(found)))):
        return P, False, of_form(numbers)
    says = f"what the model returns is not what the place of {last} shows: they differ by {error:.1e}"
    return nearest, True, (Note("output", DIFFERS, f"{says}; what it returns is compared"),)

"""What makes a function one of the paper's algorithms: its number, its domain, and errors that say where."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from numpy.typing import NDArray

from transformulary.errors import AlgorithmError
from transformulary.oracle.path import Path, Step
from transformulary.oracle.rulings import DOMAINS
from transformulary.oracle.source import INDICES, places

Array = NDArray[Any]
#: Ids and positions, from 0 (the paper counts from 1).
Token = int
Position = int

P = ParamSpec("P")
R = TypeVar("R")


class LocatedError(AlgorithmError):
    """An AlgorithmError together with the path of the line where it arose."""

    def __init__(self, message: str, steps: tuple[Step, ...]) -> None:
        self.message, self.steps = message, steps
        super().__init__(message)

    def __str__(self) -> str:
        if not self.steps:
            return self.message
        here = self.steps[0]
        words = {"l": "layer", "t": "column", "h": "head", "n": "sequence", "i": "iteration"}
        at = "".join(f", {words.get(name, name)} {value}" for name, value in here.indices)
        return f"Algorithm {here.number}, line {here.label}{at} ({Path(self.steps)}): {self.message}"


def algorithm(number: int | str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function to be Algorithm `number`.

    Its arguments are checked against the algorithm's domain first (`rulings.DOMAINS`); an AlgorithmError
    that arises inside is raised again with the path of the line.
    """

    def declare(f: Callable[P, R]) -> Callable[P, R]:
        domain = DOMAINS.get(str(number))

        @wraps(f)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if domain:
                _check(domain, f, args, kwargs)
            try:
                return f(*args, **kwargs)
            except AlgorithmError as error:
                steps = _step(error.__traceback__)
                deeper = error.steps if isinstance(error, LocatedError) else ()
                raise LocatedError(getattr(error, "message", str(error)), steps + deeper) from None

        checked.number = str(number)  # type: ignore[attr-defined]
        return checked

    return declare


def _check(domain: Callable[..., None], f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Ask the domain; a TypeError because an argument is missing, or one too many, is that of the algorithm itself."""
    try:
        domain(*args, **kwargs)
    except TypeError:
        try:
            signature(f).bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{f.__name__}: {error}") from None
        raise


def _step(trace: TracebackType | None) -> tuple[Step, ...]:
    """The line of the oracle that a traceback goes through first, with the values of its indices."""
    known, place = places(), None
    variables: dict[str, Any] = {}
    inner: dict[str, int] = {}
    trace = trace.tb_next if trace else None  # from `checked` into the algorithm itself
    while trace and trace.tb_frame.f_code.co_filename != __file__:  # up to the next algorithm
        frame, here = trace.tb_frame, (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        if here in known:
            place = known[here]
            variables |= frame.f_locals
        if here in known and frame.f_code.co_name == "<genexpr>":
            inner |= {name: value for name, value in frame.f_locals.items() if name in INDICES}
        trace = trace.tb_next
    if place is None:
        return ()
    indices = {name: variables[name] for name in place.loops if name in variables} | inner
    return (Step(place.number, place.label, tuple((name, int(value) + 1) for name, value in indices.items())),)

"""Runs of the oracle up to one value, with some mistakes, which go on with what was seen before it.

A line is computed again only where a mistake, or something that follows from it, changes it: a mistake of the last
layer costs one layer, whatever the model's depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import Comparison, error_beside, is_line, matrix
from transformulary.conform.mistakes import KEPT, NAMES, Mistake, acts_at
from transformulary.errors import AlgorithmError
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import parse
from transformulary.oracle.theta import Theta
from transformulary.oracle.watch import Watch, holds, nothing
from transformulary.oracle.whole import Model
from transformulary.paper import Config, Read

Array = NDArray[Any]

#: Of the columns of a line and the heads, all but the first: what is computed within them.
_NOT_THE_FIRST = re.compile(r"\b(?:t|h|t_x|t_z)=(?!1\b)")


def first_members(path: str) -> bool:
    """Whether what is computed within a member of a line is looked at: of columns and heads, only the first's."""
    return not _NOT_THE_FIRST.search(path)


def is_part(path: str) -> bool:
    """Whether a path is of what is within a line, or of one of its columns."""
    return "/" in path or "t=" in path


#: No mistakes.
NONE: Mapping[Mistake, int] = {}
#: The layer of a mistake that is to be switched off.
OFF = -1


class Stop(Exception):
    """Ends a run of the oracle early, with a value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Refuted(Exception):
    """Ends a run at a value that contradicts it."""


class Replay:
    """`Replay(...)(on)` is the value at `path` with more mistakes: mistake -> where it `holds`, or OFF.

    seen     path -> their value; a run goes on with it
    adopted  mistakes that are known to be there
    order    another order of the lines, or none
    allowed  path -> the error that counts as agreement; then mistakes can be `refuted`
    """

    def __init__(
        self,
        path: str,
        seen: Mapping[str, Array],
        x: Read | Sequence[int],
        theta: Theta,
        config: Config,
        adopted: Mapping[Mistake, int] = NONE,
        order: tuple[Mistake, ...] = (),
        allowed: Callable[[str], float] | None = None,
    ) -> None:
        self.path, self.seen, self.given, self.allowed = path, seen, Read.of(x), allowed
        self._model, self._checked = Model(config, theta), True
        self.adopted = adopted
        within = any(is_part(p) for p in (path, *seen))
        self._watch = Watch(self._hook, NAMES, None if within else nothing, order, KEPT)
        self._lines: dict[str, Any] = {}  # line -> the value that the run without a further mistake goes on with
        self._kept = self._lines  # of the run that goes on
        self._right: dict[str, Array | None] = {}  # what was seen and agrees -> the X to which its line adds
        self._comparison = Comparison(seen)
        self._look = self._agrees if allowed else _nothing
        self._value({}, {})
        self._look = _nothing
        self._kept = {}
        self._beside: tuple[Mapping[Mistake, int], dict[str, Any]] = {}, self._lines  # mistakes -> their run's lines
        self._checked = False  # the same is given each time

    def __call__(self, on: Mapping[Mistake, int]) -> Array:
        places = list(on.items())
        first, last = dict(places[:-1]), dict(places[-1:])
        if first != self._beside[0]:
            self._beside = first, self._lines_with(first)
        return self._value(on, self._known(last, self._beside[1]))

    def refuted(self, on: Mapping[Mistake, int]) -> bool:
        """Whether a value that was seen, and agrees without these mistakes, is another one with them."""
        if not self._right:
            return False
        self._look = self._differs
        try:
            with suppress(AlgorithmError), np.errstate(all="ignore"):
                self._value(on, self._apart(on))
        except _Refuted:
            return True
        finally:
            self._look = _nothing
        return False

    def _apart(self, on: Mapping[Mistake, int]) -> dict[str, Any]:
        """The values of lines that nothing changes which these mistakes change, as what was seen takes its place."""
        found, changed = {}, set[str]()
        for path, value in self._lines.items():
            line = line_at(path)
            if _touched(path, on):
                changed.add(line.side)
            if changed.isdisjoint({line.side, "z"}):
                found[path] = value
            if path in self.seen and line.stream:
                changed.discard(line.side)
        return found

    def _agrees(self, path: str, value: Any) -> None:
        """Remember what agrees as it is."""
        if path not in self.seen:
            self._comparison.missed(path)
            return
        assert self.allowed
        base = self._comparison.base(path)
        if error_beside(base, matrix(value), self.seen[path]) <= self.allowed(path):
            self._right[path] = base
        self._comparison.passed(path)

    def _differs(self, path: str, value: Any) -> None:
        """Stop at what agreed and does not any longer."""
        assert self.allowed
        if path in self._right and error_beside(self._right[path], matrix(value), self.seen[path]) > self.allowed(path):
            raise _Refuted

    def _lines_with(self, on: Mapping[Mistake, int]) -> dict[str, Any]:
        """Line -> its value in the run with these mistakes, as far as it gets."""
        known, self._kept = self._known(on, self._lines), {}
        with suppress(AlgorithmError):
            self._value(on, known)
        kept = known | self._kept
        return {line: kept[line] for line in self._lines if line in kept}

    def _known(self, on: Mapping[Mistake, int], lines: Mapping[str, Any]) -> dict[str, Any]:
        """Of the values of a run, those that more mistakes do not change."""
        untouched = set(takewhile(lambda path: not _touched(path, on), lines))
        return {p: v for p, v in lines.items() if p in untouched or p in self.seen}

    def _value(self, on: Mapping[Mistake, int], given: Mapping[str, Any]) -> Array:
        self._watch.on, self._watch.given = {**self.adopted, **on}, given
        try:
            self._model.run(self._watch.algorithms, self.given, self._checked)
        except Stop as stop:
            return np.asarray(matrix(stop.value))
        raise AlgorithmError(f"{self.path} is not computed with these mistakes.")

    def _hook(self, path: str, value: Any) -> Any:
        if path == self.path:
            raise Stop(value)
        self._look(path, value)
        if path in self.seen:
            theirs = list(self.seen[path].T) if isinstance(value, list) else self.seen[path]
            if _shape(value) != _shape(theirs):
                raise AlgorithmError(f"{path} has another shape with these mistakes than what was seen.")
            value = theirs
        if is_line(path) and "t=" not in path:
            self._kept[path] = value
        return value


def _nothing(path: str, value: Any) -> None:
    """Look at no value."""


def _shape(value: Any) -> tuple[int, ...]:
    """That of an array; of vectors: how many, and theirs."""
    return (len(value), *np.shape(value[0])) if isinstance(value, list) else np.shape(value)


def _touched(path: str, on: Mapping[Mistake, int]) -> bool:
    """Whether one of the mistakes acts at this line, in this layer."""
    layer, line = parse(path).layer, line_at(path)
    return any((where == OFF or holds(where, layer)) and acts_at(mistake, line) for mistake, where in on.items())

"""Runs of the oracle up to one value, with some mistakes, which go on with what was seen before it.

A line is computed again only where a mistake, or something that follows from it, changes it: a mistake of the last
layer costs one layer, whatever the model's depth.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import matrix
from transformulary.conform.mistakes import NAMES, Mistake, acts_at
from transformulary.errors import AlgorithmError
from transformulary.oracle.path import parse
from transformulary.oracle.theta import Theta
from transformulary.oracle.watch import Watch, holds
from transformulary.paper import DTransformerConfig

Array = NDArray[Any]

#: Of the columns of a line and the heads, all but the first: what is computed within them.
_NOT_THE_FIRST = re.compile(r"\b(?:t|h|t_x|t_z)=(?!1\b)")


def first_members(path: str) -> bool:
    """Whether what is computed within a member of a line is looked at: of columns and heads, only the first's."""
    return not _NOT_THE_FIRST.search(path)


#: The layer of a mistake that is to be switched off.
OFF = -1


class Stop(Exception):
    """Ends a run of the oracle early, with a value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Replay:
    """`Replay(...)(on)` is the value at `path` with more mistakes: mistake -> where it `holds`, or OFF.

    seen     path -> their value; a run goes on with it
    adopted  mistakes that are known to be there
    order    another order of the lines, or none
    """

    def __init__(
        self,
        path: str,
        seen: Mapping[str, Array],
        x: Sequence[int],
        theta: Theta,
        config: DTransformerConfig,
        adopted: Mapping[Mistake, int],
        order: tuple[Mistake, ...] = (),
    ) -> None:
        self.path, self.seen, self.run = path, seen, (list(x), theta, config)
        self.adopted = adopted
        within = any("/" in p for p in (path, *seen))
        self._watch = Watch(self._hook, NAMES, None if within else lambda _: False, order)
        self._lines: dict[str, Any] = {}  # line -> the value that the run without a further mistake goes on with
        self._first = True
        self._value({}, {})
        self._first = False

    def __call__(self, on: Mapping[Mistake, int]) -> Array:
        untouched = set(takewhile(lambda path: not _touched(path, on), self._lines))
        return self._value(on, {p: v for p, v in self._lines.items() if p in untouched or p in self.seen})

    def _value(self, on: Mapping[Mistake, int], given: Mapping[str, Any]) -> Array:
        self._watch.on, self._watch.given = {**self.adopted, **on}, given
        try:
            self._watch.algorithms.DTransformer(*self.run)
        except Stop as stop:
            return np.asarray(matrix(stop.value))
        raise AlgorithmError(f"{self.path} is not computed with these mistakes.")

    def _hook(self, path: str, value: Any) -> Any:
        if path == self.path:
            raise Stop(value)
        if path in self.seen:
            value = list(self.seen[path].T) if isinstance(value, list) else self.seen[path]
        if self._first and not re.search(r"[/:]|\bt=", path):
            self._lines[path] = value
        return value


def _touched(path: str, on: Mapping[Mistake, int]) -> bool:
    """Whether one of the mistakes acts at this line of Algorithm 10, in this layer."""
    layer, label = parse(path).layer, parse(path).steps[0].label
    return any((where == OFF or holds(where, layer)) and acts_at(mistake, label) for mistake, where in on.items())

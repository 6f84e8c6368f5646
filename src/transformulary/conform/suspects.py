"""Which known mistakes may be behind a value, by the lines that were computed before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from transformulary.conform.mistakes import KNOWN, Mistake
from transformulary.conform.search import Mistakes
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import Path, parse
from transformulary.oracle.watch import LAYERS
from transformulary.oracle.whole import Model, number_of


class Suspects:
    """The known mistakes of a model's algorithm, as far as a run of it has come.

    known  all of them
    """

    def __init__(self, model: Model) -> None:
        self.known, self._layers = KNOWN[number_of(model.config)], model.layers
        self._ran: dict[str, set[bool]] = {}  # "4.6", "4": a line, an algorithm -> whether in a layer, or outside

    def computed(self, path: str) -> None:
        """The run has come to a value."""
        step = parse(path)
        number, label = step.steps[-1].number, step.steps[-1].label
        for line in (f"{number}.{label}", number):
            self._ran.setdefault(line, set()).add(bool(step.layer))

    def places(self, path: str) -> list[int]:
        """Where a mistake before a value may be: everywhere, in the layers only, in one layer."""
        return [0, *([] if parse(path).layer else [LAYERS]), *range(1, self._layers + 1)]

    def level(self, layer: int, more: Iterable[Mistake], agreeing: Collection[str]) -> list[Mistakes]:
        """The mistakes of lines that have been computed there; in the layers only: of lines that are outside too.

        more      others than those of the table
        agreeing  lines that were seen to agree: a mistake of several lines together is in none of them
        """
        needed: set[bool] = {0: set(), LAYERS: {True, False}}.get(layer, {True})
        possible = (
            m
            for m in dict.fromkeys((*self.known.mistakes, *more))
            if (ran := [self._ran[n] for n in m.changes if n in self._ran])
            and needed <= set().union(*ran)
            and (m.lines or len(m.changes) < 2 or m.changes.keys().isdisjoint(agreeing))
        )
        return [((m, layer),) for m in possible]

    def alone(self, layer: int, since: Sequence[Path]) -> list[Mistakes]:
        """The mistakes of one line alone of those that were computed there since the last value that was seen."""
        lines = {line_at(str(line)).name for line in since if layer in (0, line.layer)}
        acting = [m for m in self.known.alone if (m.within or m.line) in lines and m.changes.keys() & self._ran.keys()]
        return [((m, layer),) for m in acting]

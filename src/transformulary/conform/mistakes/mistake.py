"""What a known mistake is, and how one is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from transformulary.conform import wrong
from transformulary.oracle.lines import Line, line_at
from transformulary.oracle.watch import Variant
from transformulary.oracle.whole import CLASSES, NUMBERS
from transformulary.paper import Causal, Full


@dataclass(frozen=True)
class Mistake(Variant):
    """A known mistake: `says` completes "line ...: " in a report; `line` is where a reader should look.

    Some have a number: the table holds those with common numbers, and `having` makes the one with any other.
    `right` is what the model's configuration calls that number, if it does.  `lines`: it is the same mistake, by itself,
    in each of several lines of the whole algorithm.  `whole`: the number counts tokens.
    """

    says: str = ""
    line: str = ""
    lines: tuple[str, ...] = ()
    number: float = 0.0
    right: str = ""
    whole: bool = False
    having: Callable[[float], Mistake] | None = field(default=None, compare=False)

    @property
    def layered(self) -> bool:
        """Whether it is in a line that every layer has."""
        where = self.within or self.line
        return bool(line_at(where).layers) if is_whole(where) else not where.startswith("2")

    def inside(self, line: str) -> Mistake:
        """The same mistake, made in one line of the outermost algorithm only."""
        return replace(self, within=line, having=self.having and _inside(self.having, line))


@cache
def _inside(having: Callable[[float], Mistake], line: str) -> Callable[[float], Mistake]:
    return lambda number: having(number).inside(line)


def mistake(line: str, key: str, says: str, *changes: str) -> Mistake:
    """changes: old, new for the line itself; then, for further lines, label, old, new."""
    table = {line: (changes[0], changes[1])}
    rest = changes[2:]
    table |= {rest[k]: (rest[k + 1], rest[k + 2]) for k in range(0, len(rest), 3)}
    return Mistake(key, table, says, line)


def numbered(
    line: str, key: str, says: str, *changes: str, numbers: tuple[float, ...], at: str = "", **more: Any
) -> tuple[Mistake, ...]:
    """A mistake with each of some numbers, which stand where `says` and new parts have NUMBER.

    at    the line where a reader should look, if that is another
    more  `right` and `whole`, as in `Mistake`
    """

    def having(number: float) -> Mistake:
        shown, exact = f"{number:.12g}", repr(float(number))
        filled = (change.replace("NUMBER", exact) for change in changes)
        of = mistake(line, f"{key}-{shown}", says.replace("NUMBER", shown), *filled)
        return replace(of, number=number, having=having, line=at or line, **more)

    return tuple(map(having, numbers))


#: A line in which a mistake is made, and what the templates of its change call there: "line", "label", "X"...
Where = Mapping[str, str]


def at(places: Iterable[Where], key: str, says: str, old: str, new: str) -> Mistake:
    """The same mistake in several lines: key, sentence and change are templates, filled with the names there."""
    places = list(places)
    changes = {place["line"]: (old.format(**place), new.format(**place)) for place in places}
    names = {name: " or ".join(dict.fromkeys(p[name] for p in places if name in p)) for name in places[0]}
    first = places[0]
    lines = tuple(changes) if len(places) > 1 else ()
    return Mistake(key.format(**first), changes, says.format(**names), first["line"], lines)


def is_whole(line: str) -> bool:
    """Whether a line is of an algorithm that is a whole model: "10.5", not "4.6"."""
    return line.partition(".")[0] in (*NUMBERS.values(), CLASSES)


def acts_at(mistake: Mistake, line: Line) -> bool:
    """Whether a mistake can change the value of a line of the outermost algorithm, computed from right inputs."""
    if mistake.within:
        return mistake.within == line.name
    return line.name in mistake.changes or any(n.partition(".")[0] in line.calls for n in mistake.changes)


#: What their expressions use beside the oracle's own names.
NAMES: dict[str, Any] = {name: value for name, value in vars(wrong).items() if callable(value)} | {
    "Full": Full,
    "Causal": Causal,
}

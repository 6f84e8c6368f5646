"""What differs between the lines that two models execute: lines are paired by the paper's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

from transformulary.paper import Config
from transformulary.paper.top import GIVES_TOKENS, Top
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.definitions import definitions
from transformulary.pseudocode.heads import sizes
from transformulary.pseudocode.nodes import Box, Head, Line
from transformulary.pseudocode.prose import plain
from transformulary.pseudocode.specialise import Program, order, widths_differ
from transformulary.tables import printable

Pair = tuple[Line | None, Line | None]
#: How many equal lines are shown before and after those that differ.
CONTEXT = 1


@dataclass(frozen=True)
class Difference:
    """Where one algorithm differs.

    number  of the algorithm
    titles  a's and b's, None where one does not execute the algorithm
    runs    neighbouring lines, (a's, b's): the same line twice, or what differs, None where one has no such line
    """

    number: str
    titles: Pair
    runs: tuple[tuple[Pair, ...], ...]


@dataclass(frozen=True)
class Diff:
    """Two models' names, and the algorithms that differ; if none does, what is to be said instead.

    where  the functions that only one of them uses
    """

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    same: Head | None = None
    where: tuple[Line, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(map(printable, self.names)))


def between(
    a: Config,
    b: Config,
    names: tuple[str, str],
    sized: bool = True,
    tops: tuple[Top, Top] = (GIVES_TOKENS, GIVES_TOKENS),
) -> Diff:
    """The differences of two models in the order of the algorithms; sizes are symbols, so they do not count.

    sized   whether the sizes of the configs are meant: where no line differs, they are compared
    tops    what stands on top of the layers of the two
    """
    widths = any(map(widths_differ, (a, b), tops))  # a name is no difference
    programs = [Program(c, widths=widths, top=top) for c, top in zip((a, b), tops, strict=True)]
    ours, theirs = ({x.number: x for x in (box(p, name) for name in p.executed)} for p in programs)
    numbers = sorted(ours | theirs, key=order)
    compared = (_compared(n, ours.get(n), theirs.get(n)) for n in numbers)
    found = tuple(x for x in compared if x.runs or x.titles[0] != x.titles[1])
    used = [dict.fromkeys(definitions(p, p.executed)) for p in programs]
    once = tuple(row for row in (used[0] | used[1]) if (row in used[0]) != (row in used[1]))
    return Diff(names, found, None if found else _same(names, sizes(a, b, names, tops), sized), once)


def _same(names: tuple[str, str], differing: tuple[tuple[str, ...], ...], sized: bool) -> Head:
    """That no line differs, and which sizes do."""
    table = differing if sized else ()
    rest = "; these sizes differ:" if table else ", with the same sizes." if sized else "."
    return Head(" and ".join(names), (plain(f"Both execute the same lines{rest}"),), table)


def _compared(number: str, a: Box | None, b: Box | None) -> Difference:
    pairs = list(_paired(*(x.lines if x else () for x in (a, b))))
    near = {i + d for i, (x, y) in enumerate(pairs) if x != y for d in range(-CONTEXT, CONTEXT + 1)}
    runs = groupby(enumerate(pairs), lambda entry: entry[0] in near)
    shown = tuple(tuple(pair for _, pair in run) for is_near, run in runs if is_near)
    return Difference(number, (_title(a), _title(b)), shown)


def _title(b: Box | None) -> Line | None:
    return Line("", 0, (f"Algorithm {b.number}:", b.title)) if b else None


def _paired(a: tuple[Line, ...], b: tuple[Line, ...]) -> Iterator[Pair]:
    """Lines side by side that have the same number, or are the same remark."""
    keys: list[list[str | Line]] = [[line.label or line for line in lines] for lines in (a, b)]
    for kind, i, i_end, j, j_end in SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(a[i:i_end], b[j:j_end], strict=True)
        else:
            yield from ((line, None) for line in a[i:i_end])
            yield from ((None, line) for line in b[j:j_end])

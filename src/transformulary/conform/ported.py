"""What a program dumped against golden vectors: the report of `conform DUMPS --against VECTORS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from transformulary.conform.notes import AGREES, DIFFERS, UNSEEN
from transformulary.conform.report import Report, Row
from transformulary.conform.vectors import compare_vectors, read_vectors

#: What `compare_vectors` says of a value -> what a report says.
STATES = {"pass": AGREES, "differ": DIFFERS, "missing": UNSEEN}


@dataclass(frozen=True)
class Ported(Report):
    """A `Report` whose rows are the values of the cases that were dumped, in the order of the vectors.

    `line` is the case, `at` the path; `unseen` are the cases of which nothing was dumped.
    """

    @property
    def answer(self) -> list[str]:
        """For every case the first value that differs: what follows is its echo."""
        seen = [row for row in self.rows if row.status != UNSEEN]
        if not seen:
            return ["Nothing could be compared."]
        first = {row.line: row for row in reversed(seen) if row.status == DIFFERS}
        said = [f"{case}: the first value that differs is {_numbers(first[case])}." for case in reversed(first)]
        said = said or [f"Everything that was seen agrees: {_count(seen)}."]
        if missing := [row for row in self.rows if row.status == UNSEEN]:
            said.append(f"Not seen: {_count(missing)} of these cases.")
        if self.unseen:
            said.append(f"Not seen: {len(self.unseen)} other case{'s' if len(self.unseen) > 1 else ''}.")
        return said

    @property
    def _head(self) -> str:
        return f"{self.candidate} against {self.against}: {self.precision}"

    def _table(self, whole: bool = False) -> list[tuple[str, str, str]]:
        """For every case a line of what agrees, of what differs and of what is missing."""
        table = []
        for case in dict.fromkeys(row.line for row in self.rows):
            of = {state: self._of(case, state) for state in (AGREES, DIFFERS, UNSEEN)}
            table += [(case, state, f"{_count(rows)}: {SAYS[state](rows)}") for state, rows in of.items() if rows]
        if self.unseen:
            table.append(("other cases", UNSEEN, _some(self.unseen)))
        return table

    def _of(self, case: str, state: str) -> list[Row]:
        return [row for row in self.rows if (row.line, row.status) == (case, state)]


def conform_vectors(
    dumps: str | Path,
    vectors: str | Path,
    rename: Mapping[str, str | None] | None = None,
    tokens: str = "columns",
    precision: str | None = None,
) -> Ported:
    """The report of what a program dumped, compared with golden vectors.

    Takes and raises what `compare_vectors` does.
    """
    found = compare_vectors(dumps, vectors, rename, tokens, precision)
    rows = tuple(Row(r.case, STATES[r.verdict], r.verdict != "missing", r.error, r.allowed, r.path) for r in found)
    unseen = tuple(name for name in read_vectors(vectors) if name not in {row.line for row in rows})
    return Ported(str(dumps), str(vectors), precision or "in the precision of its files", 0, rows, unseen=unseen)


def _count(rows: Sequence[Row]) -> str:
    return f"{len(rows)} value{'s' if len(rows) > 1 else ''}"


def _numbers(row: Row) -> str:
    error = f"error {row.error:.1e}" if row.error < float("inf") else "infinite, or not a number"
    return f"{row.at} ({error}, allowed {row.allowed:.1e})"


def _worst(rows: Sequence[Row]) -> str:
    worst = max(rows, key=lambda row: row.error / (row.allowed or 1.0))
    return f"error at most {worst.error:.1e}, allowed {worst.allowed:.1e}, at {worst.at}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


SAYS: dict[str, Callable[[Sequence[Row]], str]] = {
    AGREES: _worst,
    DIFFERS: lambda rows: f"first {_numbers(rows[0])}",
    UNSEEN: lambda rows: _some([row.at for row in rows]),
}

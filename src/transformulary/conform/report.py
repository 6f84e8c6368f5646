"""One report of everything that was compared: what agrees, what differs and why, what could not be seen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from transformulary.conform.compared import at_most, told
from transformulary.conform.faults import Fault
from transformulary.conform.notes import AGREES, DIFFERS, UNSEEN, Note
from transformulary.conform.titles import title_of
from transformulary.oracle.path import line_of

#: Notes of what was not seen that the answer repeats; the first only where no fault says it.
CAVEATS = ("masks", "rounding")
#: Where the first clause of what a note says ends.
CLAUSE = re.compile("[:,;]")


@dataclass(frozen=True)
class Row:
    """One line: over all layers and heads, the error that stands worst against what is allowed there.

    line       "10.6", or "10.6/5.2" for line 2 of Algorithm 5 within it
    compared   how many values were compared
    at         the path of the error
    misshapen  whether the value there has another shape than the oracle's
    """

    line: str
    status: str
    compared: int = 0
    error: float = 0.0
    allowed: float = 0.0
    at: str = ""
    misshapen: bool = False


@dataclass(frozen=True)
class Report:
    """What `conform` found.  `status`: 0 everything seen agrees, 1 something differs, 2 nothing was compared."""

    candidate: str
    against: str
    precision: str
    ell: int
    rows: tuple[Row, ...] = ()
    notes: tuple[Note, ...] = ()
    faults: tuple[Fault, ...] = ()
    #: The largest error anywhere once every fault is put right; None where some fault has no explanation.
    agreement: float | None = None
    unseen: tuple[str, ...] = field(default=())
    #: Known mistakes that cannot be told from rounding in this precision, on this input.
    invisible: tuple[str, ...] = ()
    #: What both read: the token ids of x, those of the context z, the segments.
    tokens: tuple[int, ...] = ()
    context: tuple[int, ...] = ()
    segments: tuple[int, ...] = ()
    #: Of the algorithm whose lines they are.
    number: str = "10"

    @property
    def agrees(self) -> bool:
        return self.status == 0

    @property
    def status(self) -> int:
        states = [row.status for row in self.rows] + [note.status for note in self.notes]
        return 1 if DIFFERS in states or self.faults else 0 if AGREES in states else 2

    @property
    def answer(self) -> list[str]:
        """The verdict, in a few sentences: the last lines of the text."""
        wrong = [f"{n.kind.capitalize()}: {n.says}." for n in self.notes if n.status == DIFFERS]
        said = [*dict.fromkeys([*wrong, *map(str, self.faults)])]  # a wrong weight may be both
        if self.status == 2:
            return ["Nothing could be compared."]
        if not said:
            said = [f"Everything that was seen agrees, to {self.agreement or 0.0:.0e}."]
        elif self.faults and self.agreement is not None:
            these = "this one change" if len(self.faults) == 1 else f"these {len(self.faults)} changes"
            what = "everything that was seen" if self.unseen else "everything"
            said.append(f"With {these} {what} agrees to {self.agreement:.0e}.")
        masks = any("mask" in fault.says for fault in self.faults)
        caveats = CAVEATS[1:] if masks else CAVEATS
        said += [f"{n.kind.capitalize()}: {n.says}." for n in self.notes if n.kind in caveats and n.status == UNSEEN]
        if self.unseen:
            several = "s" if len(self.unseen) > 1 else ""
            of = f"line{several} {', '.join(self.unseen)} of Algorithm {self.number}"
            said.append(f"Not seen by themselves: {of}.")
        if n := len(self.invisible):
            known = "1 known mistake, which" if n == 1 else f"{n} known mistakes, which"
            them = "it" if n == 1 else "them"
            hidden = f"{known} in {self._low} cannot be told from rounding"
            how = f"Compute in float64 to see {them} (a PyTorch model: model.double())"
            if self.precision == "float64":  # and some values are cast to less
                how = f"Leave every value in float64 to see {them}"
            said.append(f"Not seen: {hidden}. {how}.")
        return said

    def __str__(self) -> str:
        return self.text()

    def text(self, answer_first: bool = False) -> str:
        """For a terminal: what was compared, then the answer in the last lines, or in the first."""
        table = self._table()
        width = max((len(title) for title, _, _ in table), default=0)
        body = [f"  {title:{width}}  {status:8}  {says}".rstrip() for title, status, says in table]
        hidden = ["", f"{self._hidden}:", *(f"  {says}" for says in self.invisible)] if self.invisible else []
        body = [self._head, "", *body, *hidden]
        return "\n".join([*self.answer, "", *body] if answer_first else [*body, "", *self.answer])

    def markdown(self) -> str:
        """A page or a comment: a table, then the answer."""
        rows = [f"| {title} | {status} | {says} |" for title, status, says in self._table()]
        hidden = [f"{self._hidden}:", "", *(f"- {says}" for says in self.invisible), ""] if self.invisible else []
        table = ["| what | verdict | |", "|---|---|---|", *rows, ""]
        answer = ["Answer:", "", *(f"- {sentence}" for sentence in self.answer), ""]
        return "\n".join([f"### {self._head}", "", *table, *hidden, *answer])

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON; an infinite error is null."""
        content = asdict(self) | {"status": self.status, "answer": self.answer}
        return {key: _finite(value) for key, value in content.items()}

    def junit(self) -> str:
        """JUnit's XML: a test per line, note and hidden fault; what was not seen is skipped; beside it the text."""
        from xml.etree import ElementTree

        suite = ElementTree.Element("testsuite", name=f"conform {self.candidate}")
        table = self._table(whole=True)
        table += [(str(fault.line), DIFFERS, fault.says) for fault in self.faults if fault.hidden]
        often = Counter(title for title, _, _ in table)
        for title, status, says in table:
            name = f"{title}, {CLAUSE.split(says)[0]}" if often[title] > 1 else title
            case = ElementTree.SubElement(suite, "testcase", classname="conform", name=name)
            if status == DIFFERS:
                ElementTree.SubElement(case, "failure", message=says or DIFFERS).text = "\n".join(self.answer)
            elif status == UNSEEN:
                ElementTree.SubElement(case, "skipped", message=says or "no value of it was seen")
        ElementTree.SubElement(suite, "system-out").text = self.text()
        for key, state in (("failures", DIFFERS), ("skipped", UNSEEN)):
            suite.set(key, str(sum(status == state for _, status, _ in table)))
        suite.set("tests", str(len(table)))
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"

    @property
    def _head(self) -> str:
        of = (
            f"{len(self.context)} and {self.ell} tokens" if self.context else f"{self.ell} token{'s' * (self.ell != 1)}"
        )
        return f"{self.candidate} against {self.against}: {of}, {self.precision}"

    @property
    def _hidden(self) -> str:
        return f"What cannot be told from rounding in {self._low}"

    @property
    def _low(self) -> str:
        """The precision in which something hides; of values that are in several, most may be in float64."""
        return self.precision if self.precision != "float64" else "the precision of some values"

    def _table(self, whole: bool = False) -> list[tuple[str, str, str]]:
        """(what, verdict, numbers) of every note and line, in the order of comparison.

        whole: also of lines that nothing was seen of, which the answer lists
        """
        first = [(n.kind, n.status, n.says) for n in self.notes if n.kind != "decoding"]
        last = [(n.kind, n.status, n.says) for n in self.notes if n.kind == "decoding"]
        rows = [row for row in self.rows if row.compared or whole]
        return first + [(title_of(row.line), row.status, _numbers(row)) for row in rows] + last


def _numbers(row: Row) -> str:
    if row.status == UNSEEN:
        return "rounding alone may change it altogether" if row.compared else ""
    infinite = "another shape" if row.misshapen else "not a number"
    error = f"error {row.error:.1e}" if row.error < float("inf") else infinite
    allowed = at_most(row.allowed, agrees=row.status == AGREES)
    return f"{error}, allowed {allowed}" + (f", at {row.at}" if row.status == DIFFERS else "")


def rows_of(
    errors: Iterable[tuple[str, float, float]],
    unseen: Sequence[str],
    misshapen: Collection[str] = (),
    number: str = "10",
) -> tuple[Row, ...]:
    """Rows from (path, error, allowed) of every value compared, and the lines of Algorithm `number` that were not seen.

    misshapen: the paths of values that have another shape than the oracle's
    """
    rows: dict[str, Row] = {}
    for path, error, allowed in errors:
        line = line_of(path)
        old = rows.get(line)
        status = DIFFERS if not error <= allowed or (old and old.status == DIFFERS) else AGREES
        worse = old is None or not error / allowed <= old.error / old.allowed
        error, allowed, at = (error, allowed, path) if worse or old is None else (old.error, old.allowed, old.at)
        status = status if told(error, allowed) else UNSEEN
        rows[line] = Row(line, status, (old.compared if old else 0) + 1, error, allowed, at, at in misshapen)
    names = [label if "." in label else f"{number}.{label}" for label in unseen]
    rows = {name: Row(name, UNSEEN) for name in names} | rows
    return tuple(sorted(rows.values(), key=lambda row: _order(row.line)))


def _order(line: str) -> list[tuple[str, int, str]]:
    steps = [step.partition(".") for step in line.partition(":")[0].split("/")]
    return [(number, int(re.match(r"\d+", label)[0]), label) for number, _, label in steps]  # type: ignore[index]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    return [_finite(member) for member in value] if isinstance(value, list | tuple) else value

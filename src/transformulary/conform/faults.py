"""What is wrong, each mistake once and with where it is: from what was found at single values and hidden in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from transformulary.conform.allowance import EXACT
from transformulary.conform.compared import at_most
from transformulary.conform.finding import Finding
from transformulary.conform.mistakes import BY_KEY, Mistake, is_whole
from transformulary.conform.projection import OUTSIDE, Projection, Suspicion
from transformulary.conform.search import Mistakes
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import parse
from transformulary.oracle.watch import LAYERS
from transformulary.oracle.whole import layers_of, number_of
from transformulary.oracle.whole import lines as lines_of
from transformulary.paper import Config

#: An error of so many times what rounding may do is clear: then the same mistake in other layers would show.
CLEAR = 10.0
HIDDEN = "hidden in the rounding of single values"
ROUGHLY = " (the number as far as this precision shows it)"


@dataclass(frozen=True)
class Fault:
    """One mistake, wherever it is; reported once.

    key     the known mistake; "" for a difference that none explains
    line    "Algorithm 10, line 8"
    where   "layer 1", "every layer", "" where the line has no layer
    says    what is wrong
    error   the largest error that it causes; `remaining` the largest that is left without it
    others  what would explain the values as well
    paths   the values that show it
    """

    key: str
    line: str
    where: str
    says: str
    error: float
    remaining: float
    paths: tuple[str, ...]
    others: tuple[str, ...] = ()

    @property
    def hidden(self) -> bool:
        """Whether every number agrees, and only all of them together show it."""
        return HIDDEN in self.says

    def __str__(self) -> str:
        head = f"{self.line}, {self.where}" if self.where else self.line
        other = f" (or, which would explain it as well: {'; '.join(self.others)})" if self.others else ""
        return f"{head}: {self.says}{other}."


def faults_of(findings: Sequence[Finding], c: Config) -> tuple[Fault, ...]:
    """Every mistake once, with where it is; then what no known mistake explains."""
    of: dict[str, list[tuple[Mistake, Finding, int]]] = {}
    unexplained = []
    for finding in _fewest(findings):
        own = parse(finding.path).layer
        for mistake, layer in finding.mistakes:
            of.setdefault(mistake.key, []).append((mistake, finding, layer or own))
        if not finding.mistakes:
            unexplained.append(finding)
    return (*(_known(entries, c) for entries in of.values()), *_unknown(unexplained, layers_of(c)))


def hidden_faults(projections: Iterable[Projection], findings: Sequence[Finding], L: int) -> tuple[Fault, ...]:
    """Mistakes that no value shows by itself, found in the pattern of all differences."""
    named = {mistake.key for finding in findings for mistake, _ in finding.mistakes}
    of: dict[Mistake, list[Suspicion]] = {}
    others: dict[Mistake, set[str]] = {}
    for s, alike in (found for projection in projections for found in projection.hidden()):
        if named.isdisjoint(each.mistake.key for each in (s, *alike)):  # else it is what is named already
            of.setdefault(s.mistake, []).append(s)
            more = {other.mistake.says for other in alike if other.mistake != s.mistake}
            others.setdefault(s.mistake, set()).update(more)
    return tuple(_hidden(group, L, tuple(sorted(others[mistake]))) for mistake, group in of.items())


def unexplained_faults(projections: Iterable[Projection], findings: Sequence[Finding], L: int) -> tuple[Fault, ...]:
    """Lines whose numbers, each within what is allowed, together differ by more than rounding makes; by line."""
    named, differing = {mistake for f in findings for mistake, _ in f.mistakes}, {f.path for f in findings}
    of: dict[tuple[str, str], dict[str, float]] = {}
    for path, times in (item for each in projections for item in each.unexplained(named).items()):
        if path not in differing:
            step = parse(path).steps[-1]
            of.setdefault((step.number, step.label), {})[path] = times
    return tuple(_unexplained(f"Algorithm {number}, line {label}", values, L) for (number, label), values in of.items())


def _unexplained(line: str, values: Mapping[str, float], L: int) -> Fault:
    where = _where({parse(path).layer or OUTSIDE for path in values}, L)
    size = f"differs by {max(values.values()):.0f} times what rounding makes of all its numbers together"
    says = f"{size} ({HIDDEN}), and no known mistake explains it"
    return Fault("", line, where, says, 0.0, float("nan"), tuple(values))


def _hidden(group: list[Suspicion], L: int, others: tuple[str, ...]) -> Fault:
    mistake, weakest = group[0].mistake, max(group, key=lambda s: s.deviation / s.coefficient)
    sure = f"{weakest.coefficient:.2f} of it is there, give or take {weakest.deviation:.2f}"
    says = f"{mistake.says} ({HIDDEN}: {sure}){ROUGHLY if mistake.having else ''}"
    where = _where({s.layer for s in group}, L) or ("outside of the layers" if mistake.layered else "")
    return Fault(mistake.key, _head(mistake), where, says, 0.0, 0.0, (), others)


def invisible_in(projections: Iterable[Projection]) -> tuple[str, ...]:
    """The mistakes that cannot be told from rounding, with the layers if that is so in some layers only."""
    of: dict[str, list[Suspicion]] = {}
    for projection in projections:
        for s in projection.suspicions():
            of.setdefault(s.mistake.says, []).append(s)
    hidden = {says: [s.layer for s in group if not (s.found or s.excluded)] for says, group in of.items()}
    said = (
        says if len(layers) == len(of[says]) else f"{says} ({_where(set(layers), 0) or 'the final norm'})"
        for says, layers in hidden.items() if layers
    )  # fmt: skip
    return tuple(said)


def _fewest(findings: Sequence[Finding]) -> list[Finding]:
    """Where several mistakes explain a value equally well: those that explain most values, the first in the table."""
    count = Counter(
        key for f in findings for key in {m.key for mistakes in (f.mistakes, *f.alike) for m, _ in mistakes}
    )
    order = {key: i for i, key in enumerate(BY_KEY)}

    def worth(mistakes: Mistakes) -> tuple[int, int]:
        return sum(count[m.key] for m, _ in mistakes), -sum(
            order.get(m.key, len(order) + len(m.key)) for m, _ in mistakes
        )

    chosen = []
    for f in findings:
        best = max((f.mistakes, *f.alike), key=worth)
        alike = tuple(mistakes for mistakes in (f.mistakes, *f.alike) if mistakes is not best)
        chosen.append(replace(f, mistakes=best, alike=alike))
    return chosen


def _instead(mistake: Mistake, f: Finding) -> set[str]:
    """What explains a value as well as this mistake does: other mistakes, or the same in another layer."""
    own = next((m.key, layer) for m, layer in f.mistakes if m.key == mistake.key)  # there within one line perhaps
    kept = {(m.key, at) for m, layer in f.mistakes for at in (layer, 0, parse(f.path).layer)}  # the same here
    new = [(m, at) for mistakes in f.alike if own not in {(m.key, at) for m, at in mistakes} for m, at in mistakes]
    others = [(m, at) for m, at in new if (m.key, at) not in kept]
    return {m.says if m.key != mistake.key else f"the same in {_where({at}, 0)} alone" for m, at in others}


def _known(entries: list[tuple[Mistake, Finding, int]], c: Config) -> Fault:
    mistake, findings = entries[0][0], [finding for _, finding, _ in entries]
    places = [_place(entry, mistake) for entry in entries]
    head = _head(mistake, {label for label, _ in places} - {""} or _possible(mistake, places, c))
    if mistake.lines:
        places = [("", layer) for _, layer in places]
    where = _seen_in(places, _layers(findings, c), number_of(c))
    if where and "every layer" not in where and any(EXACT < f.allowed > f.error / CLEAR for f in findings):
        where = f"at least {where if where.startswith('in ') else f'in {where}'}"
    others = tuple(sorted(set.intersection(*(_instead(mistake, f) for f in findings))))
    remaining = max(f.remaining for f in findings)
    says = mistake.says
    if mistake.right:
        says += f"; it should be {getattr(c, mistake.right):.12g}"
    if mistake.having and remaining > EXACT and not mistake.whole:
        says += ROUGHLY
    return Fault(
        mistake.key, head, where, says, max(f.error for f in findings),
        remaining, tuple(f.path for f in findings), others,
    )  # fmt: skip


def _head(mistake: Mistake, seen: Collection[str] = ()) -> str:
    """The algorithm and the line to look at; the lines where it was seen, of a mistake that is made in several."""
    number, _, label = mistake.line.partition(".")
    every = [line.partition(".")[2] for line in mistake.lines]
    return f"Algorithm {number}, {_lines([label for label in every if label in seen] or every or [label])}"


def _possible(mistake: Mistake, places: Sequence[tuple[str, int]], c: Config) -> set[str]:
    """The labels of the lines of a mistake that this model has, in those layers."""
    outside = any(layer in (0, OUTSIDE) for _, layer in places)
    return {line.label for line in lines_of(c) if line.name in mistake.lines and (outside or line.layers)}


def _layers(findings: Sequence[Finding], c: Config) -> int:
    """How many layers the lines have at which something was found."""
    counted = {line_at(f.path).layers for f in findings} - {""}
    return max((int(getattr(c, size)) for size in counted), default=layers_of(c))


def _place(entry: tuple[Mistake, Finding, int], mistake: Mistake) -> tuple[str, int]:
    """(line of the whole algorithm, layer; 0 = every layer or none) where a mistake was found."""
    _, finding, layer = entry
    if mistake.lines and not finding.since:
        return line_at(finding.path).label, layer if line_at(finding.path).layers else OUTSIDE
    if is_whole(mistake.line):
        return "", layer if mistake.layered else OUTSIDE
    if mistake.within:
        return mistake.within.partition(".")[2], layer if mistake.layered else OUTSIDE
    line = line_at(finding.path)
    return "" if finding.since else line.label, layer if line.layers or finding.since else OUTSIDE


def _seen_in(places: Sequence[tuple[str, int]], L: int, number: str) -> str:
    """The lines and layers of `_place`: a line that is in no layer stands apart from those of some layers."""
    where = _where({layer for _, layer in places}, L)
    inside, outside = ({line for line, layer in places if line and (layer == OUTSIDE) == out} for out in (False, True))
    if inside and outside and "every layer" not in where:
        return f"in {_lines(inside)}, {where}, and {_lines(outside)} of Algorithm {number}"
    lines = inside | outside
    return ", ".join(filter(None, (f"in {_lines(lines)} of Algorithm {number}" if lines else "", where)))


def _lines(labels: Iterable[str]) -> str:
    labels = sorted(labels, key=lambda label: (len(label), label))
    return f"line{'s' if labels[1:] else ''} {' and '.join(labels)}"


def _where(layers: set[int], L: int) -> str:
    """0 = every layer, LAYERS = and nothing else, OUTSIDE = a line that is in none."""
    if LAYERS in layers:
        return "every layer, but not the final norm"
    numbers = sorted(layers - {OUTSIDE})
    if not numbers:
        return ""
    if 0 in numbers or len(numbers) == L > 1:
        return "every layer"
    return f"layer{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _heads(findings: Iterable[Finding]) -> str:
    """The heads in which values differ, by number; "" for values of no head."""
    heads = sorted({i for f in findings for step in parse(f.path).steps for name, i in step.indices if name == "h"})
    return f"head{'s' if len(heads) > 1 else ''} {', '.join(map(str, heads))}" if heads else ""


def _unknown(findings: list[Finding], L: int) -> list[Fault]:
    """Differences by line and by what they look like."""
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        step = parse(finding.path).steps[-1]
        groups.setdefault((step.number, step.label, finding.about), []).append(finding)
    faults = []
    for (number, label, about), group in groups.items():
        worst = max(group, key=lambda f: f.error / f.allowed)
        lines = [*dict.fromkeys(group[0].since)]
        several, were = ("s", "were") if lines[1:] else ("", "was")
        also = f"; the fault may be in line{several} {', '.join(lines)} as well, which {were} not seen"
        since = also if lines else ""
        size = (
            f"by {worst.error:.1e} (allowed {at_most(worst.allowed)})" if worst.error < float("inf") else "altogether"
        )
        says = f"differs {size}, and {about}{since}"
        where = ", ".join(filter(None, (_where({parse(f.path).layer or OUTSIDE for f in group}, L), _heads(group))))
        line, paths = f"Algorithm {number}, line {label}", tuple(f.path for f in group)
        faults.append(Fault("", line, where, says, worst.error, float("nan"), paths))
    return faults

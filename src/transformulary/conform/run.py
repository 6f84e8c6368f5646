"""`conform`: one candidate against one reference, and one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from transformulary.conform.allowance import Allowance
from transformulary.conform.candidates.candidate import Array, Candidate, lowest
from transformulary.conform.candidates.opened import candidates_of
from transformulary.conform.candidates.places import Table, as_table
from transformulary.conform.compared import at_most, error_of, is_line, outermost, told
from transformulary.conform.diagnosis import Lockstep
from transformulary.conform.dumps import nearest, read_index
from transformulary.conform.faults import Fault, faults_of, hidden_faults, invisible_in, unexplained_faults
from transformulary.conform.finding import Finding
from transformulary.conform.held import adopted
from transformulary.conform.misplaced import misplaced
from transformulary.conform.misplaced import note as note_of
from transformulary.conform.mistakes import KNOWN
from transformulary.conform.notes import AGREES, DIFFERS, UNSEEN, Note
from transformulary.conform.ported import check_said, conform_vectors
from transformulary.conform.projection import Projection
from transformulary.conform.reference import Reference, reference
from transformulary.conform.replay import Replay
from transformulary.conform.report import Report, rows_of
from transformulary.conform.tokens import compare_ids, traced, what_is_read
from transformulary.conform.vectors import has_vectors
from transformulary.conform.weights import Match, compare_weights, weight_notes
from transformulary.errors import CandidateError
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import line_of
from transformulary.oracle.whole import number_of
from transformulary.paper import Read
from transformulary.tokens import Given


def conform(
    candidate: Any,
    against: Any,
    *,
    tokens: Sequence[int] | None = None,
    text: str = "",
    context: str = "",
    context_tokens: Sequence[int] | None = None,
    segments: Sequence[int] | None = None,
    table: Table | Mapping[str, Any] | None = None,
    rename: Mapping[str, str | None] | None = None,
    orientation: str | None = None,
    precision: str | None = None,
    decoding: bool = True,
) -> Report:
    """Compare a candidate with a reference, line by line, and say what is wrong.

    Args:
        candidate: a `torch.nn.Module`; a Python file (of functions, or with `load(folder)`); a folder or file of
            dumps; a checkpoint's folder or GGUF file; "transformers" or "ours": that library's model of the reference's
            folder; {path: array}; `Functions`; a `Candidate`.
        against: a folder with a checkpoint, a preset ("paper", "gpt2", "llama", "bert", ...: tiny, random parameters),
            or a `Reference`; or a folder of golden vectors, if the candidate is a folder of dumps.
        tokens: ids from 0; text: what the reference's tokenizer makes ids of.  Default: those of a
            folder that `trace` wrote, else 11 ids, of which the first is the start token if a model has one.
        context, context_tokens: the same of the other sequence that an encoder-decoder reads; default: 8 ids.
        segments: the segment of every token, of an encoder that has segments; default: those of a trace, or of the
            text, or all 0, or, where the tokens are our own choice, the first half 0 and the others 1.
        table: where a PyTorch model shows its lines, also as a mapping with what its TOML file has; default: the
            built-in table of its class.  Of dumps and values it says in `lower` what was computed in lower precision.
        rename: names of dumps -> paths.
        orientation: what tokens are in values and dumps, "columns" or "rows"; default: as the shapes say.
        precision: what values and dumps were computed in, where they are stored in more; default: as they are stored.
        decoding: whether a PyTorch model is also run with its cache, padded and in a batch.

    Raises:
        CandidateError: the candidate cannot be run or shows nothing; CheckpointError, TokenError: as `load`, `encode`;
        DataError: as `conform_vectors`.
    """
    if isinstance(against, str | Path) and has_vectors(against):
        said = {"tokens": tokens, "context_tokens": context_tokens, "segments": segments, "table": table}
        check_said({name: value is not None for name, value in said.items()} | {"text": bool(text or context)})
        return conform_vectors(candidate, against, rename, orientation or "columns", precision)
    ref = reference(against)
    given = Given(text or None, tokens, context or None, context_tokens, segments)
    if given == Given() and isinstance(candidate, str | Path):
        given = traced(read_index(Path(candidate)))
    x = what_is_read(ref, given)
    found = candidates_of(
        candidate, ref, x, text=text, table=as_table(table), rename=rename, orientation=orientation,
        precision=precision, decoding=decoding,
    )  # fmt: skip
    lower = _lower(as_table(table), ref)
    found = [_of_last_token(replace(c, lower={**c.lower, **lower}), ref, x) for c in found]
    return _report(found[0], [_compared(c, ref, x, given) for c in found], ref, x)


def _lower(table: Table | None, ref: Reference) -> Mapping[str, str]:
    """Line -> the lower precision in which it was computed, as a table says, whatever shows the line."""
    lower, lines = table.lower if table else {}, [line.name for line in ref.whole.lines]
    if unknown := [line for line in lower if line.partition("/")[0] not in lines]:
        says = f"lower says {unknown[0]}, and that is no line of this model. {nearest(unknown[0], lines)}"
        raise CandidateError(says.rstrip())
    return lower


def _report(first: Candidate, runs: Sequence[_Run], ref: Reference, x: Read) -> Report:
    """What the runs of a candidate's parts come to."""
    notes = [note for run in runs for note in run.notes]
    errors = [error for run in runs for error in run.errors]
    left = [error for run in runs for error in run.left]
    weights = [fault for run in runs for fault in run.weights]
    findings = [finding for run in runs for finding in run.findings]
    projections = [run.projection for run in runs if run.projection]
    number = number_of(ref.config)
    seen = {row.line for row in rows_of(errors, ()) if row.status != UNSEEN}
    if not errors and not notes:
        raise CandidateError(f"{first.name} shows no line of Algorithm {number}; there is nothing to compare.")
    unseen = [] if any(line_at(line).counts for line in seen) else _unseen(ref, seen)
    hidden, unexplained = (of(projections, findings, ref.whole.layers) for of in (hidden_faults, unexplained_faults))
    return Report(
        candidate=first.name, against=ref.name, precision=first.precision, ell=len(x.x),
        rows=rows_of(errors, unseen, {path for run in runs for path in run.misshapen}, number), notes=tuple(notes),
        faults=(*weights, *faults_of(findings, ref.config), *hidden, *unexplained),
        agreement=None if unexplained else _agreement(left, findings), unseen=tuple(unseen),
        invisible=invisible_in(projections), tokens=x.x, context=x.z, segments=x.s, number=number,
    )  # fmt: skip


def _of_last_token(c: Candidate, ref: Reference, x: Read) -> Candidate:
    """The last line of the last token alone is compared beside the lines: a note, without a search for mistakes."""
    last = ref.whole.output
    shown = c.seen.get(last)
    if c.own or shown is None or ref.whole.gives != "tokens" or shown.size != ref.config.N_V or len(x.x) == 1:
        return c
    seen = {path: value for path, value in c.seen.items() if path != last}
    P = Replay(last, seen, x, ref.theta, ref.config, {})({})
    error = error_of(P[:, -1], shown.ravel())
    allowed = AllowedHere(replace(c, seen=seen | {last: P}), ref, x)(last)
    status, how = (AGREES, "agrees") if error <= allowed else (DIFFERS, "differs")
    line = line_at(last).label
    size = f"error {error:.1e}, allowed {at_most(allowed, error <= allowed)}"
    says = f"line {line} is shown of the last token alone, and {how}: {size}"
    return replace(c, seen=seen, notes=(*c.notes, Note("output", status, says)))


@dataclass(frozen=True)
class _Run:
    """What one candidate's values showed; `left` are the errors that the findings do not set right.

    weights  what it holds in place of parameters, which the findings and `left` are beside
    """

    errors: list[tuple[str, float, float]]
    left: list[tuple[str, float, float]]
    findings: list[Finding]
    projection: Projection | None
    misshapen: frozenset[str] = frozenset()
    notes: tuple[Note, ...] = ()
    weights: tuple[Fault, ...] = ()


@np.errstate(all="ignore")  # their numbers may be infinite, or too large to be squared: the report says so
def _compared(c: Candidate, ref: Reference, x: Read, given: Given) -> _Run:
    """Tokens, weights, and, beside an oracle that holds the weights that the candidate does, the lines."""
    matches = compare_weights(c.weights, ref.theta, ref.config, c.buffers) if c.weights or c.buffers else []
    allowed = AllowedHere(c, ref, x)
    like_theirs, weights, errors = adopted(c, matches, ref, x, allowed)
    run = _placed(c, like_theirs, x)
    run = replace(run, notes=(*_notes(c, matches, ref, x, given), *run.notes))
    if not weights:
        return run
    return replace(run, weights=tuple(weights), errors=[(path, error, allowed(path)) for path, error in errors.items()])


def _placed(c: Candidate, ref: Reference, x: Read) -> _Run:
    try:
        return _run(c, ref, x, partial(_check_places, c, ref, x))
    except _Misplaced as found:
        right = replace(c, seen={path: value for path, value in c.seen.items() if path not in found.paths})
        note = note_of(c.seen, found.paths, found.error, ref.whole, x)
        rest = _run(right, ref, x)
        return replace(rest, notes=(note, *rest.notes))


class _Misplaced(Exception):
    """What is shown at some lines is not of them."""

    def __init__(self, paths: tuple[str, ...], error: float) -> None:
        self.paths, self.error = paths, error


def _check_places(c: Candidate, ref: Reference, x: Read) -> None:
    last = ref.whole.output
    if last in c.seen and not c.own:
        allowed = AllowedHere(replace(c, seen={last: c.seen[last]}), ref, x)(last)
        paths, error = misplaced(c.seen, ref.whole, x, allowed)
        if paths:
            raise _Misplaced(paths, error)


def _run(c: Candidate, ref: Reference, x: Read, differs: Callable[[], None] = lambda: None) -> _Run:
    allowed = AllowedHere(c, ref, x)
    run = Lockstep(
        c.seen, ref.config, x, ref.theta, allowed, own=c.own, noise=allowed.noise, low=allowed.low, differs=differs
    )
    errors = [(path, error, allowed(path)) for path, error in run.errors.items()]
    untried = tuple(Note("rounding", UNSEEN, what) for what in (run.projection.untried if run.projection else ()))
    if ordered := _of_another_order(c, ref, x, run.findings):
        return _Run(errors, [error for error in errors if error[0] == ref.whole.output], ordered, None)
    return _Run(errors, errors, run.findings, run.projection, frozenset(run.misshapen), untried)


def _of_another_order(c: Candidate, ref: Reference, x: Read, findings: Sequence[Finding]) -> list[Finding]:
    """What explains the output of a model whose lines stand in another order; nothing if that does not."""
    alone = len(findings) == 1 and len(c.seen) > 1  # another order shows at several of the lines that are seen
    last, order = ref.whole.output, KNOWN[number_of(ref.config)].order
    if c.own or last not in c.seen or alone or all(finding.mistakes for finding in findings):
        return []
    differ = {line_at(finding.path).name for finding in findings}
    agree = {line_at(path).name for path in c.seen if is_line(path)} - differ
    if all(mistake.line in agree for mistake in order):
        return []
    output = replace(c, seen={last: c.seen[last]})
    run = Lockstep(output.seen, ref.config, x, ref.theta, AllowedHere(output, ref, x), order=True)
    found = [finding for finding in run.findings if any(mistake in order for mistake, _ in finding.mistakes)]
    return [replace(finding, since=()) for finding in found]


def _unseen(ref: Reference, seen: set[str]) -> list[str]:
    """Lines of which nothing was seen; line 3 is line 2 in one matrix."""
    lines = [line for line in ref.whole.lines if not line.counts]
    whole = {line for line in seen if is_line(line)} | {line.removesuffix(":logits") for line in seen}
    for vectors, columns in pairwise(lines):
        if vectors.members and not columns.members and whole & {vectors.name, columns.name}:
            whole |= {vectors.name, columns.name}
    return [line.label if line.number == lines[0].number else line.name for line in lines if line.name not in whole]


class AllowedHere:
    """path -> the error that counts as agreement there: what the oracle makes in the precision of that line.

    That is the lowest of its value's, of those that went into it, the X to which it adds and all that was seen since,
    and of what its published code takes for that line.

    noise  path -> what the lowest of them did there to the oracle: of whole lines, and of what is in those
           that were not seen as a whole; empty in float64
    """

    def __init__(self, c: Candidate, ref: Reference, x: Read) -> None:
        stored = {path: c.kinds.get(path, c.precision) for path in c.seen}
        self._measured = partial(
            Allowance, config=ref.config, x=x, theta=ref.theta, own=c.own, lower=c.lower, stored=stored
        )
        self.precision, self.lower, self.kinds = c.precision, c.lower, dict(c.kinds)
        precisions = {c.precision, *c.kinds.values(), *c.lower.values()}
        self.by = {p: self._measured(c.seen, precision=p) for p in precisions}
        self.seen = c.seen
        if not c.own and {*c.kinds.values()} - {c.precision}:
            self._inherit(self.by[lowest(precisions)].noise)

    def __call__(self, path: str) -> float:
        return max(self.by[p](path) for p in self._precisions(path))

    @cached_property
    def noise(self) -> Mapping[str, Array]:
        whole, by = outermost(self.seen), self.by
        if len(whole) < len(self.seen):
            by = {p: self._measured(whole, precision=p) for p in by}
        at = {path: by[lowest(self._precisions(path))].noise for path in whole}
        return {path: noise[path] for path, noise in at.items() if path in noise}

    def low(self, path: str, seen: Mapping[str, Array], shaken: int = 0, exactly: bool = False) -> Replay:
        """`Allowance.low` in the lowest of them."""
        return self.by[lowest(self._precisions(path))].low(path, seen, shaken, exactly)

    def _precisions(self, path: str) -> set[str]:
        """Those of a line, of its value, and of what went into it."""
        own = self.kinds.get(path, self.precision)
        hidden = {p for allowance in self.by.values() for p in allowance.since.get(path, ())}
        return {own, self.lower.get(line_of(path).partition("/")[0], own)} | hidden

    def _inherit(self, order: Iterable[str]) -> None:
        since = "float64"
        for path in order:
            own = self.kinds.get(path, self.precision)
            self.kinds[path] = since = lowest((own, since))
            if is_line(path) and line_at(path).stream:
                since = own


def _notes(c: Candidate, matches: Sequence[Match], ref: Reference, x: Read, given: Given) -> list[Note]:
    notes = []
    for theirs, ours, text in ((c.z, x.z, given.context), (c.x, x.x, given.text)):
        if theirs is not None:
            wrong = compare_ids(theirs, ours, ref.tokenizer, text or "")
            notes.append(Note("tokens", DIFFERS if wrong else AGREES, wrong or f"{len(ours)} ids"))
    return [*notes, *weight_notes(matches), *c.notes]


def _agreement(errors: Sequence[tuple[str, float, float]], findings: Sequence[Finding]) -> float | None:
    """The largest error once the faults are put right; None if some have no explanation."""
    if any(not finding.mistakes for finding in findings):
        return None
    wrong = {finding.path: finding.remaining for finding in findings}
    return max((wrong.get(path, error) for path, error, allowed in errors if told(error, allowed)), default=0.0)

"""`conform`: one candidate against one reference, and one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from transformulary.conform.allowance import Allowance
from transformulary.conform.candidates.candidate import Candidate, lowest
from transformulary.conform.candidates.opened import candidates_of
from transformulary.conform.candidates.places import Table, as_table
from transformulary.conform.compared import STREAM, error_of, told
from transformulary.conform.diagnosis import Finding, Lockstep, value_lines
from transformulary.conform.dumps import read_index
from transformulary.conform.faults import Fault, faults_of, hidden_faults, invisible_in
from transformulary.conform.held import adopted
from transformulary.conform.misplaced import misplaced
from transformulary.conform.misplaced import note as note_of
from transformulary.conform.mistakes import ORDER
from transformulary.conform.notes import AGREES, DIFFERS, UNSEEN, Note
from transformulary.conform.ported import check_said, conform_vectors
from transformulary.conform.projection import Projection
from transformulary.conform.reference import Reference, reference
from transformulary.conform.replay import Replay
from transformulary.conform.report import Report, rows_of
from transformulary.conform.tokens import compare_ids
from transformulary.conform.vectors import has_vectors
from transformulary.conform.weights import Match, compare_weights, weight_notes
from transformulary.errors import CandidateError, TokenError
from transformulary.oracle.path import line_of

#: How many tokens are compared where nobody says which; no other size of the tiny models is equal.
ELL = 11


def conform(
    candidate: Any,
    against: Any,
    *,
    tokens: Sequence[int] | None = None,
    text: str = "",
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
        against: a folder with a checkpoint, "paper", "gpt2" or "llama" (tiny, random parameters), or a `Reference`; or
            a folder of golden vectors, if the candidate is a folder of dumps.
        tokens: ids from 0; text: what the reference's tokenizer makes ids of.  Default: those of a
            folder that `trace` wrote, else 11 ids.
        table: where a PyTorch model shows its lines, also as a mapping with what its TOML file has; default: the
            built-in table of its class.
        rename: names of dumps -> paths.
        orientation: what tokens are in values and dumps, "columns" or "rows"; default: as the shapes say.
        precision: what values and dumps were computed in, where they are stored in more; default: as they are stored.
        decoding: whether a PyTorch model is also run with its cache, padded and in a batch.

    Raises:
        CandidateError: the candidate cannot be run or shows nothing; CheckpointError, TokenError: as `load`, `encode`;
        DataError: as `conform_vectors`.
    """
    if isinstance(against, str | Path) and has_vectors(against):
        check_said({"tokens": tokens is not None, "text": bool(text), "table": table is not None})
        return conform_vectors(candidate, against, rename, orientation or "columns", precision)
    ref = reference(against)
    if tokens is None and not text and isinstance(candidate, str | Path):
        tokens = read_index(Path(candidate)).get("tokens")
    x = input_ids(ref, tokens, text)
    found = candidates_of(
        candidate, ref, x, text=text, table=as_table(table), rename=rename, orientation=orientation,
        precision=precision, decoding=decoding,
    )  # fmt: skip
    found = [_of_last_token(c, ref, x) for c in found]
    return _report(found[0], [_compared(c, ref, x, text) for c in found], ref, x)


def _report(first: Candidate, runs: Sequence[_Run], ref: Reference, x: Sequence[int]) -> Report:
    """What the runs of a candidate's parts come to."""
    notes = [note for run in runs for note in run.notes]
    errors = [error for run in runs for error in run.errors]
    left = [error for run in runs for error in run.left]
    weights = [fault for run in runs for fault in run.weights]
    findings = [finding for run in runs for finding in run.findings]
    projections = [run.projection for run in runs if run.projection]
    seen = {row.line for row in rows_of(errors, ()) if row.status != UNSEEN}
    if not errors and not notes:
        raise CandidateError(f"{first.name} shows no line of Algorithm 10; there is nothing to compare.")
    unseen = [] if "10.1" in seen else _unseen(ref, seen)
    return Report(
        candidate=first.name, against=ref.name, precision=first.precision, ell=len(x),
        rows=rows_of(errors, unseen, {path for run in runs for path in run.misshapen}), notes=tuple(notes),
        faults=(*weights, *faults_of(findings, ref.config), *hidden_faults(projections, findings, ref.config.L)),
        agreement=_agreement(left, findings), unseen=tuple(unseen),
        invisible=invisible_in(projections), tokens=tuple(x),
    )  # fmt: skip


def _of_last_token(c: Candidate, ref: Reference, x: Sequence[int]) -> Candidate:
    """Line 11 of the last token alone is compared beside the lines: a note, without a search for what is wrong."""
    shown = c.seen.get("10.11")
    if c.own or shown is None or shown.size != ref.config.N_V or len(x) == 1:
        return c
    seen = {path: value for path, value in c.seen.items() if path != "10.11"}
    P = Replay("10.11", seen, x, ref.theta, ref.config, {})({})
    error = error_of(P[:, -1], shown.ravel())
    allowed = AllowedHere(replace(c, seen=seen | {"10.11": P}), ref, x)("10.11")
    status, how = (AGREES, "agrees") if error <= allowed else (DIFFERS, "differs")
    says = f"line 11 is shown of the last token alone, and {how}: error {error:.1e}, allowed {allowed:.0e}"
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
def _compared(c: Candidate, ref: Reference, x: Sequence[int], text: str) -> _Run:
    """Tokens, weights, and, beside an oracle that holds the weights that the candidate does, the lines."""
    matches = compare_weights(c.weights, ref.theta, ref.config, c.buffers) if c.weights or c.buffers else []
    allowed = AllowedHere(c, ref, x)
    like_theirs, weights, errors = adopted(c, matches, ref, x, allowed)
    run = _placed(c, like_theirs, x)
    run = replace(run, notes=(*_notes(c, matches, ref, x, text), *run.notes))
    if not weights:
        return run
    return replace(run, weights=tuple(weights), errors=[(path, error, allowed(path)) for path, error in errors.items()])


def _placed(c: Candidate, ref: Reference, x: Sequence[int]) -> _Run:
    try:
        return _run(c, ref, x, partial(_check_places, c, ref, x))
    except _Misplaced as found:
        right = replace(c, seen={path: value for path, value in c.seen.items() if path not in found.paths})
        note = note_of(c.seen, found.paths, found.error, x, ref.theta, ref.config)
        rest = _run(right, ref, x)
        return replace(rest, notes=(note, *rest.notes))


class _Misplaced(Exception):
    """What is shown at some lines is not of them."""

    def __init__(self, paths: tuple[str, ...], error: float) -> None:
        self.paths, self.error = paths, error


def _check_places(c: Candidate, ref: Reference, x: Sequence[int]) -> None:
    if "10.11" in c.seen and not c.own:
        allowed = AllowedHere(replace(c, seen={"10.11": c.seen["10.11"]}), ref, x)("10.11")
        paths, error = misplaced(c.seen, ref.config, x, ref.theta, allowed)
        if paths:
            raise _Misplaced(paths, error)


def _run(c: Candidate, ref: Reference, x: Sequence[int], differs: Callable[[], None] = lambda: None) -> _Run:
    allowed = AllowedHere(c, ref, x)
    run = Lockstep(
        c.seen, ref.config, x, ref.theta, allowed, own=c.own, noise=None if c.own else allowed.noise, differs=differs
    )
    errors = [(path, error, allowed(path)) for path, error in run.errors.items()]
    untried = tuple(Note("rounding", UNSEEN, what) for what in (run.projection.untried if run.projection else ()))
    if ordered := _of_another_order(c, ref, x, run.findings):
        return _Run(errors, [error for error in errors if error[0] == "10.11"], ordered, None)
    return _Run(errors, errors, run.findings, run.projection, frozenset(run.misshapen), untried)


def _of_another_order(c: Candidate, ref: Reference, x: Sequence[int], findings: Sequence[Finding]) -> list[Finding]:
    """What explains the output of a model whose lines stand in another order; nothing if that does not."""
    alone = len(findings) == 1 and len(c.seen) > 1  # another order shows at several of the lines that are seen
    if c.own or "10.11" not in c.seen or alone or all(finding.mistakes for finding in findings):
        return []
    output = replace(c, seen={"10.11": c.seen["10.11"]})
    run = Lockstep(output.seen, ref.config, x, ref.theta, AllowedHere(output, ref, x), order=True)
    found = [finding for finding in run.findings if any(mistake in ORDER for mistake, _ in finding.mistakes)]
    return [replace(finding, since=()) for finding in found]


def _unseen(ref: Reference, seen: set[str]) -> list[str]:
    """Lines of Algorithm 10 of which nothing was seen; line 3 is line 2 in one matrix."""
    lines = [n for n in value_lines(ref.config) if n != "1"]
    whole = {line for line in seen if "/" not in line and ":" not in line}
    whole |= {"10.2"} if "10.3" in whole else {"10.3"} if "10.2" in whole else set()
    return [n for n in lines if f"10.{n}" not in whole]


def input_ids(ref: Reference, tokens: Sequence[int] | None, text: str) -> list[int]:
    """The ids to compare on: those given, those of the text, or a few that differ.  Raises TokenError."""
    c = ref.config
    if tokens is not None and text:
        raise TokenError("tokens and text were both given, and both say what is read: leave one out.")
    if tokens is None and text and ref.tokenizer is None:
        raise TokenError(f"{ref.name} has no tokenizer that we read: give the ids of the text with --tokens.")
    if tokens is None:
        usual = [(7 * t * t + 3 * t + 1) % c.N_V for t in range(min(ELL, c.ell_max))]
        tokens = ref.tokenizer.encode(text) if text else usual
    try:
        x = [index(v) for v in tokens]
    except TypeError:
        raise TokenError(f"tokens = {tokens!r:.60} must be ids from 0, whole numbers such as [1, 2, 3].") from None
    if strange := [v for v in x if not 0 <= v < c.N_V]:
        raise TokenError(f"id {strange[0]} is no token of {ref.name}: ids go from 0 to N_V - 1 = {c.N_V - 1}.")
    if not x or (len(x) > c.ell_max and c.positions == "learned"):
        raise TokenError(f"{len(x)} tokens cannot be compared: {ref.name} reads 1 to ell_max = {c.ell_max}.")
    return x


class AllowedHere:
    """path -> the error that counts as agreement there: what the oracle makes in the precision of that line.

    That is the lowest of its value's, of those that went into it, the X to which it adds and all that was seen since,
    and of what its published code takes for that line.

    noise  path -> what the candidate's own precision did there to the oracle
    """

    def __init__(self, c: Candidate, ref: Reference, x: Sequence[int]) -> None:
        self.precision, self.lower, self.kinds = c.precision, c.lower, dict(c.kinds)
        precisions = {c.precision, *c.kinds.values(), *c.lower.values()}
        self.by = {p: Allowance(c.seen, ref.config, x, ref.theta, p) for p in precisions}
        self.noise = self.by[c.precision].noise
        if not c.own and {*c.kinds.values()} - {c.precision}:
            self._inherit(self.by[lowest(precisions)].noise)

    def __call__(self, path: str) -> float:
        own = self.kinds.get(path, self.precision)
        lower = self.lower.get(line_of(path).partition("/")[0], own)
        return max(self.by[own](path), self.by[lower](path))

    def _inherit(self, order: Iterable[str]) -> None:
        since = "float64"
        for path in order:
            own = self.kinds.get(path, self.precision)
            self.kinds[path] = since = lowest((own, since))
            if line_of(path).removeprefix("10.") in STREAM:
                since = own


def _notes(c: Candidate, matches: Sequence[Match], ref: Reference, x: Sequence[int], text: str) -> list[Note]:
    notes = []
    if c.x is not None:
        wrong = compare_ids(c.x, x, ref.tokenizer, text)
        notes.append(Note("tokens", DIFFERS if wrong else AGREES, wrong or f"{len(x)} ids"))
    return [*notes, *weight_notes(matches), *c.notes]


def _agreement(errors: Sequence[tuple[str, float, float]], findings: Sequence[Finding]) -> float | None:
    """The largest error once the faults are put right; None if some have no explanation."""
    if any(not finding.mistakes for finding in findings):
        return None
    wrong = {finding.path: finding.remaining for finding in findings}
    return max((wrong.get(path, error) for path, error, allowed in errors if told(error, allowed)), default=0.0)

"""A Python file of functions as a candidate: each is called with the oracle's own values where its algorithm runs.

So no checkpoint is needed, and every function is judged alone.  Which calls there are is found by running the oracle,
whatever the architecture is.  The file says in one line how it holds its tokens, `TOKENS = "rows"` or "columns", and,
if its functions want other arrays than NumPy's, what makes them: `ARRAY = torch.from_numpy`.  Matrices are (out, in)
as in the paper and in `nn.Linear`; embeddings have a row per token where tokens are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from transformulary.conform.candidates.attending import (
    ATTENDING,
    ask_alone,
    ask_padded,
    output_of,
    takes_transposed,
)
from transformulary.conform.candidates.candidate import Array, Candidate, most
from transformulary.conform.candidates.handed import all_weights, heads, on_top, one_head, one_mlp, vector
from transformulary.conform.candidates.pytorch import check_signature, failing
from transformulary.conform.candidates.returned import FORMS, another_form, columns, logits, unsteady
from transformulary.conform.dumps import precision_of
from transformulary.conform.notes import DIFFERS, NOTE, Note
from transformulary.errors import CandidateError
from transformulary.oracle.components import ACTIVATION
from transformulary.oracle.lines import Line, line_at
from transformulary.oracle.path import Path, parse
from transformulary.oracle.source import read
from transformulary.oracle.watch import Watch
from transformulary.oracle.whole import NUMBERS, Model, number_of
from transformulary.paper import Config, Read, TwoStacks

#: The functions that a file may have, and what each is called with.
SIGNATURES = {
    "embedding": "embedding(tokens, weights)",
    "layer_norm": "layer_norm(X, gamma, beta)",
    "rms_norm": "rms_norm(X, gamma)",
    "attention": "attention(X, Z, weights, mask)",
    "mha": "mha(X, Z, weights, mask)",
    "activation": "activation(X)",
    "mlp": "mlp(X, weights)",
    "rotate": "rotate(X)",
    "projection": "projection(X, weights)",
    "unembedding": "unembedding(X, weights)",
    "classification": "classification(X, weights)",
    "model": "model(tokens, weights)",
}
#: The name of a whole algorithm -> its number: a file may call its whole model so as well.
WHOLE = {str(read().name(number)): number for number in NUMBERS.values()}
#: The oracle's function -> the one that is called where it is.
CALLED = {
    "Attention": "attention", "MHAttention": "mha", "layer_norm": "layer_norm", "RMSnorm": "rms_norm",
    "rotate": "rotate", **{function.__name__: "activation" for function in ACTIVATION.values()},
}  # fmt: skip
#: Functions that return logits, or probabilities.
PROBABLE = ("unembedding", "classification")
#: What tells the columns of one line from each other.
MEMBERS = {"t", "t_x", "t_z"}
Function = Callable[..., Any]


def signatures(c: Config) -> dict[str, str]:
    """What each function is called with, beside a model of this kind."""
    context = "context, " if isinstance(c, TwoStacks) else ""
    segments = ", segments" if getattr(c, "segments", 0) else ""
    whole = {name: f"{name}({context}tokens, weights{segments})" for name in ("model", str(read().name(number_of(c))))}
    return SIGNATURES | {"embedding": f"embedding(tokens, weights{segments})"} | whole


@dataclass(frozen=True)
class Functions:
    """Functions by the names of `SIGNATURES` and `WHOLE`.

    tokens  "rows" or "columns": how they hold tokens
    make    NumPy float64 -> the arrays that they want
    output  what `model`, `unembedding` and `classification` return: one of `FORMS`
    """

    functions: Mapping[str, Function]
    tokens: str = "rows"
    make: Callable[[Array], Any] = np.asarray
    output: str = "logits"

    def __post_init__(self) -> None:
        has = f"one or more of {', '.join(SIGNATURES.values())}, or {', '.join(WHOLE)}"
        if unknown := set(self.functions) - {*SIGNATURES, *WHOLE}:
            raise CandidateError(f"{', '.join(sorted(unknown))}: a candidate has {has}.")
        if not self.functions:
            raise CandidateError(f"there is no function to compare; {has}.")
        if self.tokens not in ("rows", "columns"):
            raise CandidateError(f"TOKENS = {self.tokens!r}; it is 'rows' or 'columns'.")
        if not callable(self.make):
            raise CandidateError(f"ARRAY = {self.make!r:.60}; it is a function of NumPy arrays: torch.from_numpy, say.")
        if self.output not in FORMS:
            raise CandidateError(f"OUTPUT = {self.output!r}; it is {' or '.join(map(repr, FORMS))}.")

    def call(self, usual: str, *args: Any) -> Any:
        """The raw result of the function with this signature, for arguments in its orientation."""
        with failing(usual):
            result = self.functions[usual.partition("(")[0]](*map(self.given, args))
        if result is None:
            raise CandidateError(f"{usual} returned nothing; it must return an array of numbers.")
        return result

    def given(self, value: Any) -> Any:
        """An argument as they want it, in memory of its own: a function may work in place."""
        if isinstance(value, SimpleNamespace):
            return SimpleNamespace(**{name: self.given(member) for name, member in vars(value).items()})
        if isinstance(value, list):
            return [self.given(member) for member in value]
        return self.make(np.array(value, order="C")) if isinstance(value, np.ndarray) else value

    def turned(self, X: Array) -> Array:
        """Tokens as they hold them; the same turns it back."""
        return X.T if self.tokens == "rows" and X.ndim == 2 else X


def run_functions(functions: Functions, model: Model, x: Read, name: str) -> list[Candidate]:
    """Call every function wherever the oracle runs its algorithm; candidates: the functions, and the whole models.

    Raises CandidateError where a function cannot be called, fails or returns no numbers, or none is of this model.
    """
    usual = signatures(model.config)
    for known in functions.functions.keys() & usual.keys():
        check_signature(functions.functions[known], usual[known])
    calls = _Calls(functions, usual, model, x)
    whole = [n for n in ("model", *WHOLE) if n in functions.functions and n in usual]
    found = [*calls.candidates(name), *(_whole(functions, usual[n], model, x, name) for n in whole)]
    unused = [n for n in functions.functions if n not in calls.called and n not in whole]
    if not found:
        of = f"this model, Algorithm {number_of(model.config)},"
        raise CandidateError(f"{name}: {of} has no line that {', '.join(unused)} computes.")
    notes = (Note("functions", NOTE, f"not called: this model has no line that {n} computes") for n in unused)
    return [replace(found[0], notes=(*found[0].notes, *notes)), *found[1:]]


def _whole(f: Functions, usual: str, model: Model, x: Read, name: str) -> Candidate:
    """What a whole model gives for what is read."""
    sequences = ([list(x.z)] if isinstance(model.config, TwoStacks) else []) + [list(x.x)]
    segments = [list(x.s)] if getattr(model.config, "segments", 0) else []

    def run() -> tuple[Array, str]:
        result = logits(f.call(usual, *sequences, all_weights(model, f.turned), *segments))
        return columns(result, usual, f.tokens, 1 if model.gives == "classes" else 2), precision_of(result)

    (numbers, precision), kind = run(), usual.partition("(")[0]
    notes = unsteady(kind, numbers, run()[0], precision)
    if not model.probable:
        return Candidate(name, {model.output: numbers}, precision, notes=notes)
    notes += another_form(kind, numbers, f.output, precision)
    return Candidate(name, {model.output: FORMS[f.output](numbers)}, precision, notes=notes)


class _Calls:
    """The run of the oracle in which the functions are called, each with what its algorithm or line has there.

    seen    (path of a line -> its value with the result of a function in it, path -> the precision of that); a further
            pair of tables where several functions compute the same line, or parts of it
    called  the functions that were called
    notes   what was found beside
    """

    def __init__(self, f: Functions, usual: Mapping[str, str], model: Model, x: Read) -> None:
        self.f, self.usual, self.model, self.x = f, usual, model, x
        self.seen: list[tuple[dict[str, Array], dict[str, str]]] = []
        self.called: set[str] = set()
        self.notes: list[Note] = []
        self._asked: set[tuple[str, bool]] = set()  # functions of attention, and whether across two sequences
        self._streams: dict[str, Array] = {}  # X and Z as they are
        self._read: list[Array] = []  # what is multiplied by the matrices of the line that is computed
        self._within: dict[str, list[_Call]] = {}  # line -> the calls in it
        self._watch = Watch(self._hook)
        model.run(self._watch.algorithms, x)

    def candidates(self, name: str) -> list[Candidate]:
        """The functions: one candidate, and more where they compute the same line."""
        notes = [tuple(self.notes), *[()] * len(self.seen)]
        return [
            Candidate(name, values, most(kinds.values()), kinds, own=True, notes=said)
            for (values, kinds), said in zip(self.seen, notes, strict=False)
        ]

    def _hook(self, path: str, value: Any) -> Any:
        where = parse(path)
        outer = where.steps[:-1] if where.name else where.steps
        if any(name in MEMBERS for step in outer for name, _ in step.indices):
            return value  # one of the columns of a line, or what is computed within one
        if where.name:
            self._remember(where, _Call(path, value, self._watch.args))
            return value
        if calls := self._within.pop(path, []):
            self._in_place(path, CALLED[parse(calls[0].path).name], calls)
        if len(where.steps) == 1:
            self._whole_line(path, line_at(path), where.layer - 1)
            self._streams |= {stream: value for stream in (line_at(path).stream,) if stream}
            self._read = []
        return value

    def _remember(self, where: Path, call: _Call) -> None:
        *outer, last = where.steps
        if CALLED.get(where.name) in self.f.functions:
            whole = replace(last, indices=tuple(at for at in last.indices if at[0] not in MEMBERS))
            self._within.setdefault(str(Path((*outer, whole))), []).append(call)
        if where.name.startswith("W_") and not outer and len(call.args) == 2:
            self._read.append(call.args[1])

    def _in_place(self, path: str, kind: str, calls: Sequence[_Call]) -> None:
        """A function that computes what an algorithm does within a line: the line with its result there."""
        first = calls[0]
        each = MEMBERS & {name for name, _ in parse(first.path).steps[-1].indices}
        reads, gives = [call.args[0] for call in calls], [call.value for call in calls]
        X, due = (np.stack(reads, 1), np.stack(gives, 1)) if each else (reads[0], gives[0])
        args = self._arguments(kind, X, first.args[1:])
        value, precision = self._result(kind, args)
        if kind in ATTENDING:
            self._ask(kind, X, first.args[1], args[2], args[3], value)
        if value.shape == due.shape:
            results = value.T if each else [value]
            value = self._watch.again({}, {call.path: found for call, found in zip(calls, results, strict=True)})
        self._place(path, value, precision)

    def _arguments(self, kind: str, X: Array, more: Sequence[Any]) -> list[Any]:
        """What a function gets that stands for an algorithm with these arguments."""
        turned = self.f.turned
        if kind in ATTENDING:
            Z, W, rule = more[:3]
            mask = np.asarray(rule(*np.indices((Z.shape[1], X.shape[1]))))
            return [turned(X), turned(Z), one_head(W) if kind == "attention" else heads(W), turned(mask)]
        if kind in ("layer_norm", "rms_norm"):
            return [turned(X), more[0], vector(more[1], len(X))][: 3 if kind == "layer_norm" else 2]
        return [turned(X)]

    def _whole_line(self, path: str, line: Line, l: int) -> None:
        """A function that computes all of a line, but for what it adds to."""
        kind = _computes(line)
        if kind not in self.f.functions:
            return
        value, precision = self._result(kind, self._given(kind, line, l))
        X = self._streams.get(line.stream)
        self._place(path, X + value if line.adds and X is not None and X.shape == value.shape else value, precision)

    def _given(self, kind: str, line: Line, l: int) -> list[Any]:
        if kind == "mlp":
            return [self.f.turned(self._read[0]), one_mlp(self.model, line.layers, l)]
        weights = SimpleNamespace(**on_top(self.model, self.f.turned, line.side))
        if kind == "embedding":
            segments = [list(self.x.s)] if getattr(self.model.config, "segments", 0) else []
            return [list(getattr(self.x, line.side)), weights, *segments]
        return [self.f.turned(self._streams["X"]), weights]

    def _place(self, path: str, value: Array, precision: str) -> None:
        free = next((tables for tables in self.seen if path not in tables[0]), None)
        if free is None:
            self.seen.append(free := ({}, {}))
        free[0][path], free[1][path] = value, precision

    def _result(self, kind: str, args: list[Any]) -> tuple[Array, str]:
        """The result of a function, and its precision; the first time, whether it is the same once more."""
        value, precision = self._value(kind, args)
        if kind not in self.called:
            self.called.add(kind)
            self.notes += unsteady(kind, value, self._value(kind, args)[0], precision)
        return value, precision

    def _value(self, kind: str, args: list[Any]) -> tuple[Array, str]:
        """The result of a function, tokens as columns, and its precision; what is to be said of it becomes a note."""
        result, usual = self._called(kind, args), self.usual[kind]
        if kind in ATTENDING:
            result, note = output_of(kind, result, {args[-1].shape, args[-1].shape[::-1]})
            self._note(note)
        value = columns(result, usual, self.f.tokens, 1 if kind == "classification" else 2)
        if kind in PROBABLE:
            for note in another_form(kind, value, self.f.output, precision_of(result)):
                self._note(note)
            value = FORMS[self.f.output](value)
        return value, precision_of(result)

    def _called(self, kind: str, args: list[Any]) -> Any:
        """What a function returns; attention from one sequence to another, also if it takes its mask transposed."""
        try:
            return self.f.call(self.usual[kind], *args)
        except CandidateError as error:
            *others, mask = args
            if kind not in ATTENDING or mask.shape == mask.shape[::-1]:
                raise
            try:
                result = self.f.call(self.usual[kind], *others, mask.T)
            except CandidateError:
                raise error from None
            self._note(takes_transposed(kind, self.f.tokens))
            return result

    def _ask(self, kind: str, X: Array, Z: Array, weights: Any, mask: Array, value: Array) -> None:
        """Of attention, once for self-attention and once across sequences: padding, and a query that sees nothing."""
        turned, crosses = self.f.turned, X is not Z

        def call(X: Array, Z: Array, weights: SimpleNamespace, mask: Array) -> Array:
            return self._value(kind, [turned(X), turned(Z), weights, turned(mask)])[0]

        if (kind, crosses) in self._asked or value.shape[1:] != X.shape[1:]:
            return
        self._asked.add((kind, crosses))
        note = ask_padded(kind, call, X, Z, weights, self.f.tokens) if mask.all() and Z.shape[1] > 1 else None
        self._note(note)
        if not crosses and X.shape[1] > 1 and not (note and note.status == DIFFERS):
            self._note(ask_alone(kind, lambda X, weights, mask: call(X, X, weights, mask), X, weights))

    def _note(self, note: Note | None) -> None:
        if note and note not in self.notes:
            self.notes.append(note)


@dataclass(frozen=True)
class _Call:
    """The value of a call within a line, by its path, and its arguments."""

    path: str
    value: Any
    args: tuple[Any, ...]


def _computes(line: Line) -> str:
    """The function that computes a whole line, or all but what is added; "" for none."""
    if line.target in ("P", "p_C"):
        return "unembedding" if line.target == "P" else "classification"
    if line.asks or line.norm or not line.stream:
        return ""
    return "embedding" if line.gathers else "mlp" if line.adds else "projection"

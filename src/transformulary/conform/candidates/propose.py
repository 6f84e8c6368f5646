"""Draft the table of places of a PyTorch model that nobody has described: from names, shapes and one run.

Every line of the oracle is looked for among what the modules are given and give: a value that is nearly the
oracle's is that line, whatever its module is called, and the place in one layer is that in all.  After a mistake no
value is near; then a module that makes of its input what a norm of the oracle would is that norm, and its input the
line before it.  Where nothing of this helps, names of modules are a guess, and the draft says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from transformulary.conform.allowance import EXACT, Allowance
from transformulary.conform.candidates.calling import call
from transformulary.conform.candidates.candidate import Array, Candidate
from transformulary.conform.candidates.imported import imported
from transformulary.conform.candidates.places import Place, Table, table_for
from transformulary.conform.candidates.pytorch import failing, names_of, watch_model
from transformulary.conform.candidates.returned import columns, logits
from transformulary.conform.compared import error_of, is_line
from transformulary.conform.diagnosis import Lockstep
from transformulary.conform.reference import Reference, reference
from transformulary.conform.tokens import what_is_read
from transformulary.errors import CandidateError
from transformulary.nn import evaluating
from transformulary.oracle import NORM, Theta, softmax, watched
from transformulary.oracle.lines import Line, line_at
from transformulary.oracle.path import parse
from transformulary.oracle.watch import nothing
from transformulary.oracle.whole import Model
from transformulary.paper import Config, Read
from transformulary.tokens import Given

#: Words in the names of modules that hint at a line, for values that nothing else identifies.
HINTS = {
    "10.5[l]": r"(ln|norm).*(1|attn|attention|input)|(attn|attention|input).*(ln|norm)",
    "10.7[l]": r"(ln|norm).*(2|mlp|ffn|ff|post)|(mlp|ffn|post).*(ln|norm)",
    "10.10": r"(ln_f|norm_f|final|^norm$|\.norm$)",
}
#: A value within this of the oracle's is the line, possibly with a mistake; above, it is another value.
NEAR = 0.3
#: Of what may be a norm with a mistake, nothing is so many times farther from it than the best; rounding is no mistake.
WORSE, ROUNDED = 3.0, 1e-3
#: Among so many of the next norms a module is looked for: one or two may be wrong.
AHEAD = 3
#: The eps with which a module's input, which may be 0, is tried in a norm that has none.
TINY = 1e-12
#: Modules that only hold others.
CONTAINERS = (nn.ModuleList, nn.ModuleDict)


@dataclass(frozen=True)
class Event:
    """What one side of one module showed, in the order of the run."""

    module: str
    side: str
    value: Array

    @property
    def place(self) -> str:
        return f"{self.module}:{self.side}"


def propose(candidate: Any, against: Any) -> str:
    """The draft, as TOML.  `candidate`: a torch.nn.Module, or a Python file with `load(folder)`."""
    ref = reference(against)
    with _loaded(candidate, ref) as model:
        return _draft(model, ref)


def _draft(model: nn.Module, ref: Reference) -> str:
    x, last = what_is_read(ref, Given()), ref.whole.output
    events, output, ran = _run(model, ref.whole, x)
    oracle = _lines_of(ref.whole, x)
    oracle[last] = _compared(last, ref.whole, oracle[last], np.log)
    expected = oracle | _by_norms(events, ref, list(oracle)) | {last: _compared(last, ref.whole, output)}
    names = names_of(dict(model.named_modules(remove_duplicate=False)))
    modules = {name: len(names[module]) for name, module in model.named_modules() if name}
    often = [name for name, times in modules.items() if ran[name] > 1 and ran[name] != times]
    found = _Search(ref.whole, oracle, expected, [e for e in events if e.module not in often]).found()
    lines = [
        f"# Where the lines of Algorithm {ref.whole.lines[0].number} can be seen:"
        ' path = "module:in" or "module:out"; {l} counts layers from 0.',
        "[places]",
        *(f'{"" if place else "# "}"{line}" = "{place}"  # {why}' for line, (place, why) in found.items()),
    ]
    places: dict[str, Place] = {line: place for line, (place, _) in found.items() if place}
    idle = [n for n, module in model.named_modules() if n and not (ran[n] or isinstance(module, CONTAINERS))]
    says = {"Never called": idle, "Called more than once, and so no places": often}
    lines += [f"# {what}: {', '.join(which)}." for what, which in says.items() if which]
    return "\n".join([*lines, *_lower(model, places, ref, x), "", *_shapes(model)])


@contextmanager
def _loaded(candidate: Any, ref: Reference) -> Iterator[nn.Module]:
    from transformulary.conform.candidates.opened import LIBRARIES, of_folder

    if isinstance(candidate, nn.Module):
        yield candidate
    elif str(candidate) in LIBRARIES:
        yield of_folder(ref, LIBRARIES[str(candidate)])
    elif not Path(candidate).is_file():
        raise CandidateError(f"there is no Python file {candidate}, whose load(folder) would return the model.")
    else:
        with imported(Path(candidate)) as module:
            load = getattr(module, "load", None)
            if load is None:
                raise CandidateError(f"{candidate} has no load(folder), which would return the model to look at.")
            yield of_folder(ref, load)


def _lines_of(whole: Model, x: Read) -> dict[str, Array]:
    """path -> the oracle's value, of every line that is a matrix with a column per token."""
    values: dict[str, Array] = {}

    def keep(path: str, value: Any) -> Any:
        if is_line(path) and not line_at(path).counts and isinstance(value, np.ndarray) and "t=" not in path:
            values[path] = value
        return value

    whole.run(watched(keep, nothing), x)
    return values


def _run(model: nn.Module, whole: Model, x: Read) -> tuple[list[Event], Array, Counter[str]]:
    """What the modules showed, what the model returned, and how often each was called."""
    found: list[Event] = []
    ran: Counter[str] = Counter()

    def show(name: str, side: str, value: Any) -> None:
        ran[name] += side == "in"
        value = value[0] if isinstance(value, tuple | list) and value else value
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim in (2, 3):
            numbers = columns(value, name, "rows")
            if numbers.shape[1:] in ((len(x.x),), (len(x.z),)):
                found.append(Event(name, side, numbers))

    handles = []
    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_pre_hook(lambda _, given, name=name: show(name, "in", given)))
            handles.append(module.register_forward_hook(lambda _, __, out, name=name: show(name, "out", out)))
    try:
        with evaluating(model), torch.no_grad(), failing(type(model).__name__):
            ndim = 1 if whole.gives == "classes" else 2
            output = columns(logits(call(model, [x])), "what the model returns", "rows", ndim)
    finally:
        for handle in handles:
            handle.remove()
    return found, output, ran


def _lower(model: nn.Module, places: Mapping[str, Place], ref: Reference, x: Read) -> list[str]:
    """The table of the lines that are computed in float32: those of the built-in table, and those that show it."""
    try:
        lower = dict.fromkeys(table_for(model).lower, "as in the published code of its class")
    except CandidateError:
        lower = {}
    try:
        found = watch_model(model, ref.whole, x, Table(places))
    except CandidateError:  # `--places` says so again
        found = Candidate("", {})
    allowed = Allowance(found.seen, ref.config, x, ref.theta, "float32")
    errors = Lockstep(found.seen, ref.config, x, ref.theta, lambda path: float("inf")).errors
    for line in [line.name for line in ref.whole.lines] if found.precision == "float64" else ():
        at = [path for path in errors if path.partition("[")[0] == line]
        if any(errors[path] > EXACT for path in at) and all(errors[path] <= allowed(path) for path in at):
            says = f"differs by {max(errors[path] for path in at):.0e}, as in float32; leave it out if it should not"
            lower.setdefault(line, says)
    return ["", "[lower]", *(f'"{line}" = "float32"  # {why}' for line, why in lower.items())] if lower else []


def _norms(paths: Sequence[str], theta: Theta) -> Iterator[tuple[str, str, Array, Array]]:
    """(path of what a norm reads, its own, gamma, beta) of every norm, in the order of the run."""
    latest: dict[str, str] = {}
    for path in paths:
        line, l = line_at(path), parse(path).layer - 1
        if line.norm:
            gamma, beta = (getattr(theta, name) for name in line.norm)
            yield latest[line.target[0]], path, *((gamma[l], beta[l]) if line.layers else (gamma, beta))
        if line.stream:
            latest[line.stream] = path


def _by_norms(events: list[Event], ref: Reference, paths: Sequence[str]) -> dict[str, Array]:
    """What the lines around the norms are in this model: modules that compute the oracle's norms, in their order."""
    if ref.config.d_e == 1:
        return {}  # whose norm is one number, whatever is given to it
    c, norms = replace(ref.config, eps=ref.config.eps or TINY), list(_norms(paths, ref.theta))
    given: dict[str, Array] = {}
    found: dict[str, Array] = {}
    calls = []
    for event in events:
        if event.side == "in":
            given[event.module] = event.value
        elif event.module in given and len(given[event.module]) == c.d_e:
            X = given[event.module]
            calls.append(
                (X, event.value, [error_of(_norm(X, gamma, beta, c), event.value) for *_, gamma, beta in norms])
            )
    best = [min(errors) for errors in zip(*(errors for *_, errors in calls), strict=True)]
    start = 0
    for X, Y, errors in calls:
        nearest = min(range(start, min(start + AHEAD, len(norms))), key=errors.__getitem__, default=None)
        if nearest is not None and errors[nearest] < min(NEAR, max(WORSE * best[nearest], ROUNDED)):
            before, line, *_ = norms[nearest]
            found |= {before: X, line: Y}
            start = nearest + 1
    return found


def _norm(X: Array, gamma: Array, beta: Array, c: Config) -> Array:
    return np.stack([NORM[c.norm](e, gamma, beta, c) for e in X.T], 1)


class _Search:
    """The places of the lines.

    oracle    path -> its value
    expected  the same as this model would have it, as far as that is known
    events    what its modules showed
    """

    def __init__(self, whole: Model, oracle: dict[str, Array], expected: dict[str, Array], events: list[Event]) -> None:
        self.whole, self.oracle, self.expected, self.events, self.free = whole, oracle, expected, events, events
        self.lines = {line.pattern: line for line in whole.lines if any(line_at(path) == line for path in oracle)}
        self.paths = {
            pattern: [path for path in oracle if line_at(path) == line] for pattern, line in self.lines.items()
        }

    def found(self) -> dict[str, tuple[str, str]]:
        """{line: (place, why)}; what is exactly one line's is no other's, however near to that."""
        found: dict[str, tuple[str, str]] = {}
        for near in (ROUNDED, NEAR):
            for line in (line for line in self.lines if not found.get(line, ("",))[0]):
                found[line] = place, _ = self._find(line, near)
                places = {place.format(l=l) for l in range(len(self.paths[line]))}
                taken = [event.value for event in self.events if event.place in places]
                self.free = [e for e in self.free if not any(np.array_equal(e.value, value) for value in taken)]
        return {line: found[line] for line in self.lines}

    def _find(self, line: str, limit: float) -> tuple[str, str]:
        """(place, why) of one, among what shows no other; with {l} what most layers agree on, the first of equals."""
        paths = self.paths[line]
        others = [path for path in self.oracle if path not in paths]
        same = (
            next((p for p in others if error_of(self.expected[p], self.expected[path]) <= EXACT), "") for path in paths
        )
        if all(twins := list(same)):
            return "", f"its place cannot be told: the values are also those of {', '.join(dict.fromkeys(twins))}"
        shown = {event.place: event.value for event in reversed(self.events)}
        votes: Counter[str] = Counter()
        for l, path in enumerate(paths):
            error, event = self._nearest(path)
            if event and error < limit:
                votes.update(_patterns(event.place, l) if "[l]" in line else [event.place])
        if not votes:
            return self._by_name(line) if limit == NEAR else ("", "")
        place = max(votes, key=lambda p: (votes[p], sum(p.format(l=l) in shown for l in range(len(paths)))))
        return place, self._distance(paths, [shown.get(place.format(l=l)) for l in range(len(paths))])

    def _distance(self, paths: list[str], theirs: list[Array | None]) -> str:
        """How near a place is to the oracle's value: at once, or in which layers."""
        errors = [
            float("inf") if b is None else error_of(self.oracle[path], _compared(path, self.whole, b))
            for path, b in zip(paths, theirs, strict=True)
        ]
        near = [error for error in errors if error < NEAR]
        if len(near) == len(errors):
            return f"{max(near):.0e} from the oracle's"
        far = ", ".join(f"{error:.0e}" for error in errors)
        return f"differs from the oracle's, by {far}" + (" layer by layer" if len(errors) > 1 else "")

    def _nearest(self, path: str) -> tuple[float, Event | None]:
        """The event whose value is nearest; the first of equals, an output before an input."""
        value, best = self.expected[path], (float("inf"), 0, None)  # type: tuple[Array, tuple[float, int, Event | None]]
        for event in (event for event in self.free if event.value.shape == value.shape):
            error = error_of(value, _compared(path, self.whole, event.value))
            rank = (round(error, 12), self._preference(line_at(path), event))
            if rank < best[:2]:
                best = (*rank, event)
        return best[0], best[2]

    def _preference(self, line: Line, event: Event) -> int:
        """Among equal values: a norm's output and a block's output, and the input of what reads the stream next."""
        norm = bool(re.search(r"ln|norm", event.module, re.IGNORECASE))
        lines = [*self.lines.values()]
        later = lines[at + 1] if (at := lines.index(line)) + 1 < len(lines) else line
        if line.layers and later.layers != line.layers:  # the last of a layer
            wanted = event.side == "out" and not norm and event.module.rsplit(".", 1)[-1].isdigit()
        elif line.stream and later.norm:
            wanted = norm and event.side == "in"
        else:
            wanted = event.side == "out"
        return 0 if wanted else 1

    def _by_name(self, line: str) -> tuple[str, str]:
        if line == self.whole.output:
            return ":out", "what the model returns"
        hint = HINTS.get(line)
        for event in self.free:
            if hint and event.side == "out" and re.search(hint, event.module, re.IGNORECASE):
                place = re.sub(r"(^|\.)0(?=\.|:)", r"\1{l}", event.place, count=1) if "[l]" in line else event.place
                return place, "a guess from its name: no value near the oracle's was seen"
        return "", "no value near the oracle's was seen; leave it out, or name the module"


def _patterns(place: str, l: int) -> list[str]:
    """A place with {l} for one of the numbers in it that may be the layer."""
    numbers = re.finditer(rf"(?<![^.]){l}(?=[.:])", place)
    return [f"{place[: m.start()]}{{l}}{place[m.end() :]}" for m in numbers]


def _compared(path: str, whole: Model, value: Array, log: Callable[[Array], Array] | None = None) -> Array:
    """Logits, or with `log` probabilities, as logarithms of probabilities; other values as they are."""
    if path != whole.output or not whole.probable:
        return value
    return log(value) if log else np.log(softmax(value))


def _shapes(model: nn.Module) -> Iterator[str]:
    yield "# The modules, to correct it by:"
    for name, module in model.named_modules():
        if name:
            shapes = ", ".join(f"{n} {tuple(p.shape)}" for n, p in module.named_parameters(recurse=False))
            yield f"#   {name}  {type(module).__name__}  {shapes}".rstrip()

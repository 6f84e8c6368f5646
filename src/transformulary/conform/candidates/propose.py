"""Draft the table of places of a PyTorch model that nobody has described: from names, shapes and one run.

Every line of the oracle is looked for among what the modules are given and give: a value that is nearly the
oracle's is that line, whatever its module is called, and the place in one layer is that in all.  After a mistake no
value is near; then a module that makes of its input what a norm of the oracle would is that norm, and its input the
line before it.  Where nothing of this helps, names of modules are a guess, and the draft says so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from transformulary.conform.allowance import EXACT, Allowance
from transformulary.conform.candidates.candidate import Array, Candidate
from transformulary.conform.candidates.places import Place, Table, table_for
from transformulary.conform.candidates.pytorch import failing, ids, names_of, watch_model
from transformulary.conform.candidates.returned import columns, logits
from transformulary.conform.compared import error_of
from transformulary.conform.diagnosis import Lockstep
from transformulary.conform.reference import Reference, reference
from transformulary.errors import CandidateError
from transformulary.nn import evaluating
from transformulary.oracle import NORM, record, softmax
from transformulary.paper import DTransformerConfig

#: Lines to be found, in the order of the run; for the last, the logits are looked for.
LINES = ("10.3", "10.5[l]", "10.6[l]", "10.7[l]", "10.8[l]", "10.10", "10.11")
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
    model = candidate if isinstance(candidate, nn.Module) else _load(candidate, ref)
    x = [(7 * t * t + 3 * t + 1) % ref.config.N_V for t in range(min(9, ref.config.ell_max))]
    events, output, ran = _run(model, x)
    oracle = record("DTransformer", x, ref.theta, ref.config)
    oracle["10.11"] = np.log(oracle["10.11"])
    expected = oracle | _by_norms(events, ref) | {"10.11": _compared("10.11", output)}
    names = names_of(dict(model.named_modules(remove_duplicate=False)))
    modules = {name: len(names[module]) for name, module in model.named_modules() if name}
    often = [name for name, times in modules.items() if ran[name] > 1 and ran[name] != times]
    found = _found(oracle, expected, [event for event in events if event.module not in often], ref.config.L)
    lines = [
        '# Where the lines of Algorithm 10 can be seen: path = "module:in" or "module:out"; {l} counts layers from 0.',
        "[places]",
        *(f'{"" if place else "# "}"{line}" = "{place}"  # {why}' for line, (place, why) in found.items()),
    ]
    places: dict[str, Place] = {line: place for line, (place, _) in found.items() if place}
    idle = [n for n, module in model.named_modules() if n and not (ran[n] or isinstance(module, CONTAINERS))]
    says = {"Never called": idle, "Called more than once, and so no places": often}
    lines += [f"# {what}: {', '.join(which)}." for what, which in says.items() if which]
    return "\n".join([*lines, *_lower(model, places, ref, x), "", *_shapes(model)])


def _load(candidate: Any, ref: Reference) -> nn.Module:
    from transformulary.conform.candidates.opened import LIBRARIES, import_file, of_folder

    if str(candidate) in LIBRARIES:
        return of_folder(ref, LIBRARIES[str(candidate)])
    if not Path(candidate).is_file():
        raise CandidateError(f"there is no Python file {candidate}, whose load(folder) would return the model.")
    load = getattr(import_file(Path(candidate)), "load", None)
    if load is None:
        raise CandidateError(f"{candidate} has no load(folder), which would return the model to look at.")
    return of_folder(ref, load)


def _run(model: nn.Module, x: Sequence[int]) -> tuple[list[Event], Array, Counter[str]]:
    """What the modules showed, what the model returned, and how often each was called."""
    found: list[Event] = []
    ran: Counter[str] = Counter()

    def show(name: str, side: str, value: Any) -> None:
        ran[name] += side == "in"
        value = value[0] if isinstance(value, tuple | list) and value else value
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.ndim == 3:
            numbers = columns(value, name, "rows")
            if numbers.shape[1:] == (len(x),):
                found.append(Event(name, side, numbers))

    handles = []
    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_pre_hook(lambda _, given, name=name: show(name, "in", given)))
            handles.append(module.register_forward_hook(lambda _, __, out, name=name: show(name, "out", out)))
    try:
        with evaluating(model), torch.no_grad(), failing(type(model).__name__):
            output = columns(logits(model(ids(model, [x]))), "what the model returns", "rows")
    finally:
        for handle in handles:
            handle.remove()
    return found, output, ran


def _lower(model: nn.Module, places: Mapping[str, Place], ref: Reference, x: Sequence[int]) -> list[str]:
    """The table of the lines that are computed in float32: those of the built-in table, and those that show it."""
    try:
        lower = dict.fromkeys(table_for(model).lower, "as in the published code of its class")
    except CandidateError:
        lower = {}
    try:
        found = watch_model(model, ref.config, x, Table(places))
    except CandidateError:  # `--places` says so again
        found = Candidate("", {})
    allowed = Allowance(found.seen, ref.config, x, ref.theta, "float32")
    errors = Lockstep(found.seen, ref.config, x, ref.theta, lambda path: float("inf")).errors
    for line in [line.partition("[")[0] for line in LINES] if found.precision == "float64" else ():
        at = [path for path in errors if path.partition("[")[0] == line]
        if any(errors[path] > EXACT for path in at) and all(errors[path] <= allowed(path) for path in at):
            says = f"differs by {max(errors[path] for path in at):.0e}, as in float32; leave it out if it should not"
            lower.setdefault(line, says)
    return ["", "[lower]", *(f'"{line}" = "float32"  # {why}' for line, why in lower.items())] if lower else []


def _by_norms(events: list[Event], ref: Reference) -> dict[str, Array]:
    """What the lines around the norms are in this model: modules that compute the oracle's norms, in their order."""
    if ref.config.d_e == 1:
        return {}  # whose norm is one number, whatever is given to it
    c, theta = replace(ref.config, eps=ref.config.eps or TINY), ref.theta
    layers = [
        norm
        for l in range(c.L)
        for norm in (
            (f"10.8[l={l}]" if l else "10.3", f"10.5[l={l + 1}]", theta.gamma_1[l], theta.beta_1[l]),
            (f"10.6[l={l + 1}]", f"10.7[l={l + 1}]", theta.gamma_2[l], theta.beta_2[l]),
        )
    ]
    norms = [*layers, (f"10.8[l={c.L}]", "10.10", theta.gamma, theta.beta)]
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


def _norm(X: Array, gamma: Array, beta: Array, c: DTransformerConfig) -> Array:
    return np.stack([NORM[c.norm](e, gamma, beta, c) for e in X.T], 1)


def _found(
    oracle: dict[str, Array], expected: dict[str, Array], events: list[Event], L: int
) -> dict[str, tuple[str, str]]:
    """{line: (place, why)}; what is exactly one line's is no other's, however near to that."""
    found: dict[str, tuple[str, str]] = {}
    free = events
    for near in (ROUNDED, NEAR):
        for line in (line for line in LINES if not found.get(line, ("",))[0]):
            found[line] = place, _ = _find(line, oracle, expected, events, free, L, near)
            taken = [event.value for event in events for l in range(L) if place and event.place == place.format(l=l)]
            free = [event for event in free if not any(np.array_equal(event.value, value) for value in taken)]
    return {line: found[line] for line in LINES}


def _find(
    line: str, oracle: dict[str, Array], expected: dict[str, Array], events: list[Event], free: list[Event], L: int,
    limit: float,
) -> tuple[str, str]:  # fmt: skip
    """(place, why) of one line, among what shows no other; with {l} what most layers agree on, the first of equals."""
    layered = "[l]" in line
    paths = _paths(line, L)
    others = [path for other in LINES if other != line for path in _paths(other, L)]
    twins = [next((p for p in others if error_of(expected[p], expected[path]) <= EXACT), "") for path in paths]
    if all(twins):
        return "", f"its place cannot be told: the values are also those of {', '.join(dict.fromkeys(twins))}"
    shown = {event.place: event.value for event in reversed(events)}
    votes: Counter[str] = Counter()
    for l, path in enumerate(paths):
        error, event = _nearest(expected[path], free, line)
        if event and error < limit:
            votes.update(_patterns(event.place, l) if layered else [event.place])
    if not votes:
        return _by_name(line, free) if limit == NEAR else ("", "")
    place = max(votes, key=lambda p: (votes[p], sum(p.format(l=l) in shown for l in range(len(paths)))))
    theirs = [shown.get(place.format(l=l)) for l in range(len(paths))]
    return place, _distance(line, [oracle[path] for path in paths], theirs)


def _paths(line: str, L: int) -> list[str]:
    return [line.replace("[l]", f"[l={l + 1}]") for l in range(L if "[l]" in line else 1)]


def _patterns(place: str, l: int) -> list[str]:
    """A place with {l} for one of the numbers in it that may be the layer."""
    numbers = re.finditer(rf"(?<![^.]){l}(?=[.:])", place)
    return [f"{place[: m.start()]}{{l}}{place[m.end() :]}" for m in numbers]


def _distance(line: str, ours: list[Array], theirs: list[Array | None]) -> str:
    """How near a place is to the oracle's value: at once, or in which layers."""
    errors = [float("inf") if b is None else error_of(a, _compared(line, b)) for a, b in zip(ours, theirs, strict=True)]
    near = [error for error in errors if error < NEAR]
    if len(near) == len(errors):
        return f"{max(near):.0e} from the oracle's"
    far = ", ".join(f"{error:.0e}" for error in errors)
    return f"differs from the oracle's, by {far}" + (" layer by layer" if len(errors) > 1 else "")


def _compared(line: str, value: Array) -> Array:
    """Logits as logarithms of probabilities."""
    return np.log(softmax(value)) if line == "10.11" else value


def _nearest(value: Array, events: list[Event], line: str) -> tuple[float, Event | None]:
    """The event whose value is nearest; the first of equals, an output before an input."""
    best: tuple[float, int, Event | None] = (float("inf"), 0, None)
    for event in (event for event in events if event.value.shape == value.shape):
        rank = (round(error_of(value, _compared(line, event.value)), 12), _preference(line, event))
        if rank < best[:2]:
            best = (*rank, event)
    return best[0], best[2]


def _preference(line: str, event: Event) -> int:
    """Among equal values: a norm's output and a block's output, and the input of what reads the stream next."""
    norm = bool(re.search(r"ln|norm", event.module, re.IGNORECASE))
    layered = bool(re.search(r"\d", event.module))
    wanted = {
        "10.3": norm and event.side == "in", "10.6[l]": norm and event.side == "in",
        "10.8[l]": event.side == "out" and not norm and layered and event.module.rsplit(".", 1)[-1].isdigit(),
    }.get(line, event.side == "out")  # fmt: skip
    return 0 if wanted else 1


def _by_name(line: str, events: list[Event]) -> tuple[str, str]:
    if line == "10.11":
        return ":out", "what the model returns"
    hint = HINTS.get(line)
    for event in events:
        if hint and event.side == "out" and re.search(hint, event.module, re.IGNORECASE):
            place = re.sub(r"(^|\.)0(?=\.|:)", r"\1{l}", event.place, count=1) if "[l]" in line else event.place
            return place, "a guess from its name: no value near the oracle's was seen"
    return "", "no value near the oracle's was seen; leave it out, or name the module"


def _shapes(model: nn.Module) -> Iterator[str]:
    yield "# The modules, to correct it by:"
    for name, module in model.named_modules():
        if name:
            shapes = ", ".join(f"{n} {tuple(p.shape)}" for n, p in module.named_parameters(recurse=False))
            yield f"#   {name}  {type(module).__name__}  {shapes}".rstrip()

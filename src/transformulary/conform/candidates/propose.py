"""Draft the table of places of a PyTorch model that nobody has described: from names, shapes and one run.

Every line of the oracle is looked for among what the modules are given and give: a value that is nearly the
oracle's is that line, whatever its module is called.  Where none is, names of modules and their order are a guess,
and the draft says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from transformulary.conform.candidates.candidate import Array, array
from transformulary.conform.candidates.pytorch import failing, ids
from transformulary.conform.reference import Reference, reference
from transformulary.errors import CandidateError
from transformulary.nn import evaluating
from transformulary.oracle import record

#: Lines to be found, in the order of the run; for the last, the logits are looked for.
LINES = ("10.3", "10.5[l]", "10.6[l]", "10.7[l]", "10.8[l]", "10.10", "10.11")
#: Words in the names of modules that hint at a line, for values that nothing else identifies.
HINTS = {
    "10.5[l]": r"(ln|norm).*(1|attn|attention|input)|(attn|attention|input).*(ln|norm)",
    "10.7[l]": r"(ln|norm).*(2|mlp|ffn|ff|post)|(mlp|ffn|post).*(ln|norm)",
    "10.10": r"(ln_f|norm_f|final|^norm$|\.norm$)",
    "10.11": r"(head|unembed|output|W_u|vocab)",
}
#: A value within this of the oracle's is the line, possibly with a mistake; above, it is another value.
NEAR = 0.3


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
    events = list(_events(model, x))
    values = record("DTransformer", x, ref.theta, ref.config)
    values["10.11"] = np.log(values["10.11"])
    lines = [
        '# Where the lines of Algorithm 10 can be seen: path = "module:in" or "module:out"; {l} counts layers from 0.',
        "[places]",
    ]
    for line in LINES:
        place, why = _find(line, values, events, ref.config.L)
        lines.append(f'"{line}" = "{place}"  # {why}' if place else f'# "{line}" = ""  # {why}')
    return "\n".join([*lines, "", *_shapes(model)])


def _load(candidate: Any, ref: Reference) -> nn.Module:
    from transformulary.conform.candidates.opened import LIBRARIES, import_file, of_folder

    if str(candidate) in LIBRARIES:
        return of_folder(ref, LIBRARIES[str(candidate)])
    load = getattr(import_file(Path(candidate)), "load", None)
    if load is None:
        raise CandidateError(f"{candidate} has no load(folder), which would return the model to look at.")
    return of_folder(ref, load)


def _events(model: nn.Module, x: Sequence[int]) -> list[Event]:
    found: list[Event] = []

    def show(name: str, side: str, value: Any) -> None:
        value = value[0] if isinstance(value, tuple | list) and value else value
        if (
            isinstance(value, torch.Tensor)
            and value.is_floating_point()
            and value.ndim == 3
            and value.shape[1] == len(x)
        ):
            found.append(Event(name, side, array(value[0], name).T))

    handles = []
    for name, module in model.named_modules():
        if name:
            handles.append(module.register_forward_pre_hook(lambda _, given, name=name: show(name, "in", given)))
            handles.append(module.register_forward_hook(lambda _, __, out, name=name: show(name, "out", out)))
    try:
        with evaluating(model), torch.no_grad(), failing(type(model).__name__):
            model(ids(model, [x]))
    finally:
        for handle in handles:
            handle.remove()
    return found


def _find(line: str, values: dict[str, Array], events: list[Event], L: int) -> tuple[str, str]:
    """(place, why) of one line; with {l} where all layers agree on it."""
    if "[l]" not in line:
        error, event = _nearest(values[line], events, line)
        return (event.place, f"{error:.0e} from the oracle's") if event and error < NEAR else _by_name(line, events)
    places, errors = set(), []
    for l in range(1, L + 1):
        error, event = _nearest(values[line.replace("[l]", f"[l={l}]")], events, line)
        if event is None or error >= NEAR:
            return _by_name(line, events)
        places.add(re.sub(rf"(^|\.){l - 1}(?=\.|:)", r"\1{l}", event.place, count=1))
        errors.append(error)
    if len(places) == 1:
        return places.pop(), f"{max(errors):.0e} from the oracle's"
    return _by_name(line, events)


def _nearest(value: Array, events: list[Event], line: str) -> tuple[float, Event | None]:
    """The event whose value is nearest; the first of equals, an output before an input."""
    best: tuple[float, int, Event | None] = (float("inf"), 0, None)
    for event in events:
        if event.value.shape != value.shape:
            continue
        theirs = event.value - (np.log(np.exp(event.value).sum(0)) if line == "10.11" else 0)
        error = float(np.abs(theirs - value).max() / np.abs(value).max())
        rank = (round(error, 12), _preference(line, event))
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

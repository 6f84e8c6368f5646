"""Compare a PyTorch decoder with Algorithm 10, line by line, in lockstep.

The model runs once, watched.  Then the oracle runs; after each line both values are compared and the
oracle goes on with THEIRS.  So every line is judged on the inputs that the model had there: one wrong
line is one finding, and rounding does not add up from line to line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from transformulary.conform.allowance import Allowance
from transformulary.conform.compared import added_error, error_of, matrix
from transformulary.errors import ConfigError
from transformulary.nn import DTransformer, evaluating
from transformulary.oracle import Theta, softmax, watched
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import parse
from transformulary.oracle.whole import lines as lines_that_compute
from transformulary.paper import DTransformerConfig

Array = NDArray[np.float64]

#: Where each line of Algorithm 10 can be seen while one of our fast decoders runs: its path -> a module and
#: the side to look at.
PLACES = {
    "10.2": "norm_x:in",
    "10.3": "layers.0:in",
    "10.5[l]": "layers.{l}.norm_1:out",
    "10.6[l]": "layers.{l}.norm_2:in",
    "10.7[l]": "layers.{l}.norm_2:out",
    "10.8[l]": "layers.{l}:out",
    "10.10": "norm:out",
    "10.11": "W_u:out",
}
#: The same where the embedding is normed, line 3a.
EMBEDDING_NORM = {"10.3": "norm_x:in", "10.3a": "layers.0:in"}
#: A bound for every path, or one for all.
Allowed = float | Callable[[str], float]


@dataclass
class Line:
    """What was found at one line: the largest relative error over the layers, where that was, what is allowed there."""

    label: str
    error: float = 0.0
    at: str = ""
    allowed: float = 0.0
    agrees: bool = True
    compared: int = 0

    def add(self, path: str, error: float, allowed: float) -> None:
        self.compared += 1
        error = error if error == error else float("inf")  # not a number counts as the largest
        self.agrees &= error <= allowed
        if error > self.error or not self.at:
            self.error, self.at, self.allowed = error, path, allowed


@dataclass
class Report:
    """The lines of one algorithm that compute a value, those compared, and those that cannot be seen."""

    number: str
    lines: list[Line] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.unseen and all(line.agrees for line in self.lines)

    @property
    def worst(self) -> Line:
        return max(self.lines, key=lambda line: line.error)

    @property
    def good(self) -> int:
        """How many lines agree."""
        return sum(line.agrees for line in self.lines)

    def __str__(self) -> str:
        total = len(self.lines) + len(self.unseen)
        largest = f"largest relative error {self.worst.error:.1e} (line {self.worst.label})"
        return f"Algorithm {self.number}: {self.good} of {total} lines that compute a value agree, {largest}"


def compare(model: DTransformer, x: Sequence[int], theta: Theta, allowed: Allowed | None = None) -> Report:
    """Run one of our fast decoders and the oracle in lockstep on one sequence.

    Args:
        model: the fast decoder, on any device, in any precision.
        x: token ids, from 0; at most ell_max where positions are learned.
        theta: the oracle's parameters; `theta_of(model)` compares the computation alone.
        allowed: the largest relative error that counts as agreement, a number or a function of the path; by
            default what the oracle itself makes there in the model's precision (`Allowance`), in float64 rounding.

    Returns:
        One `Line` per line of Algorithm 10 that computes a value in this model.
    """
    places = PLACES | (EMBEDDING_NORM if model.config.embedding_norm else {})
    seen = see(model, places, model.config, x)
    if allowed is None:
        precision = str(next(model.parameters()).dtype).removeprefix("torch.")
        allowed = Allowance(seen, model.config, x, theta, precision)
    return lockstep(seen, model.config, x, theta, allowed)


def see(model: nn.Module, places: Mapping[str, str], config: DTransformerConfig, x: Sequence[int]) -> dict[str, Array]:
    """{path: value} of the lines of Algorithm 10 while model(x) runs; columns are tokens.  Dropout is off."""
    modules = dict(model.named_modules())
    seen: dict[str, Array] = {}
    handles = []
    for pattern, place in places.items():
        for l in range(config.L) if "{l}" in place else [0]:
            path = pattern.replace("[l]", f"[l={l + 1}]")
            name, side = place.format(l=l).split(":")
            if name not in modules:
                raise ConfigError(f"line {path} is to be seen at {name}, and the model has no such module.")
            handles.append(modules[name].register_forward_hook(partial(_keep, seen, path, side)))
    try:
        with evaluating(model), torch.no_grad():
            model(torch.tensor([list(x)], device=next(model.parameters()).device))
    finally:
        for handle in handles:
            handle.remove()
    seen["10.11"] = softmax(seen["10.11"])
    return seen


def _keep(seen: dict[str, Array], path: str, side: str, _: nn.Module, inputs: tuple[Tensor, ...], output: Any) -> None:
    value = inputs[0] if side == "in" else output
    seen[path] = value[0].detach().double().cpu().numpy().T


def lockstep(
    seen: Mapping[str, Array], config: DTransformerConfig, x: Sequence[int], theta: Theta, allowed: Allowed
) -> Report:
    """Run Algorithm 10 on x; where a value was seen, compare and go on with what was seen."""
    lines = {line.label: Line(line.label) for line in lines_that_compute(config)}
    bound = allowed if callable(allowed) else lambda path: allowed
    stream: list[Array] = []  # theirs, after each line that sets X

    def hook(path: str, ours: Any) -> Any:
        if not re.fullmatch(r"10\.\w+(\[l=\d+\])?", path):
            return ours
        label = parse(path).steps[0].label
        if label == "1":
            lines["1"].add(path, float(seen["10.11"].shape[1] != ours), 0.0)
            return ours
        if path not in seen or label not in lines:
            return ours
        theirs = seen[path]
        lines[label].add(path, error_of(matrix(ours), theirs), bound(path))
        if line_at(path).adds:
            lines[label].add(path, added_error(ours, theirs, stream[-1]), bound(path))
        if line_at(path).stream:
            stream.append(theirs)
        return list(theirs.T) if label == "2" else theirs

    watched(hook).DTransformer(list(x), theta, config)
    compared = [line for line in lines.values() if line.compared]
    return Report("10", compared, [line.label for line in lines.values() if not line.compared])

"""A PyTorch model as a candidate: it runs once, watched at the places of its table."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from transformulary.conform.candidates.candidate import Array, Candidate, array, stored
from transformulary.conform.candidates.given import check_paths
from transformulary.conform.candidates.places import Place, Table, table_for
from transformulary.conform.dumps import precision_of
from transformulary.conform.notes import UNSEEN, Note
from transformulary.errors import CandidateError
from transformulary.nn import evaluating
from transformulary.oracle import softmax
from transformulary.paper import DTransformerConfig


def watch_model(
    model: nn.Module, config: DTransformerConfig, x: Sequence[int], table: Table | None = None, name: str = ""
) -> Candidate:
    """Run a model once on x and keep what its table's places show.

    Args:
        model: on any device, in any precision; it gets ids of shape (1, ell).
        table: where its lines can be seen; None: the table of its class.

    Raises:
        CandidateError: there is no table, a place is no module or runs more than once, or the model fails.
    """
    table = table or table_for(model)
    seen = see_places(model, table, config, x)
    idle = dict.fromkeys(_module(place) for path, place in _all_places(table, config) if path not in seen)
    if "10.11" in seen and table.output == "logits":
        with np.errstate(invalid="ignore"):
            seen["10.11"] = softmax(seen["10.11"])
    return Candidate(
        name=name or type(model).__name__,
        seen=seen,
        precision=model_precision(model),
        lower=table.lower,
        buffers={n: stored(b) for n, b in _other_tensors(model)},
        weights={n: stored(p) for n, p in model.named_parameters(remove_duplicate=False)},
        notes=(Note("places", UNSEEN, f"never called: {', '.join(idle)}"),) if idle else (),
    )


def see_places(model: nn.Module, table: Table, config: DTransformerConfig, x: Sequence[int]) -> dict[str, Array]:
    """{path: what its place shows} of one run; columns are tokens.  Dropout is off.

    What the model returns is line 11, unless the table has another place for it.
    """
    modules = dict(model.named_modules())
    seen: dict[str, Array] = {}
    runs: Counter[str] = Counter()
    handles = []
    places = dict(_all_places(table, config))
    check_paths(places, config, len(x), "the table of places")
    for path, place in places.items():
        module = _module(place)
        if module not in modules:
            raise CandidateError(f"line {path} is to be seen at {module}, and the model has no such module.")
        keep = partial(_keep, seen, runs, path, _looks(place), table.tokens)
        handles.append(modules[module].register_forward_hook(keep, with_kwargs=True))
    try:
        with evaluating(model), torch.no_grad(), failing(type(model).__name__):
            output = model(ids(model, [list(x)]))
    finally:
        for handle in handles:
            handle.remove()
    _once({_module(place): runs[path] for path, place in places.items()})
    if "10.11" not in seen:
        seen["10.11"] = _columns(logits(output), "what the model returns", table.tokens)
    return seen


def _once(runs: Mapping[str, int]) -> None:
    """A module that runs more than once shows no one line.  Raises CandidateError, and names those that never ran."""
    often = [f"{module} ran {n} times" for module, n in runs.items() if n > 1]
    never = [f"{module} not at all" for module, n in runs.items() if not n]
    if often:
        raise CandidateError(
            f"{', '.join([*often, *never])}: a place shows its line if it runs once; mend the model, or its places."
        )


@contextmanager
def failing(what: str, hint: str = "") -> Iterator[None]:
    """An exception of the candidate's own code as a CandidateError that says where it arose, and ends with a hint.

    What the code prints goes to stderr: stdout is the report's.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except CandidateError:
        raise
    except SystemExit as left:
        raise CandidateError(f"{what} called sys.exit({'' if left.code is None else repr(left.code)}).") from left
    except Exception as error:
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        at = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})" if trace else ""
        at = (
            "" if at.startswith(" (<frozen") else at
        )  # in Python's own code: the file is no Python, and the error says so
        raise CandidateError(f"{what} failed: {type(error).__name__}: {error}{at}{hint}") from error


def ids(model: nn.Module, rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """Token ids (B, ell) where the model is."""
    return torch.tensor([list(row) for row in rows], device=next(iter(_tensors(model)), torch.empty(0)).device)


def logits(output: Any) -> torch.Tensor:
    """The logits (B, ell, N_V) in what a model returns: a tensor, its first of several, or its `.logits`."""
    output = getattr(output, "logits", output)
    first: torch.Tensor = output[0] if isinstance(output, tuple | list) else output
    return first


def model_precision(model: nn.Module) -> str:
    """The type of most of a model's numbers."""
    sizes: dict[str, int] = {}
    for parameter in _tensors(model):
        name = precision_of(parameter)
        sizes[name] = sizes.get(name, 0) + parameter.numel()
    return max(sizes, key=lambda name: sizes[name], default="float64")


def _tensors(model: nn.Module) -> list[torch.Tensor]:
    """What a model's numbers are in: its parameters, or, without any, its other tensors."""
    return [*model.parameters()] or [tensor for _, tensor in _other_tensors(model)]


def _other_tensors(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """(name, tensor) of real numbers that are no parameters: buffers, and plain attributes of modules."""
    for place, module in model.named_modules():
        for name, value in [*module.named_buffers(recurse=False), *vars(module).items()]:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                yield f"{place}.{name}".lstrip("."), value


def _all_places(table: Table, config: DTransformerConfig) -> Iterator[tuple[str, Place]]:
    for pattern, place in table.places.items():
        for l in range(config.L) if "[l]" in pattern else [0]:
            path = pattern.replace("[l]", f"[l={l + 1}]")
            yield path, place.format(l=l) if isinstance(place, str) else (place[0].format(l=l), place[1])


def _module(place: Place) -> str:
    return place.partition(":")[0] if isinstance(place, str) else place[0]


def _looks(place: Place) -> Callable[[Any, Any], Any]:
    if not isinstance(place, str):
        return place[1]
    side, _, index = place.partition(":")[2].partition(".")

    def look(inputs: Any, output: Any) -> Any:
        value = inputs if side == "in" else output
        return value[int(index or 0)] if isinstance(value, tuple | list) else value

    return look


def _keep(
    seen: dict[str, Array],
    runs: Counter[str],
    path: str,
    look: Callable[[Any, Any], Any],
    tokens: str,
    _: nn.Module,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
    output: Any,
) -> None:
    runs[path] += 1
    seen[path] = _columns(look((*inputs, *named.values()), output), f"what is seen at {path}", tokens)


def _columns(value: Any, what: str, tokens: str) -> Array:
    """What a module has, without its batch of one, tokens as columns."""
    shown = array(value, what)
    shown = shown[0] if shown.ndim == 3 and len(shown) == 1 else shown
    return shown.T if tokens == "rows" else shown

"""A PyTorch model as a candidate: it runs once, watched at the places of its table."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from inspect import iscoroutinefunction, signature, unwrap
from typing import Any

import torch
from torch import nn

from transformulary.conform.candidates.calling import call, other_tensors, tensors_of
from transformulary.conform.candidates.candidate import Array, Candidate, array, lowest, said, stored
from transformulary.conform.candidates.given import check_paths, check_shape, is_compared, shape
from transformulary.conform.candidates.places import Place, Table, table_for
from transformulary.conform.candidates.returned import columns, last_line, logits, unsteady
from transformulary.conform.dumps import nearest, precision_of
from transformulary.conform.notes import UNSEEN, Note
from transformulary.errors import AlgorithmError, CandidateError
from transformulary.nn import evaluating
from transformulary.oracle.lines import line_at
from transformulary.oracle.whole import Model, layers_of
from transformulary.paper import Config, Read

#: What a place shows, and the precision that it is stored in.
_Shown = tuple[Array, str]


def watch_model(model: nn.Module, whole: Model, x: Read, table: Table | None = None, name: str = "") -> Candidate:
    """Run a model once on x and keep what its table's places show.

    Args:
        model: on any device, in any precision; it gets ids of shape (1, ell), as `call` gives them.
        whole: what it should be.
        table: where its lines can be seen; None: the table of its class.

    Raises:
        CandidateError: there is no table; a place is no module or shows another shape; the model fails.
    """
    table = table or table_for(model)
    places = dict(_all_places(table, whole.config))
    _check_table(table, places, whole, x)
    axes = {path: len(shape(path, whole, x)) for path in places}
    seen, kinds, notes, returned = _see(model, places, table.tokens, x, axes)
    for path, value in seen.items():
        check_shape(path, value, whole, x, _named(places[path]), " (tokens as columns)")
    _check_layers(table, whole.config)
    precision, last = model_precision(model), whole.output
    seen[last], its_own, of_output = last_line(whole, seen.get(last), returned, table.tokens, table.output, precision)
    kinds |= {last: precision_of(logits(returned))} if its_own else {}
    notes += [*_repeat(model, x, returned, precision), *of_output]
    return Candidate(
        name=name or type(model).__name__,
        seen=seen,
        precision=precision,
        kinds={path: kind for path in seen if (kind := lowest((precision, kinds[path]))) != precision},
        lower=table.lower,
        buffers={n: stored(b) for n, b in other_tensors(model)},
        weights={n: stored(p) for n, p in model.named_parameters(remove_duplicate=False)},
        notes=tuple(notes),
    )


def _check_table(table: Table, places: Mapping[str, Place], whole: Model, x: Read) -> None:
    """Raise CandidateError where a place or a precision is said of what is no value, or no line, of this run."""
    check_paths(places, whole, x, "the table of places")
    if alone := [path for path in places if not is_compared(path)]:
        raise CandidateError(f"the table of places: {alone[0]} is not compared: what is made of it is. Leave it out.")
    lines = [line.name for line in whole.lines]
    if unknown := [line for line in table.lower if line not in lines]:
        says = f"lower says {unknown[0]}, and that is no line of this run. {nearest(unknown[0], lines)}"
        raise CandidateError(f"the table of places: {says}")


def _check_layers(table: Table, config: Config) -> None:
    """Raise CandidateError where a path is of every layer and its place of one, or the reverse."""
    for path, place in table.places.items():
        if ("[l]" in path) != ("{l}" in _named(place)) and _layers(path, config) > 1:
            says = f"{path} = {_named(place)!r} counts layers on one side only: with [l] goes a place with {{l}}"
            raise CandidateError(f"the table of places: {says}.")


def _see(
    model: nn.Module, places: Mapping[str, Place], tokens: str, x: Read, axes: Mapping[str, int]
) -> tuple[dict[str, Array], dict[str, str], list[Note], Any]:
    """({path: what its place shows in one run, tokens as columns}, {path: the precision that it is stored in}, what of
    the places shows nothing, what the model returns).  Dropout is off.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    shown: dict[str, list[_Shown]] = {path: [] for path in places}
    handles = []
    for path, place in places.items():
        module = _module(place)
        if module not in modules:
            raise CandidateError(_no_module(path, module, modules))
        keep = partial(_keep, shown[path], _looks(place), f"what is seen at {path}", tokens, axes[path])
        handles.append(modules[module].register_forward_hook(keep, with_kwargs=True))
    try:
        with evaluating(model), torch.no_grad(), failing(type(model).__name__):
            returned = call(model, [x])
    finally:
        for handle in handles:
            handle.remove()
    once, notes = _once(places, shown, modules)
    return {path: a for path, (a, _) in once.items()}, {path: kind for path, (_, kind) in once.items()}, notes, returned


def _repeat(model: nn.Module, x: Read, returned: Any, precision: str) -> tuple[Note, ...]:
    """What is to be said of a second run that does not give what the first returned."""
    with evaluating(model), torch.no_grad(), failing(type(model).__name__):
        left_on = [name for name, module in model.named_modules() if module.training]
        again = call(model, [x])
    try:
        first, second = (array(logits(found), "") for found in (returned, again))
    except CandidateError:  # `last_line` says so
        return ()
    return unsteady("the model", first, second, precision, left_on)


def _no_module(path: str, module: str, modules: Mapping[str, nn.Module]) -> str:
    compiled = next((name for name in modules if name.replace("_orig_mod.", "") == module), "")
    hint = f": torch.compile calls it {compiled}" if compiled else "; of braces, only {l} is filled" * ("{" in module)
    return f"line {path} is to be seen at {module}, and the model has no such module{hint}."


def _once(
    places: Mapping[str, Place], shown: Mapping[str, Sequence[_Shown]], modules: Mapping[str, nn.Module]
) -> tuple[dict[str, _Shown], list[Note]]:
    """({path: the one value of its place}, which places have none).

    A module that has several names and runs once for each runs in their order.  Any other that runs more than once
    shows no one line.
    """
    names = names_of(modules)
    seen: dict[str, _Shown] = {}
    never: list[str] = []
    often: list[str] = []
    for path, place in places.items():
        name, values = _module(place), shown[path]
        shared = names[modules[name]]
        if len(values) in (1, len(shared)):
            seen[path] = values[0 if len(values) == 1 else shared.index(name)]
        else:
            (often if values else never).append(name)
    says = {"never called": never, "called more than once, where a place shows its line if it is called once": often}
    return seen, [
        Note("places", UNSEEN, f"{what}: {', '.join(dict.fromkeys(which))}") for what, which in says.items() if which
    ]


def names_of(modules: Mapping[str, nn.Module]) -> dict[nn.Module, list[str]]:
    """The names of every module."""
    names: dict[nn.Module, list[str]] = defaultdict(list)
    for name, module in modules.items():
        names[module].append(name)
    return names


@contextmanager
def failing(what: str, hint: str = "") -> Iterator[None]:
    """An exception of the candidate's own code as a CandidateError that says where it arose, and ends with a hint.

    What the code prints goes to stderr: stdout is the report's.
    """
    depth = sys.getrecursionlimit()
    try:
        with redirect_stdout(sys.stderr), _exits_seen():
            yield
    except CandidateError:
        raise
    except SystemExit as left:
        raise CandidateError(f"{what} called exit({'' if left.code is None else repr(left.code)}).") from left
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # pytest's fail and skip, a cancelled task: what stops the code that raises it
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        at = f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})" if trace else ""
        at = (
            "" if at.startswith(" (<frozen") else at
        )  # in Python's own code: the file is no Python, and the error says so
        hint = "" if isinstance(error, ImportError) else hint
        raise CandidateError(f"{what} failed: {type(error).__name__}: {said(error)}{at}{hint}") from error
    finally:
        sys.setrecursionlimit(max(depth, sys.getrecursionlimit()))


@contextmanager
def _exits_seen() -> Iterator[None]:
    """`os._exit`, which would end this process without a word, raises SystemExit; another process it ends."""
    exit, own = os._exit, os.getpid()

    def leave(status: int) -> None:
        if os.getpid() != own:
            exit(status)
        raise SystemExit(status)

    os._exit = leave  # type: ignore[assignment]
    try:
        yield
    finally:
        os._exit = exit


def check_signature(function: Any, usual: str) -> None:
    """Raise CandidateError, which names its file, where a function cannot be called as it will be: "load(folder)"."""
    try:
        found = signature(function)
    except (TypeError, ValueError):
        return  # no function, or one that Python knows nothing of
    name, _, names = usual.partition("(")
    if iscoroutinefunction(function):
        raise CandidateError(f"{name} is async, and what it returns would have to be awaited: make it a plain def.")
    try:
        found.bind(*names.split(","))
    except TypeError as error:
        code = getattr(unwrap(function), "__code__", None)
        at = f" ({code.co_filename}, line {code.co_firstlineno})" if code else ""
        raise CandidateError(f"{name}{found} must be {usual}: {error}{at}.") from None


def model_precision(model: nn.Module) -> str:
    """The type of most of a model's numbers."""
    sizes: dict[str, int] = {}
    for parameter in tensors_of(model):
        name = precision_of(parameter)
        sizes[name] = sizes.get(name, 0) + parameter.numel()
    return max(sizes, key=lambda name: sizes[name], default="float64")


def _layers(path: str, config: Config) -> int:
    """How many layers the line at a path has; 1 outside of layers."""
    try:
        size = line_at(path.replace("[l]", "[l=1]")).layers
    except (AlgorithmError, KeyError):  # no path of a line: the table is checked afterwards
        return layers_of(config)
    return int(getattr(config, size, layers_of(config))) if size else 1


def _all_places(table: Table, config: Config) -> Iterator[tuple[str, Place]]:
    for pattern, place in table.places.items():
        for l in range(_layers(pattern, config)) if "[l]" in pattern else [0]:
            path, name = pattern.replace("[l]", f"[l={l + 1}]"), _named(place).replace("{l}", str(l))
            yield path, name if isinstance(place, str) else (name, place[1])


def _named(place: Place) -> str:
    """What a place is called: module:side, or the module that a function looks at."""
    return place if isinstance(place, str) else place[0]


def _module(place: Place) -> str:
    return _named(place).partition(":")[0]


def _looks(place: Place) -> Callable[[Any, Any], Any]:
    if not isinstance(place, str):
        return place[1]
    side, _, index = place.partition(":")[2].partition(".")

    def look(inputs: Any, output: Any) -> Any:
        value = inputs if side == "in" else output if index else logits(output)
        values = value if isinstance(value, tuple | list) else [value]
        if int(index or 0) >= len(values):
            what = "is given" if side == "in" else "gives"
            raise CandidateError(f"{place} is not there: the module {what} {len(values)}, counted from 0.")
        return values[int(index or 0)]

    return look


def _keep(
    shown: list[_Shown],
    look: Callable[[Any, Any], Any],
    what: str,
    tokens: str,
    ndim: int,
    _: nn.Module,
    inputs: tuple[Any, ...],
    named: dict[str, Any],
    output: Any,
) -> None:
    found = look((*inputs, *named.values()), output)
    shown.append((columns(found, what, tokens, ndim), precision_of(found)))

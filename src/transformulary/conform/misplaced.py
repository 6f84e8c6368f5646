"""Values that are not of the line at which they are shown, as the logits of the whole run prove.

Where the logits agree with the oracle's own whole run, the model is right from end to end.  If they no longer follow
once the oracle goes on with what is shown at a line, the model did not go on with it either: it is another value, and
the table of places, or the name of a dump, is wrong.  A mistake that the logits do not show passes this test.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import error_of, is_line
from transformulary.conform.description import not_finite
from transformulary.conform.notes import DIFFERS, Note
from transformulary.conform.replay import Replay
from transformulary.conform.search import tried
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import line_of, parse
from transformulary.oracle.watch import nothing, watched
from transformulary.oracle.whole import Model
from transformulary.paper import Read

Array = NDArray[Any]

#: A last line that is so many times farther off than is allowed does not follow from what a place shows in some layer.
FAR = 3.0
#: A value of the oracle this near to what is shown, relative to its largest number, is what is shown.
NEAR = 0.1


def misplaced(seen: Mapping[str, Array], model: Model, given: Read, allowed: float) -> tuple[tuple[str, ...], float]:
    """The lines at which something else is shown, and the error of the whole run's last line.

    Args:
        seen: path -> their value.
        allowed: the error that counts as agreement at the last line of a whole run; if it does not agree, nothing is
            said.
    """
    last = model.output

    def error(shown: Mapping[str, Array]) -> float:
        value = tried(Replay(last, shown, given, model.theta, model.config, {}), {})
        return float("inf") if value is None else error_of(value, seen[last])

    lines = [path for path in seen if path != last and is_line(path)]
    if last not in seen or not lines or (whole := error({})) > allowed:
        return (), float("inf")
    errors = {path: error({path: seen[path]}) for path in lines}
    wrong = {line_of(path) for path in lines if errors[path] > FAR * allowed}
    return tuple(path for path in lines if line_of(path) in wrong and errors[path] > allowed), whole


def note(seen: Mapping[str, Array], wrong: Sequence[str], error: float, model: Model, given: Read) -> Note:
    """What is shown at the wrong places, as far as the oracle has such a value."""
    values = _values(model, given)
    broken = [f"what is shown at {path} is damaged: {says}" for path in wrong if (says := not_finite(seen[path]))]
    said: dict[str, str] = {}
    for path in (path for path in wrong if np.isfinite(seen[path]).all()):
        near = min(((error_of(value, seen[path]), what) for what, value in values.items()), default=(np.inf, ("", 0)))
        what, layer = near[1] if near[0] < NEAR else ("", 0)
        of = f" of layer {layer}" if layer not in (0, parse(path).layer) else ""
        is_not = f"line {parse(path).steps[0].label}" + (f" but {what}{of}" if what else "")
        said.setdefault(re.sub(r"l=\d+", "l", path), is_not)
    shown = "; ".join(f"what is shown at {pattern} is not {is_not}" for pattern, is_not in said.items())
    wrong_there = [f"{shown}: the table of places, or the name of a dump, is wrong there"] if said else []
    so = "; and ".join([*broken, *wrong_there])
    return Note("places", DIFFERS, f"the logits of the whole run agree (to {error:.0e}), so {so}")


def _values(model: Model, given: Read) -> dict[tuple[str, int], Array]:
    """(what, layer) -> what the oracle computes there: each line, and what lines add to X."""
    lines: dict[str, Array] = {}

    def keep(path: str, value: Any) -> Any:
        if not re.search(r"[/:]|\bt=", path) and isinstance(value, np.ndarray):
            lines[path] = value
        return value

    model.run(watched(keep, nothing), given)
    return dict(_named(lines))


def _named(lines: Mapping[str, Array]) -> Iterator[tuple[tuple[str, int], Array]]:
    streams: dict[str, Array] = {}
    for path, value in lines.items():
        line, layer = line_at(path), parse(path).layer
        yield (f"line {line.label}", layer), value
        if line.adds:
            yield (f"what line {line.label} adds to {line.stream}", layer), value - streams[line.stream]
        if line.stream:
            streams[line.stream] = value

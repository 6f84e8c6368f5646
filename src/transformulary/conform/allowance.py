"""How much error counts as agreement: what the oracle itself makes in that precision, at that line, on these inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import Comparison, matrix
from transformulary.oracle.precision import PRECISIONS, in_precision
from transformulary.oracle.theta import Theta
from transformulary.oracle.watch import watched
from transformulary.paper import DTransformerConfig

Array = NDArray[Any]

#: Float64 against float64, relative to the largest number of a value: equality to rounding.
EXACT = 1e-12
#: Other orders of the same operations, and sums in pieces, may err more than the oracle's: by this factor at most.
FACTOR = 8.0
#: What one rounding of a value to the precision can do, relative to its largest number.
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


def allowances(
    seen: Mapping[str, Array], config: DTransformerConfig, x: Sequence[int], theta: Theta, precision: str = "float64"
) -> Callable[[str], float]:
    """path -> the error that counts as agreement there, for values that were computed in `precision`.

    The oracle runs twice in lockstep with what was seen, exactly and in the precision; what the two differ by at a
    line, times a factor, is allowed there.  In float64 it is a constant, equality to rounding.
    """
    if precision == "float64":
        return lambda path: EXACT
    kind = PRECISIONS[precision]
    assert kind is not None
    exact: dict[str, Array] = {}
    errors: dict[str, float] = {}

    def run(theta: Theta, turned: Callable[[Array], Any], look: Callable[[str, Array], None]) -> None:
        def hook(path: str, value: Any) -> Any:
            if path not in seen:
                return value
            look(path, np.asarray(matrix(value), np.float64))
            theirs = turned(seen[path])
            return list(theirs.T) if isinstance(value, list) else theirs

        watched(hook).DTransformer(list(x), theta, config)

    run(theta, lambda a: a, exact.__setitem__)
    comparison = Comparison(seen)

    def judge(path: str, value: Array) -> None:
        errors[path] = comparison.error(path, exact[path], value)
        comparison.passed(path)

    run(in_precision(theta, precision), kind.narrow, judge)
    return lambda path: FACTOR * max(errors.get(path, 0.0), UNIT[precision])

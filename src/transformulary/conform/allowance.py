"""How much error counts as agreement: what the oracle itself makes in that precision, at that line, on these inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import Comparison, error_of, matrix
from transformulary.oracle.precision import ACCUMULATED, in_precision
from transformulary.oracle.theta import Theta
from transformulary.oracle.watch import watched
from transformulary.oracle.whole import Model
from transformulary.paper import Config, Read

Array = NDArray[Any]

#: Float64 against float64, relative to the largest number of a value: equality to rounding.
EXACT = 1e-12
#: Other orders of the same operations, and sums in pieces, may err more than the oracle's: by this factor at most.
FACTOR = 8.0
#: What one rounding of a value to the precision can do, relative to its largest number.
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


class Allowance:
    """path -> the error that counts as agreement there, for values that were computed in `precision`.

    The oracle runs twice in lockstep with what was seen, exactly and in the precision; what the two differ by at a
    line, times a factor, is allowed there.  In float64 it is a constant, equality to rounding.

    own    every value was computed from the oracle's own: the two go on with those, not with what was seen
    noise  path -> the difference of the two runs there; empty in float64
    """

    def __init__(
        self,
        seen: Mapping[str, Array],
        config: Config,
        x: Read | Sequence[int],
        theta: Theta,
        precision: str = "float64",
        own: bool = False,
    ) -> None:
        self.seen, self.config, self.given, self.precision = seen, config, Read.of(x), precision
        self._exact: dict[str, Array] = {}
        self._next = self._exact if own else seen
        self.noise: dict[str, Array] = {}
        self._errors: dict[str, float] = {}
        kind = ACCUMULATED[precision]
        if kind is not None:
            self._measure(theta, in_precision(theta, precision, ACCUMULATED), kind.narrow)

    def __call__(self, path: str) -> float:
        if self.precision == "float64":
            return EXACT
        return FACTOR * max(self._errors.get(path, 0.0), UNIT[self.precision])

    def _measure(self, theta: Theta, low: Theta, narrow: Callable[[Any], Any]) -> None:
        exact, comparison = self._exact, Comparison(self._next)

        def judge(path: str, value: Array) -> None:
            self._errors[path] = comparison.error(path, exact[path], value)
            with np.errstate(invalid="ignore"):  # masked scores are minus infinity in both
                self.noise[path] = np.where(value == exact[path], 0.0, value - exact[path])
            comparison.passed(path)

        self._run(theta, lambda a: a, exact.__setitem__)
        self._run(low, narrow, judge)

    def _run(self, theta: Theta, turned: Callable[[Array], Any], look: Callable[[str, Array], None]) -> None:
        def hook(path: str, value: Any) -> Any:
            if path not in self.seen:
                return value
            look(path, np.asarray(matrix(value), np.float64))
            theirs = turned(self._next[path])
            return list(theirs.T) if isinstance(value, list) else theirs

        Model(self.config, theta).run(watched(hook), self.given)


class LogitsAllowance:
    """Difference of a whole run's logits -> the difference that counts as agreement, for a run in `precision`.

    What the oracle loses from line 1 to the logits of the last line, in that precision, times the factor.  Float64 is
    taken to lose what float32 does, in proportion to their roundings; it is measured, which takes two runs, only for a
    difference that is not equality to rounding anyway.
    """

    def __init__(self, config: Config, x: Read | Sequence[int], theta: Theta, precision: str = "float64") -> None:
        self.config, self.given, self.theta, self.precision = config, Read.of(x), theta, precision

    def __call__(self, error: float) -> float:
        return EXACT if self.precision == "float64" and error <= EXACT else self._measured

    @cached_property
    def _measured(self) -> float:
        measured = "float32" if self.precision == "float64" else self.precision
        right, low = self.theta, in_precision(self.theta, measured, ACCUMULATED)
        logits = (Model(self.config, theta).logits(self.given) for theta in (right, low))
        loss = error_of(*(np.asarray(found, np.float64) for found in logits))
        allowed = FACTOR * max(loss, UNIT[measured])
        return allowed if measured == self.precision else max(EXACT, allowed * UNIT["float64"] / UNIT["float32"])

"""How much error counts as agreement: what the oracle itself makes in that precision, at that line, on these inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import Comparison, error_of, is_line, matrix
from transformulary.conform.replay import Replay
from transformulary.oracle.lazy import lazy
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import line_of
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
#: Runs in which what was seen is off by a rounding, by chance up or down: sums that cancel are off by more than one.
SHAKEN = 4
#: Parameters that are this many roundings away are rounded otherwise in every operation; what they are is told by the
#: sine of this many times themselves.
AWAY, PHASE = 4.0, 1e5
#: What one rounding of a value to the precision can do, relative to its largest number.
UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "bfloat16": 2.0**-8, "float16": 2.0**-11}


class Allowance:
    """path -> the error that counts as agreement there, for values that were computed in `precision`.

    The oracle runs twice in lockstep with what was seen, exactly and in the precision; what the two differ by at a
    line, times a factor, is allowed there.  What was seen is known to the precision only: so is what the exact one
    differs by if that is off by a rounding, wherever it goes on with it.  In float64 it is a constant, equality to
    rounding.

    own    every value was computed from the oracle's own: the two go on with those at every line, seen or not
    lower  line -> the precision in which it is computed, whatever that of the rest
    stored path -> the precision in which what was seen is known, if that is not `precision`
    noise  path -> the difference of the two runs there; empty in float64
    since  path -> the precisions of lines that were computed before it and not seen; empty in float64
    """

    def __init__(
        self,
        seen: Mapping[str, Array],
        config: Config,
        x: Read | Sequence[int],
        theta: Theta,
        precision: str = "float64",
        own: bool = False,
        lower: Mapping[str, str] = MappingProxyType({}),
        stored: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.seen, self.config, self.given, self.precision = seen, config, Read.of(x), precision
        self.theta, self.own, self.stored = theta, own, stored
        self._exact: dict[str, Array] = {}
        self.lower, self.since = lower, dict[str, frozenset[str]]()
        self.noise: dict[str, Array] = {}
        self._errors: dict[str, float] = {}
        kind = ACCUMULATED[precision]
        if kind is not None:
            self._run(theta, lambda _, a: a, self._exact.__setitem__)
            low = in_precision(theta, precision, ACCUMULATED)
            self._run(low, lambda _, a: kind.narrow(a), self._judge(self._noisy))

    def __call__(self, path: str) -> float:
        if self.precision == "float64":
            return EXACT
        return FACTOR * max(self._errors.get(path, 0.0), self._shaken.get(path, 0.0), UNIT[self.precision])

    @cached_property
    def _shaken(self) -> dict[str, float]:
        """Path -> what a rounding of the values that were seen before it changes there, at most."""
        if self.own:
            return {}
        chance, most = np.random.default_rng(0), dict[str, float]()

        def off(path: str, value: Array) -> Array:
            unit = UNIT[self.stored.get(path, self.precision)]
            return value * (1 + unit * chance.choice((-1.0, 1.0), np.shape(value)))

        def larger(path: str, value: Array, error: float) -> None:
            most[path] = max(most.get(path, 0.0), error)

        for _ in range(SHAKEN):
            self._run(self.theta, off, self._judge(larger))
        return most

    def low(self, path: str, seen: Mapping[str, Array], shaken: int = 0, exactly: bool = False) -> Replay:
        """The value at a path in this precision, with some mistakes, in a run that goes on with what was seen.

        shaken   of other parameters, a few roundings away: every number of others; 0: of theta itself
        exactly  in float64, of the same parameters
        """
        kind = ACCUMULATED[self.precision]
        assert kind

        def turned(numbers: Array) -> Any:
            off = np.sin(PHASE * shaken * numbers)  # as good as by chance, and the same whenever they are fetched
            rounded = kind.narrow(numbers * (1 + AWAY * UNIT[self.precision] * off))
            return rounded.wide() if exactly else rounded

        theta = self.theta.map(lambda a: lazy(a).turned_into(turned))
        given = seen if exactly else {p: kind.narrow(v) for p, v in seen.items()}
        return Replay(path, given, self.given, theta, self.config)

    def _judge(self, tell: Callable[[str, Array, float], None]) -> Callable[[str, Array], None]:
        """Tells of every value, and by how much it differs from the exact one."""
        comparison = Comparison(self._exact if self.own else self.seen)

        def judge(path: str, value: Array) -> None:
            if path in self.seen:
                tell(path, value, comparison.error(path, self._exact[path], value))
            comparison.passed(path)

        return judge

    def _noisy(self, path: str, value: Array, error: float) -> None:
        self._errors[path], exact = error, self._exact[path]
        with np.errstate(invalid="ignore"):  # masked scores are minus infinity in both
            self.noise[path] = np.where(value == exact, 0.0, value - exact)

    def _run(self, theta: Theta, turned: Callable[[str, Array], Any], look: Callable[[str, Array], None]) -> None:
        hidden = {"z": frozenset[str](), "x": frozenset[str]()}  # a decoder reads what an encoder gives

        def hook(path: str, value: Any) -> Any:
            side, line = line_at(path).side, line_of(path)
            if path not in self.seen:
                hidden[side] |= {self.lower[line]} if line in self.lower else set()
                if not self._given(path):
                    return value
            else:
                self.since[path] = hidden["z"] | hidden[side]
                if is_line(path) and line_at(path).stream:
                    hidden[side] = frozenset()
            look(path, np.asarray(matrix(value), np.float64))
            theirs = turned(path, (self._exact if self.own else self.seen)[path])
            return list(theirs.T) if isinstance(value, list) else theirs

        Model(self.config, theta).run(watched(hook), self.given)

    def _given(self, path: str) -> bool:
        """Whether functions get the oracle's own value of a whole line that none of them shows."""
        line = line_at(path)
        return self.own and is_line(path) and "t=" not in path and not (line.counts or line.target == "e")


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

"""Faults that hide in the rounding of a low precision.

Where every number of a line agrees within what its precision allows, a small fault may still be there: GELU's
exact form in bfloat16, say.  Each known mistake predicts a whole pattern of changes; the difference that is left
is projected on it, over all lines where the mistake would act, in all layers and in each.  A coefficient near 1 is the
mistake, near 0 its absence; the noise of the coefficient is estimated from the rounding of the oracle itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.mistakes import BY_KEY, Mistake
from transformulary.oracle.path import parse

Array = NDArray[Any]

#: Standard deviations of its noise by which a coefficient must be away from 0 to be a finding.
CERTAIN = 6.0
#: A coefficient this near to 1 is the mistake, this near to 0 its absence.
NEAR = 0.3


@dataclass
class _Sum:
    """Of one mistake over some lines, each weighted by how little rounding there is."""

    on_residual: float = 0.0
    on_noise: float = 0.0
    length: float = 0.0
    variance: float = 0.0

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Suspicion:
    """A mistake, and how much of it the difference holds.

    layer        where; 0 in a line outside of layers, and if it is in all of them,
    everywhere   which is then true
    coefficient  1 = all of it, 0 = none
    deviation    the standard deviation of the coefficient, from the rounding of the oracle
    gain         what the mistake explains of the difference, in squares of the rounding
    """

    mistake: Mistake
    layer: int
    everywhere: bool
    coefficient: float
    deviation: float
    gain: float

    def rivals(self, other: Suspicion) -> bool:
        """Whether both would explain the same: mistakes of one line, in one layer or in all."""
        return self.mistake.line == other.mistake.line and (self.layer in (0, other.layer) or not other.layer)

    @property
    def found(self) -> bool:
        """The mistake is there, with confidence."""
        return abs(self.coefficient - 1) < NEAR and self.coefficient > CERTAIN * self.deviation

    @property
    def excluded(self) -> bool:
        """It is not there, with confidence; neither found nor excluded is: it cannot be seen at this precision."""
        return abs(self.coefficient) < NEAR and self.deviation < NEAR / 2


class Projection:
    """Sums over the lines of a run; noise: path -> what rounding did there to the oracle's own value."""

    def __init__(self, noise: Mapping[str, Array]) -> None:
        self.noise = noise
        self._sums: dict[str, dict[int, _Sum]] = {}

    def add(self, path: str, mistake: Mistake, ours: Array, changed: Array, theirs: Array) -> None:
        """At `path`: our value, what it would be with the mistake, and what was seen."""
        noise, predicted = self.noise.get(path), changed - ours
        if noise is None or not noise.any() or not predicted.any() or not math.isfinite(float(predicted.sum())):
            return
        weight = 1 / float((noise * noise).mean())
        new = _Sum(
            weight * float(((theirs - ours) * predicted).sum()),
            weight * float((noise * predicted).sum()),
            weight * float((predicted * predicted).sum()),
            weight * weight * float((noise * noise * predicted * predicted).sum()),
        )
        by_layer = self._sums.setdefault(mistake.key, {})
        layer = parse(path).layer
        by_layer[layer] = by_layer.get(layer, _Sum()) + new

    def suspicions(self) -> list[Suspicion]:
        """Every mistake that would act somewhere: everywhere, if no layer is surely without it; else by layer."""
        return [s for key, by_layer in self._sums.items() for s in _places(BY_KEY[key], by_layer)]


def _places(mistake: Mistake, by_layer: Mapping[int, _Sum]) -> list[Suspicion]:
    whole = _suspicion(mistake, 0, sum(by_layer.values(), _Sum()), everywhere=any(by_layer))
    single = [_suspicion(mistake, layer, s) for layer, s in by_layer.items()]
    return [whole] if whole.found and not any(s.excluded for s in single) else single


def _suspicion(mistake: Mistake, layer: int, s: _Sum, everywhere: bool = False) -> Suspicion:
    deviation = math.hypot(math.sqrt(s.variance), s.on_noise) / s.length
    gain = 2 * s.on_residual - s.length
    return Suspicion(mistake, layer, everywhere, s.on_residual / s.length, deviation, gain)


def independent(suspicions: Iterable[Suspicion]) -> list[tuple[Suspicion, list[Suspicion]]]:
    """Of mistakes that were found, one for each line and layer: what explains most, and what explains as much."""
    chosen: list[tuple[Suspicion, list[Suspicion]]] = []
    for s in sorted((s for s in suspicions if s.found), key=lambda s: -s.gain):
        rivals = [entry for entry in chosen if entry[0].rivals(s)]
        if not rivals:
            chosen.append((s, []))
        elif rivals[0][0].gain - s.gain < CERTAIN**2:
            rivals[0][1].append(s)
    return chosen


def finite(value: Any) -> TypeGuard[Array]:
    """Whether a value is an array of finite numbers."""
    return isinstance(value, np.ndarray) and bool(np.isfinite(value).all())

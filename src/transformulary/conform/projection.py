"""Faults that hide in the rounding of a low precision.

Where every number of a line agrees within what its precision allows, a small fault may still be there: GELU's
exact form in bfloat16, say.  Each known mistake predicts a whole pattern of changes; the difference that is left
is projected on it, over all lines and layers where the mistake would act.  A coefficient near 1 is the
mistake, near 0 its absence; the noise of the coefficient is estimated from the rounding of the oracle itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.mistakes import MISTAKES, Mistake

Array = NDArray[Any]

#: Standard deviations of its noise by which a coefficient must be away from 0 to be a finding.
CERTAIN = 6.0
#: A coefficient this near to 1 is the mistake, this near to 0 its absence.
NEAR = 0.3


@dataclass
class _Sum:
    on_residual: float = 0.0
    on_noise: float = 0.0
    length: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True)
class Suspicion:
    """A mistake, how much of it the difference holds (1 = all of it), and the standard deviation of that number."""

    mistake: Mistake
    coefficient: float
    deviation: float

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
        self._sums: dict[str, _Sum] = {}

    def add(self, path: str, mistake: Mistake, ours: Array, changed: Array, theirs: Array) -> None:
        """At `path`: our value, what it would be with the mistake, and what was seen."""
        predicted = changed - ours
        length = float((predicted * predicted).sum())
        if path not in self.noise or not length or not math.isfinite(length):
            return
        noise, total = self.noise[path], self._sums.setdefault(mistake.key, _Sum())
        total.on_residual += float(((theirs - ours) * predicted).sum())
        total.on_noise += float((noise * predicted).sum())
        total.length += length
        total.variance += float((noise * noise * predicted * predicted).sum())

    def suspicions(self) -> list[Suspicion]:
        """Every mistake that would act somewhere, the surest first."""
        named = {mistake.key: mistake for mistake in MISTAKES}
        found = []
        for key, s in self._sums.items():
            deviation = math.hypot(math.sqrt(s.variance), s.on_noise) / s.length
            found.append(Suspicion(named[key], s.on_residual / s.length, deviation))
        return sorted(found, key=lambda f: abs(f.coefficient - 1))


def independent(found: Iterable[Suspicion]) -> list[Suspicion]:
    """Of mistakes that were found by projection, one for each line: the one whose coefficient is nearest to 1."""
    best: dict[str, Suspicion] = {}
    for suspicion in found:
        if suspicion.found:
            best.setdefault(suspicion.mistake.line, suspicion)
    return list(best.values())


def finite(value: Any) -> TypeGuard[Array]:
    """Whether a value is an array of finite numbers."""
    return isinstance(value, np.ndarray) and bool(np.isfinite(value).all())

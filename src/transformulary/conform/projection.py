"""Faults that hide in the rounding of a low precision.

Where every number of a line agrees within what its precision allows, a small fault may still be there: GELU's
exact form in bfloat16, say.  Each known mistake predicts a whole pattern of changes; the difference that is left
is projected on it, over all lines where the mistake would act, in all layers and in each.  A coefficient near 1 is the
mistake, near 0 its absence; the noise of the coefficient is estimated from the rounding of the oracle itself.

After lines that were not seen, all their mistakes change one value, and many of them alike: what explains most is
taken, with all that it changes, from the difference; then what is left is projected again.

What no mistake explains is found where all numbers of a value together differ by several times what rounding makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.mistakes import Mistake
from transformulary.conform.search import TIMES, Compute, Place, tried
from transformulary.oracle.path import parse

Array = NDArray[Any]

#: Standard deviations of its noise by which a coefficient must be away from 0 to be a finding.
CERTAIN = 6.0
#: A coefficient this near to 1 is the mistake, this near to 0 its absence.
NEAR = 0.3
#: A coefficient with SIDES deviations on either side must be nearer to 1 than to 0 or to 2, and no farther from 1 than
#: WITHIN deviations and, since changes are not quite proportional, BENT: else something that resembles the mistake,
#: such as the same mistake with another number, explains as much.
SIDES, HALF = 2.0, 0.5
WITHIN, BENT = 4.0, 0.1
#: All numbers of a value together differ by hardly more than rounding makes, if they are of so many tokens.
TOKENS = 8
#: Runs of other parameters that show how rounding goes together in what lines give that were not seen.
ROUNDED = 8
#: Where a mistake is that is in no layer: in the final norm, or in a line that is in none.
OUTSIDE = -1


@dataclass
class _Sum:
    """Of one mistake over some values, each weighted by how little rounding there is."""

    on_residual: float = 0.0
    on_noise: float = 0.0
    length: float = 0.0
    variance: float = 0.0
    residual: float = 0.0
    numbers: int = 0

    def __add__(self, other: _Sum) -> _Sum:
        return _Sum(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def coefficient(self) -> float:
        return self.on_residual / self.length

    @property
    def deviation(self) -> float:
        """Of the coefficient: what the oracle's rounding makes, or as much more as more is left of the difference."""
        left = (self.residual - self.coefficient * self.on_residual) / self.numbers
        return math.hypot(math.sqrt(self.variance), self.on_noise) / self.length * math.sqrt(max(left, 1.0))


def _sum(change: Array, residual: Array, noise: Array, more: Sequence[Array] = ()) -> _Sum:
    """Of one value.

    The variance is the largest that three assumptions give: rounding is alike in all numbers; it is independent in
    each, of the size that it has there; or it goes together within a token, by a pattern that any token may have.
    more: what rounding did to others like ours; it is the mean square of what they hold of the change, if that is more.
    """
    change, residual, noise = (np.reshape(value, (len(value), -1)) for value in (change, residual, noise))
    held = [float((np.reshape(other, change.shape) * change).sum()) for other in more]
    squares, of_token = noise * noise, np.sqrt((noise * noise).mean(0))
    weight = 1 / float(squares.mean())
    together = ((noise / np.where(of_token, of_token, 1.0)).T @ change) * of_token
    length = weight * float((change * change).sum())
    apart = weight * weight * float((squares * change * change).sum())
    return _Sum(
        weight * float((residual * change).sum()),
        weight * float((noise * change).sum()),
        length,
        max(
            length,
            apart,
            weight * weight * float((together * together).mean(0).sum()),
            weight * weight * float(np.mean(np.square(held))) if held else 0.0,
        ),
        weight * float((residual * residual).sum()),
        residual.size,
    )


@dataclass(frozen=True)
class Suspicion:
    """A mistake, and how much of it the difference holds.

    layer        where: 0 in all layers, LAYERS in nothing else, OUTSIDE of them
    coefficient  1 = all of it, 0 = none
    deviation    the standard deviation of the coefficient, from the rounding of the oracle
    gain         what the mistake explains of the difference, in squares of the rounding
    """

    mistake: Mistake
    layer: int
    coefficient: float
    deviation: float
    gain: float

    def covers(self, where: int) -> bool:
        """Whether it acts in a layer."""
        return not self.mistake.layered or self.layer in (0, where)

    def as_much(self, other: Suspicion) -> bool:
        """Whether another one explains as much."""
        return self.gain - other.gain < CERTAIN**2

    def without(self, held: float) -> Suspicion:
        """The same of what is left of the difference without a change that holds so much of what this one predicts."""
        length = self.gain / (2 * self.coefficient - 1)
        return replace(self, coefficient=self.coefficient - held / length, gain=self.gain - 2 * held)

    @property
    def found(self) -> bool:
        """The mistake is there, with confidence."""
        off = abs(self.coefficient - 1)
        one = off < min(NEAR, HALF - SIDES * self.deviation, BENT + WITHIN * self.deviation)
        return one and self.coefficient > CERTAIN * self.deviation

    @property
    def excluded(self) -> bool:
        """It is not there, with confidence; neither found nor excluded is: it cannot be seen at this precision."""
        return abs(self.coefficient) < NEAR and self.deviation < NEAR / 2


class Projection:
    """Sums over the values of a run; noise: path -> what rounding did there to the oracle's own value."""

    def __init__(self, noise: Mapping[str, Array]) -> None:
        self.noise = noise
        #: Mistakes that would have taken too long to try.
        self.untried: list[str] = []
        self._found: list[tuple[Suspicion, list[Suspicion]]] = []
        self._sums: dict[Mistake, dict[int, _Sum]] = {}
        self._left: dict[str, tuple[float, set[Mistake]]] = {}
        #: Of each line: its layer, mistakes, and the products of what every two of them change.
        self._products: list[tuple[int, list[Mistake], Array]] = []

    def add(self, path: str, changes: Mapping[Place, Array], residual: Array, noise: Array) -> None:
        """One line: what every mistake would change, what differs, what rounding did."""
        self._leave(path, changes, residual, noise)
        layer = parse(path).layer
        flat = np.array([np.ravel(change) for change in changes.values()])
        weight = np.float64(1 / (noise * noise).mean())  # of any size, where changes are in float32
        self._products.append((layer or OUTSIDE, [mistake for mistake, _ in changes], weight * (flat @ flat.T)))
        for (mistake, _), change in changes.items():
            for where in {0, layer or OUTSIDE} if mistake.layered else {OUTSIDE}:
                self._add(mistake, where, _sum(change, residual, noise))

    def pursue(
        self,
        layers: Collection[int],
        path: str,
        changes: Mapping[Place, Array],
        residual: Array,
        noise: Array,
        others: Sequence[Array] = (),
        again: Callable[[], Sequence[Array]] = tuple,
    ) -> None:
        """Several lines at once, in these layers (0: outside): the same, of mistakes in all of them (0) and in some.

        others  what differs beside other explanations of the same: what is found is there beside each of them
        again   what rounding did to others like ours: one run alone may not show how it goes together
        """
        whole = 0 if len(layers) > 1 else max(layers) or OUTSIDE
        left = {(m, (layer or whole) if m.layered else OUTSIDE): change for (m, layer), change in changes.items()}
        self._leave(path, changes, residual, noise)
        of = _Left([residual, *others], noise)
        if of.found(left):
            of.more = again()
        while found := of.found(left):
            best = found[0]
            of.take(left.pop((best.mistake, best.layer)))
            still = {(s.mistake, s.layer) for s in of.found(left)}
            alike = [s for s in found[1:] if (s.mistake, s.layer) not in still and best.as_much(s)]
            self._found.append((best, alike))
        for (mistake, where), change in left.items():
            self._add(mistake, where, of.least(mistake, where, change))

    def _add(self, mistake: Mistake, where: int, new: _Sum) -> None:
        sums = self._sums.setdefault(mistake, {})
        sums[where] = sums.get(where, _Sum()) + new

    def _leave(self, path: str, changes: Mapping[Place, Array], residual: Array, noise: Array) -> None:
        if residual.ndim == 2 and residual.shape[1] >= TOKENS:
            times = float(np.sqrt((residual * residual).mean() / (noise * noise).mean()))
            self._left[path] = times, {mistake for mistake, _ in changes}

    def unexplained(self, known: Collection[Mistake]) -> dict[str, float]:
        """Path -> by how many times as much as rounding makes its numbers differ, where no mistake was found."""
        there = {s.mistake for s, _ in self.hidden()}.union(known)
        return {path: n for path, (n, acting) in self._left.items() if n > TIMES and acting.isdisjoint(there)}

    def hidden(self) -> list[tuple[Suspicion, list[Suspicion]]]:
        """Mistakes that were found, each with others that explain as much."""
        found, chosen = sorted((s for s in self.suspicions() if s.found), key=_rank), [*self._found]
        while found:
            best = found.pop(0)
            left = [s.without(self._held(best, s)) for s in found]
            alike = [s for s, still in zip(found, left, strict=True) if not still.found and best.as_much(s)]
            chosen.append((best, alike))
            found = sorted((s for s in left if s.found), key=_rank)
        return chosen

    def _held(self, one: Suspicion, other: Suspicion) -> float:
        """What the change of one mistake holds of that of another, where both were added."""
        return sum(
            float(products[names.index(one.mistake), names.index(other.mistake)])
            for where, names, products in self._products
            if all(s.mistake in names and s.covers(where) for s in (one, other))
        )

    def suspicions(self) -> list[Suspicion]:
        """Every other mistake that would act somewhere: everywhere, if no layer is surely without it; else by layer."""
        found = {s.mistake for s, _ in self._found}
        return [s for mistake, sums in self._sums.items() if mistake not in found for s in _places(mistake, sums)]


@dataclass
class _Left:
    """What differs in one value beside each of several explanations; noise, more: as in `_sum`."""

    residuals: list[Array]
    noise: Array
    more: Sequence[Array] = ()

    def take(self, change: Array) -> None:
        """Go on without what a mistake explains."""
        self.residuals = [residual - change for residual in self.residuals]

    def least(self, mistake: Mistake, where: int, change: Array) -> _Sum:
        """Of a mistake, beside an explanation with which it is not found; if there is none, beside the first."""
        sums = [_sum(change, residual, self.noise, self.more) for residual in self.residuals]
        return next((s for s in sums if not _suspicion(mistake, where, s).found), sums[0])

    def found(self, changes: Mapping[Place, Array]) -> list[Suspicion]:
        """What is found beside every explanation, first what explains most."""
        all_of_it = (_suspicion(m, where, self.least(m, where, change)) for (m, where), change in changes.items())
        return sorted((s for s in all_of_it if s.found), key=_rank)


def _places(mistake: Mistake, sums: Mapping[int, _Sum]) -> list[Suspicion]:
    by = {where: _suspicion(mistake, where, s) for where, s in sums.items()}
    whole = by.pop(0, None)
    return (
        [whole] if whole and (not by or (whole.found and not any(s.excluded for s in by.values()))) else [*by.values()]
    )


def _suspicion(mistake: Mistake, where: int, s: _Sum) -> Suspicion:
    return Suspicion(mistake, where, s.coefficient, s.deviation, 2 * s.on_residual - s.length)


def roundings(
    low: Callable[..., Compute] | None,
    path: str,
    seen: Mapping[str, Array],
    on: Mapping[Mistake, int],
    scaled: Callable[[Array], Array],
) -> list[Array]:
    """What rounding does at a path to other parameters that are a few roundings away; `low`: `Allowance.low`."""
    found = []
    for n in range(1, ROUNDED + 1 if low else 1):
        assert low
        rounded, exact = (tried(low(path, seen, n, exactly), on) for exactly in (False, True))
        if finite(rounded) and finite(exact) and finite(noise := scaled(rounded) - scaled(exact)):
            found.append(noise)
    return found


def _rank(s: Suspicion) -> float:
    """Sorts: first what explains most."""
    return -s.gain


def finite(value: Any) -> TypeGuard[Array]:
    """Whether a value is an array of finite numbers."""
    return isinstance(value, np.ndarray) and bool(np.isfinite(value).all())

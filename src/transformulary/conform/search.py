"""Which known mistakes explain a value: one in every layer, one in a single layer, or two.

Two mistakes are looked for where their changes, each tried alone, add up best to the difference that is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.allowance import EXACT, FACTOR
from transformulary.conform.compared import log_probabilities
from transformulary.conform.fit import fit, nearest_whole, shorter
from transformulary.conform.mistakes import Mistake
from transformulary.errors import AlgorithmError

Array = NDArray[np.float64]
#: A value with some mistakes: mistake -> the layer in which it is, 0 = everywhere, LAYERS = in layers only.
Compute = Callable[[Mapping[Mistake, int]], Array]
#: A mistake with its layer.
Place = tuple[Mistake, int]
Mistakes = tuple[Place, ...]
#: A mistake with any number, and its layer.
Family = tuple[Callable[[float], Mistake], int]

#: Explanations that leave at most this multiple of what the best one leaves are as good: of the largest error, and of
#: what all numbers together leave.
ALIKE, ALIKE_TOGETHER = 3.0, 2.0
#: In low precision all numbers together may leave so many times what the oracle's rounding makes of them.
TIMES = 4.0
#: What changes less than this part of the difference, and no more than rounding, is no explanation; one leaves at most
#: half of the difference.
LEAST, HALF = 0.25, 0.5
#: A shorter number may leave this multiple of what the fitted one leaves, or some roundings.
ENOUGH, ROUNDINGS = 1.25, 2.0**-46
#: Where many lines were not seen, mistakes are sought with the first tokens: so few, if they show the difference.
FEW = (6, 12, 24, 48)
#: Two mistakes are tried on so many first tokens before they are on all.
EARLY = 3
#: Numbers of a value by which pairs are chosen, and pairs that are tried.
NUMBERS, PAIRS = 4096, 60
#: Only below such an error does a number that is sought beside another mistake not explain things by chance.
FINE = 1e-3


@dataclass(frozen=True)
class Explanation:
    """Mistakes that explain a value.

    mistakes   with the layer of each, 0 = every layer; none where all that differs is what is no number
    remaining  the error that is left with them
    alike      other explanations that leave about as little
    """

    mistakes: Mistakes
    remaining: float
    alike: tuple[Mistakes, ...] = ()


@dataclass(frozen=True)
class Tried:
    """Mistakes, the error that is left with them, and in low precision the same of all numbers together, in roundings.

    The largest error in a few hundred numbers varies by chance; what all together differ by hardly does.
    """

    mistakes: Mistakes
    error: float
    together: float

    @property
    def rank(self) -> float:
        return self.together or self.error


@dataclass
class Search:
    """`Search(...).explanation()`, or None.

    compute  the value with some mistakes
    error    of one value against another
    ours     the value without a mistake
    theirs   what was seen
    bound    the error that counts as explained, where it is at most half of the difference
    levels   mistakes that may be there; where some are exact, the levels after theirs are not tried
    logs     whether these are probabilities, whose logarithms add up
    noise    what rounding did to ours; None where there is hardly any
    firsts   of the mistakes that do best alone, so many have every other one tried beside them; None: all
    fitted   of the mistakes with a number, so many are sought with any number beside another mistake
    early    the value of the first EARLY tokens with some mistakes, if that is cheaper
    instead  another explanation, which is asked for before two mistakes are
    two      whether two mistakes are sought
    refuted  whether other values say that a mistake is not there
    """

    compute: Compute
    error: Callable[[Array, Array], float]
    ours: Array
    theirs: Array
    bound: float
    levels: Iterable[Iterable[Mistakes]]
    logs: bool = False
    noise: Array | None = None
    firsts: int | None = 4
    fitted: int = 0
    early: Compute | None = None
    instead: Callable[[], Explanation | None] = lambda: None
    two: bool = True
    refuted: Callable[[Mapping[Mistake, int]], bool] = lambda _: False
    _beginnings: dict[Place, Array] = field(default_factory=dict)
    _causal: dict[Place, bool] = field(default_factory=dict)
    _known: set[Any] = field(default_factory=set)
    _not_there: dict[Place, bool] = field(default_factory=dict)
    _tried: list[Tried] = field(default_factory=list)

    def explanation(self) -> Explanation | None:
        """The explanation that leaves least, if that is below the bound.

        What is no number agrees with nothing else, so that it says little: numbers have to be explained as well.
        """
        numbers = np.where(np.isnan(self.theirs), self.ours, self.theirs)
        if self.error(self.ours, numbers) <= self.bound:
            return self._of_no_number()
        singles: list[tuple[Place, Array]] = []
        for level in self.levels:
            new = ((some, value) for some in level if (value := self._try(some)) is not None)
            singles += [(some[0], self._kept(some[0], value)) for some, value in new if len(some) == 1]
            if self._exact:
                break
        found = self._best()
        if found is None or (found.remaining > EXACT and any(mistake.having for mistake, _ in found.mistakes)):
            found = self._numbered(singles)
        found = found or self.instead() or (self._pair(singles) if self.two else None)
        return found or (self._numbered_pair(singles) if self.fitted and self.bound < FINE else None)

    def _of_no_number(self) -> Explanation | None:
        """No explanation, but all mistakes with which the same is no number."""
        for some in chain.from_iterable(self.levels):
            self._try(some)
        alike = tuple(t.mistakes for t in self._tried if t.error <= self.bound)
        return Explanation((), np.nan, alike) if alike else None

    @cached_property
    def _gap(self) -> float:
        return self.error(self.ours, self.theirs)

    @property
    def _exact(self) -> bool:
        return any(t.error <= EXACT for t in self._tried)

    def _try(self, mistakes: Mistakes) -> Array | None:
        """The value with these mistakes; None where they change but rounding, make no sense, or are not there.

        So it is where they are called otherwise, as one line's alone, and are known to give it.
        """
        value = tried(self.compute, dict(mistakes))
        least = EXACT if self._rounding else min(self.bound, LEAST * self._gap)  # beside another it may be one
        if value is None or self.error(self.ours, value) <= least:
            return None
        what = tuple((mistake.says, layer) for mistake, layer in mistakes), hash(value.tobytes())
        if what in self._known or any(map(self._refuted, mistakes)):
            return None
        self._known.add(what)
        self._tried.append(Tried(mistakes, self.error(value, self.theirs), self._together(value)))
        return value

    def _refuted(self, place: Place) -> bool:
        if place not in self._not_there:
            self._not_there[place] = self.refuted(dict([place]))
        return self._not_there[place]

    @cached_property
    def _rounding(self) -> float:
        """What rounding does to all numbers of ours together, more where the bound takes it to be more; 0: nothing."""
        if self.noise is None:
            return 0.0
        rounded = self.ours + self.noise[..., : self.ours.shape[-1]]
        usual = self.bound / FACTOR / (self.error(self.ours, rounded) or np.inf)
        return max(usual, 1.0) * _size(self._scaled(rounded) - self._scaled(self.ours))

    def _together(self, value: Array) -> float:
        """What all numbers of a value differ by from theirs, in roundings; 0 where nothing was rounded."""
        if not self._rounding or np.shape(value) != np.shape(self.theirs):
            return 0.0
        value, theirs, ours = map(self._scaled, (value, self.theirs, self.ours))
        larger = max(_size(value) / (_size(ours) or np.inf), 1.0)  # and rounded by more
        with np.errstate(invalid="ignore"):  # minus infinity, less itself
            return _size(value - theirs) / (self._rounding * larger)

    def _kept(self, place: Place, value: Array) -> Array:
        """What is remembered of a value with one mistake: what it changes, and how it begins."""
        if self.early:
            self._beginnings[place] = self._beginning(value)
        return self._change(value)

    def _beginning(self, value: Array) -> Array:
        return np.array(value[:: -(-len(value) // NUMBERS), :EARLY])

    def _hopeless(self, pair: Mistakes) -> bool:
        """Whether two mistakes do not explain the first tokens, which later ones change with neither of them."""
        if not self.early or not all(self._early_alike(place) for place in pair):
            return False
        value = tried(self.early, dict(pair))
        if value is None:
            return False
        theirs = self.theirs[:, :EARLY]
        with np.errstate(invalid="ignore"):
            gap, size = np.abs(value - theirs), np.abs(self.theirs)
        return bool(gap[np.isfinite(gap)].max(initial=0) > 2 * self.bound * size[np.isfinite(size)].max(initial=0))

    def _early_alike(self, place: Place) -> bool:
        """Whether with this mistake the first tokens do not depend on later ones."""
        if place not in self._causal:
            assert self.early
            value, due = tried(self.early, dict([place])), self._beginnings[place]
            self._causal[place] = value is not None and self.error(due, self._beginning(value)) <= EXACT
        return self._causal[place]

    def _best(self) -> Explanation | None:
        """Of what was tried."""
        enough = min(self.bound, HALF * self._gap)
        good = sorted((t for t in self._tried if t.error <= enough and t.together <= TIMES), key=lambda t: t.rank)
        if not good:
            return None
        best, *rest = good
        most = ALIKE_TOGETHER * best.together or ALIKE * max(best.error, 2.0**-50)
        size = len(best.mistakes)
        alike = tuple(t.mistakes for t in rest if t.rank <= most and len(t.mistakes) == size)
        return Explanation(best.mistakes, best.error, alike)

    def _numbered(self, singles: Sequence[tuple[Place, Array]]) -> Explanation | None:
        """The best explanation with numbers that the table does not have, sought from those that it has."""
        known: dict[Family, list[tuple[float, Array]]] = {}
        for (mistake, layer), change in singles:
            if mistake.having:
                known.setdefault((mistake.having, layer), []).append((mistake.number, change))
        for family, some in known.items():
            self._fitted(family, some)
        return self._best()

    def _numbered_pair(self, singles: Sequence[tuple[Place, Array]]) -> Explanation | None:
        """The best explanation by a mistake and one with any number.

        Tried are those whose changes, the numbered one's times any factor, add up best, and those that leave least with
        the numbers that the table has.
        """
        numbered = [(place, change) for place, change in singles if place[0].having and change.any()]
        others = [(place, change) for place, change in singles if not place[0].having]
        missing, left = self._change(self.theirs), dict[tuple[Place, Place], float]()
        for other, change in others:
            w = missing - change
            left |= {(one, other): float(w @ w - (w @ v) ** 2 / (v @ v)) for one, v in numbered}
        pairs = [(one, other) for t in sorted(self._tried, key=lambda t: t.rank) if len(t.mistakes) == 2
                 for one, other in (t.mistakes, t.mistakes[::-1]) if (one, other) in left]  # fmt: skip
        known: dict[tuple[Family, Place], set[float]] = {}
        for one, other in [*sorted(left, key=lambda pair: left[pair])[: self.fitted], *pairs[: self.fitted]]:
            assert one[0].having
            known.setdefault(((one[0].having, one[1]), other), set()).add(one[0].number)
        for (family, other), numbers in known.items():
            some = [(n, self._changed(((family[0](n), family[1]), other))) for n in sorted(numbers)]
            self._fitted(family, some, (other,))
        return self._best()

    def _fitted(self, family: Family, known: Sequence[tuple[float, Array]], beside: Mistakes = ()) -> None:
        """Try the number of a family that explains most, beside other mistakes; known: some numbers, what they change.

        Of the numbers that leave no more than it does, one of the known ones, or the one with the fewest digits.
        """
        without = self._changed(beside) if beside else np.zeros(1)

        def mistakes(number: float) -> Mistakes:
            return ((family[0](number), family[1]), *beside)

        wanted, tokens = self._change(self.theirs) - without, self.ours.shape[-1]
        parts = [len(wanted) * few // tokens for few in (*FEW, tokens) if few <= tokens]
        changes = [(number, change - without) for number, change in known]

        def change(number: float) -> Array:
            return self._changed(mistakes(number)) - without

        counts = family[0](1).whole
        number = nearest_whole(change, wanted, tokens) if counts else fit(change, wanted, changes, parts)
        if number is None:
            return
        value = tried(self.compute, dict(mistakes(number)))
        most = max(ENOUGH * self.error(value, self.theirs) if value is not None else 0.0, ROUNDINGS)
        for short in (*(n for n, _ in known), *shorter(number)):
            if not any(mistakes(short) == before.mistakes for before in self._tried):
                self._try(mistakes(short))
            if next((t.error for t in self._tried if t.mistakes == mistakes(short)), np.inf) <= most:
                return

    def _changed(self, mistakes: Mistakes) -> Array:
        value = tried(self.compute, dict(mistakes))
        return self._change(self.ours if value is None else value)

    def _pair(self, singles: Sequence[tuple[Place, Array]]) -> Explanation | None:
        if len(singles) < 2:
            return None
        places, changes = [place for place, _ in singles], np.array([change for _, change in singles])
        for level in self._pairs(places, changes):
            for pair in level:
                if not self._hopeless(pair):
                    self._try(pair)
            if self._exact:
                break
        if found := self._best():
            for pair in _twins(found.mistakes, places, changes):
                self._try(pair)
        return self._best()

    def _pairs(self, places: Sequence[Place], changes: Array) -> Iterator[list[Mistakes]]:
        """Pairs to try: those whose changes add up best, then every second one beside those that do best alone."""
        missing = self._change(self.theirs)
        alone = changes @ missing * -2 + (changes * changes).sum(1)  # the square that is left, less a constant
        together = alone[:, None] + alone + 2 * changes @ changes.T
        order = np.argsort(together, axis=None, kind="stable")
        pairs = ((i, j) for i, j in zip(*np.unravel_index(order, together.shape), strict=True) if i < j)
        two = ((i, j) for i, j in pairs if places[i][0] is not places[j][0])
        yield [(places[i], places[j]) for i, j in sorted(islice(two, PAIRS))]  # with one in common, one after the other
        best = list(np.argsort(alone, kind="stable"))
        for rank, i in enumerate(best[: self.firsts], 1):
            yield [(places[i], places[j]) for j in best[rank:] if places[j][0] is not places[i][0]]

    def _change(self, value: Array) -> Array:
        """What a value differs by from ours, as some of its numbers, token by token; 0 where that is no number."""
        change: Array = np.zeros_like(self.ours)
        if np.shape(value) == np.shape(self.ours):
            with np.errstate(invalid="ignore"):  # minus infinity, less itself
                change = self._scaled(value) - self._scaled(self.ours)
        change = np.where(np.isfinite(change), change, 0.0).T.ravel()
        return change[:: -(-change.size // NUMBERS)]

    def _scaled(self, value: Array) -> Array:
        return log_probabilities(value) if self.logs else value


def _size(numbers: Array) -> float:
    """Of an array: the root of the mean square of those that are numbers."""
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    return float(np.sqrt((finite * finite).mean()))


def _twins(pair: Mistakes, places: Sequence[Place], changes: Array) -> Iterator[Mistakes]:
    """The pair with one of its mistakes exchanged for another one that alone changes the same."""
    for one, other in (pair, pair[::-1]):
        same = np.abs(changes - changes[places.index(one)]).max(1) <= EXACT
        yield from ((place, other) for place, alike in zip(places, same, strict=True) if alike and place != one)


def tried(compute: Compute, on: Mapping[Mistake, int]) -> Array | None:
    """The value with some mistakes; None where they say that they make no sense for this model, or not together."""
    try:
        with np.errstate(all="ignore"):
            return compute(on)
    except AlgorithmError:
        return None

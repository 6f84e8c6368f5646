"""Why a line differs: known mistakes tried on the oracle, else a description of the difference.

The oracle runs in lockstep with the values that were seen.  At each value that differs, every known mistake
is tried: is this value what the oracle computes with that one line changed?  Lines that were not seen
narrow what can be said: then a mistake is tried on everything since the last value that was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.allowance import EXACT
from transformulary.conform.compared import Comparison, error_of, is_line, log_probabilities, matrix
from transformulary.conform.description import Base, Heads, describe
from transformulary.conform.finding import Finding
from transformulary.conform.mistakes import KEPT, NAMES, Mistake, acts_at
from transformulary.conform.projection import Projection, finite, roundings
from transformulary.conform.replay import OFF, Replay, first_members, is_part
from transformulary.conform.search import ALIKE, EARLY, FEW, Compute, Explanation, Mistakes, Place, Search, tried
from transformulary.conform.suspects import Suspects
from transformulary.oracle.lines import Line, line_at
from transformulary.oracle.path import Path, parse
from transformulary.oracle.theta import Theta
from transformulary.oracle.watch import LAYERS, Watch
from transformulary.oracle.whole import Model, number_of
from transformulary.paper import Config, Read
from transformulary.paper.counting import number_of_parameters

Array = NDArray[Any]

#: Products of a parameter and a number, at most, for mistakes that hide in rounding behind lines that were not seen.
WORK = 3e10
#: Mistakes with any number that are tried beside another one, in a line that can be computed by itself.
FITTED = 8
UNTRIED = "not tried, which would take too long; float64 (model.double()) shows it"


class Lockstep:
    """One run of a model beside the values that were seen; `findings` are those that differ.

    seen     path -> their value, tokens as columns
    allowed  path -> the error that counts as agreement
    noise    path -> what rounding did there to the oracle; then faults are looked for that hide in rounding
    low      path, what is seen before it -> the value there in the candidate's precision, with some mistakes; `shaken`
             and `exactly` as in `Allowance.low`
    order    suspect another order of the lines: only that, alone or with others in every layer, is looked for
    own      every value was computed from the oracle's own: go on with ours, and a fault is in its own line
    differs  is called at the first value that differs, before what explains it is looked for
    """

    def __init__(
        self,
        seen: Mapping[str, Array],
        config: Config,
        x: Read | Sequence[int],
        theta: Theta,
        allowed: Callable[[str], float],
        own: bool = False,
        noise: Mapping[str, Array] | None = None,
        low: Callable[..., Compute] | None = None,
        order: bool = False,
        differs: Callable[[], None] = lambda: None,
    ) -> None:
        self.seen, self.given, self.allowed = seen, Read.of(x), allowed
        self.model = Model(config, theta)
        self.suspects = Suspects(self.model)
        self.known = self.suspects.known
        self.own, self.order, self._differs, self._low = own, order, differs, low
        self.projection = Projection(noise) if noise else None
        self.findings: list[Finding] = []
        self.errors: dict[str, float] = {}
        self.misshapen: set[str] = set()  # paths of values that have another shape than ours
        self.adopted: dict[Mistake, int] = {}
        self._alike: dict[Mistakes, tuple[Mistakes, ...]] = {}  # what was adopted -> what explained as much
        self._comparison = Comparison(seen)
        within = any("/" in path for path in seen)
        self._unexplained: set[str] = set()  # lines for which two mistakes were sought, and none found
        self._ours: dict[str, Array] = {}  # line -> our value, where all are made of ours
        self._watch = Watch(self._compare, NAMES, inside=None if within else first_members, keep=KEPT)
        self.model.run(self._watch.algorithms, self.given)

    def _compare(self, path: str, ours: Any) -> Any:
        self.suspects.computed(path)
        if path in self.seen:
            self._judge(path, ours)
        elif not self.own:
            self._comparison.missed(path)
        if self.own:
            self._comparison.own(path, ours)
            if is_line(path) and "t=" not in path:
                self._ours[path] = matrix(ours)
            return ours
        if path not in self.seen:
            return ours
        return list(self.seen[path].T) if isinstance(ours, list) else self.seen[path]

    def _judge(self, path: str, ours: Any) -> None:
        theirs = self.seen[path]
        error = self._comparison.error(path, matrix(ours), theirs)
        self.errors[path] = error
        if np.shape(matrix(ours)) != np.shape(theirs):
            self.misshapen.add(path)
        known: Mapping[Mistake, int] | None = {}
        if error > self.allowed(path):
            if not self.findings:
                self._differs()
            self.findings.append(self._explain(path, matrix(ours), theirs, error, ":" in path))
            known = dict(self.findings[-1].mistakes) or None
            if known and not self._comparison.gap(path) and not all(acts_at(m, line_at(path)) for m in known):
                known = None  # what this line reads is another value than the one that was seen
        if self.projection and known is not None and path in self.projection.noise:
            self._project(self.projection, path, matrix(ours), theirs, known)
        self._comparison.passed(path)

    def _project(
        self, projection: Projection, path: str, ours: Array, theirs: Array, known: Mapping[Mistake, int]
    ) -> None:
        """Beside what is known to be wrong, look for mistakes that hide in rounding, also in lines not seen before."""
        rounded = ours + projection.noise.get(path, 0)
        if np.shape(theirs) != np.shape(ours) or np.array_equal(rounded, ours):
            return
        if not (finite(theirs) and finite(rounded)):  # the precision has no number so large: nothing can be told
            return
        logs = self._probable(path) and min(v.min() for v in (ours, theirs, rounded)) > 0
        scaled: Callable[[Array], Array] = log_probabilities if logs else np.asarray
        compute: Compute = self._again
        places = [(m, 0) for m in self.known.mistakes if acts_at(m, line_at(path))]
        gap = self._comparison.gap(path)
        if gap or ":" in path:
            places = self._hidden(projection, [parse(path), *gap])
            seen = {p: value for p, value in self.seen.items() if p in projection.noise}
            compute = self._replay(path, seen=seen)
        elif self.own and (lines := self._gathered(path)):
            compute, acting = self._together(path, lines)
            places = [(m, 0) for m in acting]
        if not finite(right := tried(compute, known)):
            return
        exact = ours
        if gap and known and self._low and finite(low := tried(self._low(path, seen), known)):
            exact, rounded = right, low  # what is wrong is rounded otherwise
        changes = {}
        for place in (place for place in places if place[0] not in known):
            value = tried(compute, {**known, **dict([place])})
            if finite(value) and np.shape(value) == np.shape(ours) and error_of(right, value) > EXACT:
                changes[place] = (scaled(value) - scaled(right)).astype(np.float32)
        of = (path, changes, scaled(theirs) - scaled(right), scaled(rounded) - scaled(exact))
        if gap:
            others = [scaled(theirs) - scaled(other) for other in self._otherwise(path, compute, known, right)]
            again = partial(roundings, self._low, path, seen, known, scaled)
            projection.pursue(_layers_of([parse(path), *gap]), *of, others, again)
        else:
            projection.add(*of)

    def _otherwise(self, path: str, compute: Compute, known: Mapping[Mistake, int], right: Array) -> Iterator[Array]:
        """The value with each of the other explanations of what is known to be wrong there."""
        alike = [f.alike for f in self.findings if f.path == path and f.mistakes == tuple(known.items())]
        for mistakes in chain.from_iterable(alike):
            value = tried(compute, dict(mistakes))
            if finite(value) and value.shape == right.shape and error_of(right, value) > EXACT:
                yield value

    def _hidden(self, projection: Projection, lines: Sequence[Path]) -> list[Place]:
        """The mistakes of several lines: everywhere, and, as far as it does not take too long, in each layer."""
        where, layers = {line_at(str(line)).name for line in lines}, _layers_of(lines)
        among = [line for line in self.model.lines if line.name in where]
        acting = [m for m in self.known.mistakes if any(acts_at(m, line) for line in among)]
        tokens = len(self.given.x) + len(self.given.z)
        work = len(acting) * number_of_parameters(self.model.config) * tokens * len(layers - {0}) / self.model.layers
        of = ", ".join(line.label for line in among if not line.counts)
        what = f"lines {of} that hides in rounding"
        if work > WORK:
            projection.untried.append(f"any mistake in {what}: {UNTRIED}")
            return []
        if work * len(layers) / 2 > WORK:
            projection.untried.append(f"a mistake in one layer alone in {what}: {UNTRIED}")
            return [(m, 0) for m in acting]
        inner = {LAYERS, *layers} - {0} if 0 in layers else layers
        return [(m, where) for m in acting for where in ({0} | inner if m.layered else {0})]

    def _explain(self, path: str, ours: Array, theirs: Array, error: float, inside: bool) -> Finding:
        gap = _shown_apart([line_at(str(line)) for line in self._comparison.gap(path)])
        if np.shape(ours) != np.shape(theirs):
            found = None  # no mistake changes a shape
        elif self.order:
            found = self._of_another_order(path, ours, theirs)
        elif self.own and (lines := self._gathered(path)):
            found = self._of_several(path, lines, ours, theirs)
        elif inside or (not self.own and (gap or self._entered(path))):
            since, alone = [*self._comparison.gap(path), parse(path)], self.suspects.alone
            every = (some for l in self.suspects.places(path) for some in (self._level(l), alone(l, since)))
            found = self._nonlocal(path, ours, theirs, every)
            if found and not dict(found.mistakes).items() <= self.adopted.items():
                self.adopted |= dict(found.mistakes)
                self._alike[found.mistakes] = found.alike
        else:
            firsts = 12 if len(self.given.x) + len(self.given.z) > FEW[1] else None
            how: dict[str, Any] = {
                "firsts": firsts,
                "fitted": FITTED,
                "instead": lambda: self._read(path, ours, theirs),
                "early": None if self.own else self._early(path),
                "two": line_at(path).name not in self._unexplained,
            }
            found = self._search(path, self._again, ours, theirs, [self._level(0)], **how)
        if found and found.mistakes:
            return Finding(path, error, self.allowed(path), found.mistakes, found.remaining, found.alike, since=gap)
        about = f"no known mistake explains it: {self._about(path, ours, theirs)}"
        if found:
            says = dict.fromkeys(mistake.says for mistakes in found.alike for mistake, _ in mistakes)
            about = f"{self._about(path, ours, theirs)}, as with each of these known mistakes: {'; '.join(says)}"
        if is_line(path) and not gap:
            self._unexplained.add(line_at(path).name)
        return Finding(path, error, self.allowed(path), about=about, since=gap)

    def _read(self, path: str, ours: Array, theirs: Array) -> Explanation | None:
        """Mistakes of the norm before this line, whose place agrees: the line may read another value than is shown."""
        line, lines = line_at(path), list(self.model.lines)
        before = lines[lines.index(line) - 1]
        if self.own or not is_line(path) or not before.norm:
            return None
        shown = before.pattern.replace("[l]", f"[l={parse(path).layer}]")
        rest = {p: value for p, value in self.seen.items() if p != shown}
        replay = self._replay(path, seen=rest)
        of_it = [m for m in (*self.known.mistakes, *self.known.alone) if before.name in (m.within, *m.changes)]
        says = f"{{}}, in what line {line.label} reads (what is shown of line {before.label} agrees)"
        acting = [replace(m, says=says.format(m.says)) for m in of_it if acts_at(m, before) and not m.lines]
        return self._search(path, replay, ours, theirs, [[((m, 0),) for m in acting]], two=False)

    def _gathered(self, path: str) -> list[Line]:
        """The lines before this one that it makes one value of, vectors e: a function computes them with it."""
        before = list(self.model.lines)[: self.model.lines.index(line_at(path))] if is_line(path) else []
        return list(takewhile(lambda line: line.target == "e", reversed(before)))

    def _of_several(self, path: str, lines: Sequence[Line], ours: Array, theirs: Array) -> Explanation | None:
        """A function that computes several lines: their mistakes."""
        replay, acting = self._together(path, lines)
        return self._search(path, replay, ours, theirs, [[((m, 0),) for m in acting]], fitted=FITTED)

    def _together(self, path: str, lines: Sequence[Line]) -> tuple[Replay, list[Mistake]]:
        """Several lines that are computed at once, all others being ours, and their mistakes."""
        names = {line.name for line in lines}
        rest = {p: value for p, value in self._ours.items() if line_at(p).name not in names}
        among = [*lines, line_at(path)]
        acting = [m for m in (*self.known.mistakes, *self.known.alone) if any(acts_at(m, line) for line in among)]
        return self._replay(path, seen=rest), acting

    def _again(self, on: Mapping[Mistake, int]) -> Array:
        """The line that is being computed, with some mistakes."""
        return np.asarray(matrix(self._watch.again(on)))

    def _about(self, path: str, ours: Array, theirs: Array) -> str:
        """What the difference looks like, beside what the line adds something to."""
        line, X, base, heads = line_at(path), self._comparison.base(path), None, None
        theta, l = self.model.theta, parse(path).layer - 1
        if X is not None:
            base = Base(X, line.stream, "what the line adds")
        elif line.norm and is_line(path):
            beta = getattr(theta, line.norm[1])
            column = (beta[l] if line.layers else beta)[:, None]
            base = Base(column + np.zeros_like(ours), "beta", "what beta is added to")
        if X is not None and line.heads:
            W = getattr(theta, line.heads)[l]
            heads = Heads(W.W_o, W.b_o, self.model.config.H)
        return describe(ours, theirs, base, heads, self.allowed(path))

    def _entered(self, path: str) -> bool:
        """Whether values inside this line were seen: it cannot be computed again by itself, from ours."""
        return any(p != path and p.startswith((f"{path}/", f"{path}:")) for p in self.seen)

    def _of_another_order(self, path: str, ours: Array, theirs: Array) -> Explanation | None:
        """Another order of the lines: alone, if that is enough; else with further mistakes in every layer."""

        def tried_with(order: Mistake, *levels: list[Mistakes]) -> Iterator[Explanation]:
            found = self._nonlocal(path, ours, theirs, levels, (order,), two=False)
            if found and not np.isnan(found.remaining):
                one = ((order, 0),)
                yield Explanation(one + found.mistakes, found.remaining, tuple(one + more for more in found.alike))

        alone = [found for order in self.known.order for found in tried_with(order, [()])]
        if alone:
            return min(alone, key=lambda found: found.remaining)
        return next((found for order in self.known.order for found in tried_with(order, self._level(0))), None)

    def _nonlocal(
        self,
        path: str,
        ours: Array,
        theirs: Array,
        levels: Iterable[list[Mistakes]],
        order: tuple[Mistake, ...] = (),
        two: bool = True,
    ) -> Explanation | None:
        """Mistakes since the last value that was seen: what explains the first tokens is tried on all of them."""
        self.adopted = self._still_there(path)
        beside: dict[str, Any] = {"adopted": self.adopted, "order": order}
        replay = partial(self._replay, path, **beside, allowed=self.allowed)
        if self.adopted and not order:
            usual = replay()
            if known := self._adopted(path, usual, theirs):
                return known
            ours = usual({})
        x, levels = self.given.x, list(levels)
        search = partial(self._search, path, two=two, early=self._early(path, **beside))
        for few in (n for n in FEW if self._plain(path) and n < len(x) / 2):
            if self._comparison.error(path, ours[:, :few], theirs[:, :few]) > self.allowed(path):
                first = search(begun := replay(few=few), ours[:, :few], theirs[:, :few], levels, refuted=begun.refuted)
                levels = [[first.mistakes, *first.alike], *levels] if first else levels
                break
        return search(whole := replay(), ours, theirs, levels, refuted=whole.refuted)

    def _plain(self, path: str) -> bool:
        """Whether the first tokens of a value can be computed without the others."""
        return self._causal(path) and not any(is_part(p) for p in (path, *self.seen))

    def _early(self, path: str, **how: Any) -> Compute | None:
        """The value of the first EARLY tokens, if that is cheaper."""
        cheaper = self._plain(path) and len(self.given.x) > 2 * EARLY
        return self._replay(path, EARLY, **how) if cheaper else None

    def _replay(self, path: str, few: int = 0, seen: Mapping[str, Array] | None = None, **how: Any) -> Replay:
        """Runs up to a value that go on with what was seen; few: of the first tokens only."""
        seen, given = self.seen if seen is None else seen, self.given
        if few:
            first = {p: v if line_at(p).side == "z" else v[:, :few] for p, v in seen.items() if np.ndim(v) == 2}
            seen, given = first, given.first(few)
        return Replay(path, seen, given, self.model.theta, self.model.config, **how)

    def _still_there(self, path: str) -> dict[Mistake, int]:
        """What is known to be wrong, without what values contradict that were seen since and agree."""
        if not self.adopted:
            return {}
        refuted = self._replay(path, allowed=self.allowed).refuted
        return {m: where for m, where in self.adopted.items() if not refuted({m: where})}

    def _adopted(self, path: str, replay: Replay, theirs: Array) -> Explanation | None:
        """What is known to be wrong, where that explains this value as well: the mistakes that change it."""
        value = replay({})
        remaining = self._comparison.error(path, value, theirs)
        if remaining > self.allowed(path):
            return None
        acting = [m for m in self.adopted if not np.array_equal(replay({m: OFF}), value)]
        alike = tuple(
            other
            for adopted, others in self._alike.items() if not {m for m, _ in adopted}.isdisjoint(acting)
            for other in others
            if (instead := tried(replay, {m: OFF for m, _ in adopted} | dict(other))) is not None
            and self._comparison.error(path, instead, theirs) <= max(ALIKE * remaining, EXACT)
        )  # fmt: skip
        return Explanation(tuple((mistake, self.adopted[mistake]) for mistake in acting), remaining, alike)

    def _search(
        self, path: str, compute: Compute, ours: Array, theirs: Array, levels: Iterable[list[Mistakes]], **how: Any
    ) -> Explanation | None:
        error, bound = partial(self._comparison.error, path), self.allowed(path)
        logs = self._probable(path) and bool(theirs.min() > 0)
        noise = self.projection.noise.get(path) if self.projection else None
        return Search(compute, error, ours, theirs, bound, levels, logs, noise, **how).explanation()

    def _probable(self, path: str) -> bool:
        """Whether a value is the last one, and of probabilities."""
        return path == self.model.output and self.model.probable

    def _causal(self, path: str) -> bool:
        """Whether the first tokens of a value are what they would be without the others."""
        return line_at(path).side == "x" and number_of(self.model.config) != "9"

    def _level(self, layer: int) -> list[Mistakes]:
        """The mistakes of lines that have been computed there, also with the numbers that were found."""
        numbered = [m for finding in self.findings for m, _ in finding.mistakes if m.having]
        agreeing = {line_at(p).name for p, error in self.errors.items() if is_line(p) and error <= self.allowed(p)}
        return self.suspects.level(layer, numbered, agreeing)


def _layers_of(lines: Sequence[Path]) -> set[int]:
    """The layers of a line and of those before it, 0 for outside: lines before the first layer are of no account."""
    layers = {line.layer for line in lines}
    return layers - {0} if lines[0].layer else layers


def _shown_apart(lines: Sequence[Line]) -> tuple[str, ...]:
    """The labels of lines, without lengths, and without vectors where the matrix of them is among the lines."""
    columns = {line.side for line in lines if line.stream and not (line.adds or line.norm)}
    return tuple(dict.fromkeys(n.label for n in lines if not (n.side in columns and (n.counts or n.members))))

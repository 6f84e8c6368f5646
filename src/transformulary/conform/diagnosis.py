"""Why a line differs: known mistakes tried on the oracle, else a description of the difference.

The oracle runs in lockstep with the values that were seen.  At each value that differs, every known mistake
is tried: is this value what the oracle computes with that one line changed?  Lines that were not seen
narrow what can be said: then a mistake is tried on everything since the last value that was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.compared import Comparison, matrix
from transformulary.conform.description import Base, Heads, describe
from transformulary.conform.mistakes import MISTAKES, NAMES, Mistake
from transformulary.conform.projection import Projection, finite, relevant
from transformulary.errors import AlgorithmError
from transformulary.oracle.path import parse
from transformulary.oracle.source import read
from transformulary.oracle.theta import Theta
from transformulary.oracle.watch import Watch
from transformulary.paper import DTransformerConfig

Array = NDArray[Any]

#: A mistake explains a value if it leaves no more than is allowed there, or than this, many roundings of float64.
SLACK = 1e-11
#: The norms' lines of Algorithm 10: what they add last.
BETA = {"5": "beta_1", "7": "beta_2", "10": "beta"}
#: Mistakes that leave at most this multiple of what the best one leaves explain a value as well.
ALIKE = 3.0


@dataclass(frozen=True)
class Finding:
    """One value that differs.

    path       where: 10.8[l=2]
    error      largest difference relative to the largest number of the oracle's value
    allowed    the error that counts as agreement there
    mistakes   the known mistakes that explain it, with the layer in which each is (0 = every layer); may be empty
    remaining  the error that is left with them
    others     further known mistakes, each of which explains it as well, as far as was seen
    about      what the difference looks like, where no known mistake explains it
    since      lines that could not be seen and may be where the fault is
    """

    path: str
    error: float
    allowed: float
    mistakes: tuple[tuple[Mistake, int], ...] = ()
    remaining: float = float("nan")
    others: tuple[Mistake, ...] = ()
    about: str = ""
    since: tuple[str, ...] = ()


class Stop(Exception):
    """Ends a run of the oracle early, with a value."""

    def __init__(self, value: Any) -> None:
        self.value = value


#: Mistakes with their layers, the error that is left, and further mistakes that explain as much.
Explanation = tuple[tuple[tuple[Mistake, int], ...], float, tuple[Mistake, ...]]


class Lockstep:
    """One run of Algorithm 10 beside the values that were seen; `findings` are those that differ.

    seen     path -> their value, tokens as columns
    allowed  path -> the error that counts as agreement
    noise    path -> what rounding did there to the oracle; then faults are looked for that hide in rounding
    own      every value was computed from the oracle's own: go on with ours, and a fault is in its own line
    """

    def __init__(
        self,
        seen: Mapping[str, Array],
        config: DTransformerConfig,
        x: Sequence[int],
        theta: Theta,
        allowed: Callable[[str], float],
        own: bool = False,
        noise: Mapping[str, Array] | None = None,
    ) -> None:
        self.seen, self.config, self.x, self.theta, self.allowed = seen, config, list(x), theta, allowed
        self.own = own
        self.projection = Projection(noise) if noise else None
        self.findings: list[Finding] = []
        self.errors: dict[str, float] = {}
        self.adopted: dict[str, int] = {}
        self._comparison = Comparison(seen)
        self._run: dict[str, bool] = {}  # "4.6": a line that has been computed -> whether it is in a layer
        self._watch = Watch(self._compare, MISTAKES, NAMES)
        self._watch.algorithms.DTransformer(self.x, theta, config)

    def _compare(self, path: str, ours: Any) -> Any:
        step = parse(path)
        self._run[f"{step.steps[-1].number}.{step.steps[-1].label}"] = any(n == "l" for n, _ in step.steps[0].indices)
        if path in self.seen:
            self._judge(path, ours)
        elif not self.own:
            self._comparison.missed(path)
        if self.own:
            self._comparison.own(path, ours)
            return ours
        if path not in self.seen:
            return ours
        return list(self.seen[path].T) if isinstance(ours, list) else self.seen[path]

    def _judge(self, path: str, ours: Any) -> None:
        theirs = self.seen[path]
        error = self._comparison.error(path, matrix(ours), theirs)
        self.errors[path] = error
        if error > self.allowed(path):
            self.findings.append(self._explain(path, matrix(ours), theirs, error, ":" in path))
        elif self.projection and ":" not in path and "/" not in path:
            self._project(self.projection, path, matrix(ours), theirs)
        self._comparison.passed(path)

    def _project(self, projection: Projection, path: str, ours: Array, theirs: Array) -> None:
        for mistake in relevant(parse(path).steps[0].label):
            changed = _tried(lambda on: matrix(self._watch.again(on)), {mistake.key: 0})
            if finite(changed) and np.shape(changed) == np.shape(ours) == np.shape(theirs):
                projection.add(path, mistake, ours, changed, theirs)

    def _explain(self, path: str, ours: Array, theirs: Array, error: float, inside: bool) -> Finding:
        unseen = self._comparison.unseen
        gap = [n for n in unseen if n not in ("1", "2") or "3" not in unseen]
        local = not inside and not gap
        compute = (lambda on: matrix(self._watch.again(on))) if local else self._rerun(path)
        bound = max(self.allowed(path), SLACK)
        best = self._search(compute, path, ours, theirs, error, bound, layers=() if local else self._layers())
        if best:
            mistakes, remaining, others = best
            if not local:
                self.adopted |= {mistake.key: layer for mistake, layer in mistakes}
            return Finding(path, error, self.allowed(path), mistakes, remaining, others, since=tuple(gap))
        return Finding(path, error, self.allowed(path), about=self._about(path, ours, theirs), since=tuple(gap))

    def _about(self, path: str, ours: Array, theirs: Array) -> str:
        """What the difference looks like, beside what the line adds something to."""
        step, X, base, heads = parse(path), self._comparison.base(path), None, None
        label, l = step.steps[0].label, dict(step.steps[0].indices).get("l", 0) - 1
        if X is not None:
            base = Base(X, "X", "what the line adds")
            W = self.theta.W[l]
            heads = Heads(W.W_o, W.b_o, self.config.H) if label == "6" else None
        elif label in BETA and len(step.steps) == 1 and not step.name:
            beta = getattr(self.theta, BETA[label])
            column = (beta if label == "10" else beta[l])[:, None]
            base = Base(column + np.zeros_like(ours), "beta", "what beta is added to")
        return describe(ours, theirs, base, heads, self.allowed(path))

    def _layers(self) -> range:
        return range(1, self.config.L + 1)

    def _search(
        self,
        compute: Callable[[Mapping[str, int]], Array],
        path: str,
        ours: Array,
        theirs: Array,
        error: float,
        bound: float,
        layers: Iterable[int],
    ) -> Explanation | None:
        """The mistakes that leave an error below the bound: one everywhere, one in one layer, or two."""
        left: list[tuple[float, Mistake, int]] = []
        for layer in (0, *layers):
            for mistake in self._possible(layer):
                value = _tried(compute, {mistake.key: layer})
                if value is None or (np.shape(value) == np.shape(ours) and np.array_equal(value, ours)):
                    continue
                left.append((self._comparison.error(path, value, theirs), mistake, layer))
            left.sort(key=lambda found: found[0])
            if left and left[0][0] <= bound:
                remaining, mistake, layer = left[0]
                alike = ALIKE * max(remaining, 2.0**-50)
                others = tuple(m for e, m, at in left if e <= alike and at == layer and m is not mistake)
                return ((mistake, layer),), remaining, others
        return self._pair(compute, path, theirs, bound, [entry for entry in left[:12] if entry[0] < error])

    def _possible(self, layer: int) -> list[Mistake]:
        """The mistakes of lines that have been computed; for one layer, of lines in layers."""
        return [m for m in MISTAKES if any(n in self._run and (self._run[n] or not layer) for n in m.changes)]

    def _pair(
        self,
        compute: Callable[[Mapping[str, int]], Array],
        path: str,
        theirs: Array,
        bound: float,
        promising: list[tuple[float, Mistake, int]],
    ) -> Explanation | None:
        for _, first, layer in promising:
            for second in self._possible(0):
                if second.key == first.key:
                    continue
                value = _tried(compute, {first.key: layer, second.key: 0})
                if value is not None and (remaining := self._comparison.error(path, value, theirs)) <= bound:
                    return ((first, layer), (second, 0)), remaining, ()
        return None

    def _rerun(self, path: str) -> Callable[[Mapping[str, int]], Array]:
        """The value at `path` of a run that goes on with what was seen before it, and with some mistakes."""

        def compute(on: Mapping[str, int]) -> Array:
            def hook(here: str, value: Any) -> Any:
                if here == path:
                    raise Stop(value)
                if here in self.seen:
                    return list(self.seen[here].T) if isinstance(value, list) else self.seen[here]
                return value

            watch = Watch(hook, MISTAKES, NAMES)
            watch.on = {**self.adopted, **on}
            try:
                watch.algorithms.DTransformer(self.x, self.theta, self.config)
            except Stop as stop:
                return np.asarray(matrix(stop.value))
            raise AssertionError(f"{path} is not computed")

        return compute


def _tried(compute: Callable[[Mapping[str, int]], Array], on: Mapping[str, int]) -> Array | None:
    """The value with some mistakes; None where they make no sense for this model."""
    try:
        with np.errstate(all="ignore"):
            return compute(on)
    except (AlgorithmError, ValueError, IndexError, AttributeError, TypeError, ZeroDivisionError):
        return None


def value_lines(config: DTransformerConfig) -> list[str]:
    """The lines of Algorithm 10 that compute a value in this model: not loops, and 3a only where there is one."""
    return [n for n in read().lines(10) if n != "4" and (n != "3a" or config.embedding_norm)]

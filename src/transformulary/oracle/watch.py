"""Watch or replace any value of a run, by its path (see `path.py`).

The source that is printed is recompiled with a hook around every numbered value, every result of a named
function and every product with a parameter matrix.  Arguments run from left to right, so the path is known
before the value, and the calls inside it, are computed.  Watching changes no result: a hook that returns
what it is given leaves every number bitwise the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from types import SimpleNamespace
from typing import Any

from transformulary.errors import AlgorithmError
from transformulary.oracle import theta
from transformulary.oracle.hooks import Variant, compiled
from transformulary.oracle.path import Path, Step
from transformulary.oracle.source import read

__all__ = ["LAYERS", "Hook", "Variant", "Watch", "holds", "nothing", "record", "watched"]

Hook = Callable[[str, Any], Any]

#: Of a variant: in every layer, and not in what stands outside of the layers, such as the final norm.
LAYERS = -2


def holds(where: int, layer: int) -> bool:
    """Whether a variant is on in this layer (0: outside of them): where = a layer, 0 = everywhere, or `LAYERS`."""
    return where in (0, layer) or (where == LAYERS and layer > 0)


def nothing(_: str) -> bool:
    """For `inside`: only lines of the outermost algorithm, and what has a name in them, are looked at."""
    return False


def watched(hook: Hook, inside: Callable[[str], bool] | None = None) -> SimpleNamespace:
    """The algorithms, each value passing through hook(path, value), which returns the value to go on with.

    `watched(hook).DTransformer(x, theta, c)` runs Algorithm 10.  Inside a gradient the hook sees one plain
    evaluation of the loss; what it replaced there stays constant in the evaluations of the complex step.
    Where `inside` is given, the hook does not see what is computed within a member of a line (a column, a head) for
    whose path it is false: leaving out the steps within columns saves most of the time that watching takes.
    """
    return Watch(hook, inside=inside).algorithms


def record(name: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """{path: value} of every value of one run: record("DTransformer", x, theta, c).

    Raises AlgorithmError if there is no algorithm of that name.
    """
    if name not in read().functions:
        near = get_close_matches(name, read().functions, 1, cutoff=0)[0]
        raise AlgorithmError(f"there is no algorithm {name!r}. Did you mean {near}?")
    values: dict[str, Any] = {}

    def keep(path: str, value: Any) -> Any:
        values[path] = value
        return value

    getattr(watched(keep), name)(*args, **kwargs)
    return values


class Watch:
    """The algorithms recompiled: `algorithms` is a namespace of them, and hook(path, value) sees every value.

    hook      returns the value to go on with
    names     what the expressions of variants use beside the names of the oracle
    inside    says of a member of a line, by its path, whether the hook sees what is computed within it
    always    variants that hold throughout; those that are on change what they leave
    on        other ways to compute some lines: variant -> where it `holds`: a layer (from 1), 0 = everywhere
    given     path -> the value of a whole line that is known: it is not computed, and the hook does not see it
    args      while the hook sees a result of an algorithm, a norm or an activation: what that was called with; or the
              two sides of a product with a parameter matrix
    keep      lines of the outermost algorithm, "8.8", whose values are kept while it runs, for `before`
    """

    def __init__(
        self,
        hook: Hook,
        names: Mapping[str, Any] | None = None,
        inside: Callable[[str], bool] | None = None,
        always: Iterable[Variant] = (),
        keep: Container[str] = (),
    ) -> None:
        self.hook, self.wanted = hook, inside
        self.keep, self.kept = keep, dict[str, Any]()
        self.on = {}
        self.given: Mapping[str, Any] = {}
        self.args: tuple[Any, ...] = ()
        self.stack: list[tuple[Step, bool]] = []
        self.at = ("", 0)  # the line that is being computed, of the outermost algorithm or of a layer; and the layer
        self.frozen: dict[str, Any] | None = None  # path -> what the hook put there, while the hook looks away
        self.replaced: dict[str, Any] = {}
        self.computing: list[Callable[[], Any]] = []
        self.scope = {"__name__": "watched", "_watch": self, "gradient": self.gradient, **(names or {})}
        modules, self.statements = compiled(tuple(always))
        for module in modules:
            exec(module, self.scope)
        self.algorithms = SimpleNamespace(**{name: self.scope[name] for name in read().functions})

    @property
    def on(self) -> Mapping[Any, int]:
        return self._on

    @on.setter
    def on(self, variants: Mapping[Any, int]) -> None:
        self._on = variants
        self._lines = {line for variant in variants for line in variant.changes}
        self._changed: dict[tuple[int, str, int], Any] = {}  # (statement, line, layer) -> what computes it, or None

    def line(
        self, compute: Callable[[], Any], shown: bool, number: str, label: str, refines: bool, **indices: int
    ) -> Any:
        """Compute one line: its path is the path of what is computed meanwhile.

        `refines`: one member of the line before, whose step it replaces.  So does a line that begins while
        another of the same algorithm is computed: the loss, whose lines come before that of the gradient.
        """
        if self.frozen == {} and "l" not in indices:  # nobody looks, and the layer stays
            return compute()
        value = self._line(compute, shown, number, label, refines, **indices)
        if shown and not self.stack and f"{number}.{label}" in self.keep:
            self.kept[str(Step(number, label, _from_1(indices)))] = value
        return value

    def _line(
        self, compute: Callable[[], Any], shown: bool, number: str, label: str, refines: bool, **indices: int
    ) -> Any:
        if self.wanted is nothing and self.stack and self.frozen is None:
            self.frozen = {}
            try:
                return compute()
            finally:
                self.frozen = None
        before, member = self.at, refines
        if not self.stack or "l" in indices:
            self.at = (f"{number}.{label}", indices.get("l", -1) + 1)
        refines = refines or bool(self.stack and self.stack[-1][0].number == number)
        self.stack.append((Step(number, label, _from_1(indices)), refines))
        try:
            if shown and self.given and self.frozen is None and (path := self._path("")) in self.given:
                return self.given[path]
            if member and self.wanted and self.frozen is None and not self.wanted(self._path("")):
                with self._constant({}):
                    value = compute()
            else:
                value = compute()
            if not shown:
                return value
            self.computing.append(compute)
            try:
                return self._pass("", value)
            finally:
                self.computing.pop()
        finally:
            self.stack.pop()
            self.at = before

    def again(self, on: Mapping[Any, int], replaced: Mapping[str, Any] | None = None) -> Any:
        """From within the hook of a line: its value computed again, with these variants on as well.

        replaced: path -> what stands in place of a value inside the line
        """
        before, self.on = self.on, {**self.on, **on}
        try:
            with self._constant(dict(replaced or {})):
                return self.computing[-1]()
        finally:
            self.on = before

    def before(self, *paths: str) -> Any:
        """For variants: the value that an earlier line went on with, at the first of these paths that was kept.

        Raises AlgorithmError where there is none: a variant that needs it makes no sense for this model.
        """
        for path in paths:
            if path in self.kept:
                return self.kept[path]
        raise AlgorithmError(f"nothing was computed at {' or '.join(paths)}.")

    def varied(self, statement: int, variables: Mapping[str, Any], usual: Callable[[], Any]) -> Callable[[], Any]:
        """A statement as it is, or, once it is computed, with the variants of it that are on in this layer."""

        def compute() -> Any:
            if not (self._lines and self.statements[statement].touched(self._lines)):
                return usual()
            at = (statement, *self.at)
            if at not in self._changed:
                self._changed[at] = self._function(*at, tuple(variables))
            function = self._changed[at]
            if function is None:
                return usual()
            code = function.__code__
            return function(*(variables[name] for name in code.co_varnames[: code.co_argcount]))

        return compute

    def _function(self, statement: int, line: str, layer: int, variables: tuple[str, ...]) -> Any:
        on = tuple(v for v, where in self.on.items() if holds(where, layer) and v.within in ("", line))
        code = self.statements[statement].varied(on, variables)
        return code and eval(code, self.scope)

    def inside(self, name: str, value: Any) -> Any:
        """A value inside the current line."""
        return self._pass(name, value)

    def call(self, suffix: str, function: Callable[..., Any], *args: Any) -> Any:
        """An algorithm, or a function from a table of choices, named by what it turned out to be."""
        value = function(*args)
        self.args = args
        return self._pass(function.__name__ + suffix, value)

    def product(self, name: str, left: Any, right: Any) -> Any:
        """A product with a parameter matrix."""
        value = left @ right
        self.args = (left, right)
        return self._pass(name, value)

    def _path(self, name: str) -> str:
        steps = self.stack
        return str(Path(tuple(s for k, (s, _) in enumerate(steps) if k + 1 == len(steps) or not steps[k + 1][1]), name))

    def _pass(self, name: str, value: Any) -> Any:
        if self.frozen == {}:
            return value
        path = self._path(name)
        if self.frozen is not None:
            return self.frozen.get(path, value)
        new = self.hook(path, value)
        if new is not value:
            self.replaced[path] = new
        return new

    @contextmanager
    def _constant(self, replaced: dict[str, Any]) -> Iterator[None]:
        before, self.frozen = self.frozen, replaced
        try:
            yield
        finally:
            self.frozen = before

    def gradient(self, f: Callable[[theta.Theta], Any], at: theta.Theta) -> theta.Theta:
        """theta.gradient, after one evaluation that the hook sees."""
        if self.frozen is None:
            self.replaced = {}
            f(at)
        with self._constant(dict(self.replaced)):
            return theta.gradient(f, at)


def _from_1(indices: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple((name, k + 1) for name, k in indices.items())

"""Watch or replace any value of a run, by its path (see `path.py`).

The source that is printed is recompiled with a hook around every numbered value, every result of a named
function and every product with a parameter matrix.  Arguments run from left to right, so the path is known
before the value, and the calls inside it, are computed.  Watching changes no result: a hook that returns
what it is given leaves every number bitwise the same.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path as FilePath
from types import CodeType, SimpleNamespace
from typing import Any, cast

from transformulary.errors import AlgorithmError
from transformulary.oracle import notation, theta
from transformulary.oracle.path import Path, Step
from transformulary.oracle.source import FILES, INDICES, Comprehension, Source, read

Hook = Callable[[str, Any], Any]

#: Calls whose comprehension builds the value of a whole line, one member per index.
FAMILIES = frozenset({"columns", "matrix"})


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


@dataclass(frozen=True)
class Variant:
    """Another way to compute some lines: "4.6" -> (a part of that line's expression, what stands there instead).

    The part is spelled as `ast.unparse` spells it and occurs once in the line.  Where two statements bear one
    number, as line 8 of Algorithm 10 does for the two kinds of MLP, those that have the part are changed.
    """

    key: str
    changes: Mapping[str, tuple[str, str]] = field(hash=False)


class Watch:
    """The algorithms recompiled: `algorithms` is a namespace of them, and hook(path, value) sees every value.

    hook      returns the value to go on with
    variants  other ways to compute some lines; each is off until `on` holds its key, and with which layer
    names     what the expressions of the variants use beside the names of the oracle
    inside    says of a member of a line, by its path, whether the hook sees what is computed within it
    always    variants that hold throughout; the others change what they leave
    given     path -> the value of a whole line that is known: it is not computed, and the hook does not see it
    """

    def __init__(
        self,
        hook: Hook,
        variants: Iterable[Variant] = (),
        names: Mapping[str, Any] | None = None,
        inside: Callable[[str], bool] | None = None,
        always: Iterable[Variant] = (),
    ) -> None:
        self.hook, self.wanted = hook, inside
        self.on: Mapping[str, int] = {}  # variant -> the layer (from 1) in which it holds, 0 = in every layer
        self.given: Mapping[str, Any] = {}
        self.stack: list[tuple[Step, bool]] = []
        self.frozen: dict[str, Any] | None = None  # path -> what the hook put there, while the hook looks away
        self.replaced: dict[str, Any] = {}
        self.computing: list[Callable[[], Any]] = []
        self.names, self.variants = dict(names or {}), tuple(variants)
        scope: dict[str, Any] = {"__name__": "watched", "_watch": self, "gradient": self.gradient, **self.names}
        for code in _compiled(self.variants, tuple(always)):
            exec(code, scope)
        self.algorithms = SimpleNamespace(**{name: scope[name] for name in read().functions})

    def line(
        self, compute: Callable[[], Any], shown: bool, number: str, label: str, refines: bool, **indices: int
    ) -> Any:
        """Compute one line: its path is the path of what is computed meanwhile.

        `refines`: one member of the line before, whose step it replaces.  So does a line that begins while
        another of the same algorithm is computed: the loss, whose lines come before that of the gradient.
        """
        if self.frozen == {} and "l" not in indices:  # nobody looks, and the layer stays
            return compute()
        member, refines = refines, refines or bool(self.stack and self.stack[-1][0].number == number)
        self.stack.append((Step(number, label, tuple((k, v + 1) for k, v in indices.items())), refines))
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

    def again(self, on: Mapping[str, int]) -> Any:
        """From within the hook of a line: the value of that line computed again with these variants on as well."""
        before, self.on = self.on, {**self.on, **on}
        try:
            with self._constant({}):
                return self.computing[-1]()
        finally:
            self.on = before

    def choose(self, variants: Mapping[str, Callable[[], Any]], usual: Callable[[], Any]) -> Any:
        """The first variant of a line that is on in this layer, else the line as it is."""
        layer = next((i for step, _ in self.stack for name, i in step.indices if name == "l"), 0)
        return next((variants[key] for key in variants if self.on.get(key, -1) in (0, layer)), usual)()

    def inside(self, name: str, value: Any) -> Any:
        """A value inside the current line."""
        return self._pass(name, value)

    def call(self, suffix: str, function: Callable[..., Any], *args: Any) -> Any:
        """A function from a table of choices, named by what it turned out to be."""
        return self._pass(function.__name__ + suffix, function(*args))

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


@lru_cache(maxsize=8)
def _compiled(variants: tuple[Variant, ...], always: tuple[Variant, ...]) -> tuple[CodeType, ...]:
    files = dict.fromkeys(read().files.values())
    return tuple(compile(_instrumented(path, variants, always), str(path), "exec") for path in files)


def _instrumented(path: FilePath, variants: tuple[Variant, ...], always: tuple[Variant, ...]) -> ast.Module:
    """One file of the oracle with hooks; the algorithms that it imports are the watched ones, already there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    watch = _Hooks(read(), path, variants, always)
    tree.body = [watch.visit(node) for node in tree.body if not _imports_algorithms(node)]
    return ast.fix_missing_locations(tree)


def _imports_algorithms(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] in {file.stem for file in FILES}


class _Hooks(ast.NodeTransformer):
    """Put hooks into the functions of one file."""

    def __init__(
        self, source: Source, path: FilePath, variants: tuple[Variant, ...], always: tuple[Variant, ...]
    ) -> None:
        self.source, self.path, self.variants, self.always = source, path, variants, always
        self.number = self.label = ""
        self.loops: list[str] = []  # index variables of the loops around a statement
        self.members: list[str] = []  # and of the comprehensions around an expression
        self.seen: Counter[str] = Counter()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.number = self.source.numbers.get(node.name, self.number)
        node.body = [s for n in node.body for s in _several(self.visit(n))]
        return node

    def visit_For(self, node: ast.For) -> ast.AST:
        self.loops.append(ast.unparse(node.target))
        node.body = [s for n in node.body for s in _several(self.visit(n))]
        self.loops.pop()
        return node

    def visit_While(self, node: ast.While) -> list[ast.AST]:
        """The iterations of a while loop are counted by i, which the source does not name."""
        self.loops.append("i")
        node.body = [s for n in node.body for s in _several(self.visit(n))]
        self.loops.pop()
        node.body.insert(0, ast.parse("i = i + 1").body[0])
        return [ast.parse("i = -1").body[0], node]

    def visit_If(self, node: ast.If) -> ast.AST:
        node.body = [s for n in node.body for s in _several(self.visit(n))]
        node.orelse = [s for n in node.orelse for s in _several(self.visit(n))]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if self.number and (label := self.source.label(self.path, node)):
            node.value = self._line(node.value, label)
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        node.names = [name for name in node.names if name.name != "gradient"]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """An entry of a table of choices: it is computed inside the line that chose it."""
        self.label = "chosen"
        node.body = self.visit(node.body)
        self.label = ""
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if self.number and node.value and (label := self.source.label(self.path, node)):
            node.value = self._line(node.value, label)
        return node

    def _line(self, value: ast.expr, label: str) -> ast.expr:
        for variant in self.always:
            value = self._changed(variant, value, label) or value
        others = {v.key: self._hooked(new, label) for v in self.variants if (new := self._changed(v, value, label))}
        usual = self._hooked(value, label)
        if others:
            table = ast.Dict([ast.Constant(key) for key in others], [_later(new) for new in others.values()])
            usual = _method("choose", table, _later(usual))
        return self._framed(usual, label, refines=False, shown=True)

    def _changed(self, variant: Variant, value: ast.expr, label: str) -> ast.expr | None:
        """The line's expression under a variant; None if it is the same."""
        old, new = variant.changes.get(f"{self.number}.{label}", ("", ""))
        text = ast.unparse(value)
        if not old or text.count(old) != 1:
            return None
        changed = ast.parse(text.replace(old, new), mode="eval").body
        if isinstance(changed, ast.ListComp) and isinstance(value, ast.ListComp):
            ast.copy_location(changed.elt, value.elt)  # Algorithm 5 has two numbers in one statement, by their place
        return changed

    def _hooked(self, value: ast.expr, label: str) -> ast.expr:
        self.label, self.seen = label, Counter()
        family = value
        while isinstance(family, ast.Call) and getattr(family.func, "id", "") in FAMILIES and family.args:
            family = family.args[0]
        if isinstance(family, ast.ListComp | ast.GeneratorExp):
            family.family = True  # type: ignore[union-attr]
        return cast(ast.expr, self.visit(value))

    def _framed(self, value: ast.expr, label: str, refines: bool, shown: bool) -> ast.expr:
        at = [ast.keyword(v, ast.Name(v, ast.Load())) for v in (*self.loops, *self.members)]
        what = [ast.Constant(c) for c in (shown, self.number, label, refines)]
        return _method("line", _later(value), *what, keywords=at)

    def _comprehension(self, node: Comprehension) -> ast.AST:
        target = node.generators[0].target
        if not self.label or not (isinstance(target, ast.Name) and target.id in INDICES):
            return node
        self.members.append(target.id)
        family = getattr(node, "family", False)
        inner = self.source.labels.get((self.path, node.elt.end_lineno or 0), self.label) if family else self.label
        nested = family and isinstance(node.elt, ast.ListComp)  # matrix([f for t_x] for t_z)
        if nested:
            node.elt.family = True  # type: ignore[attr-defined]
        before = ast.dump(node.elt)
        outer, self.label = self.label, inner
        node.elt = self.visit(node.elt)
        self.label = outer
        if not nested and (family or ast.dump(node.elt) != before):
            node.elt = self._framed(node.elt, inner, refines=True, shown=family)
        self.members.pop()
        return node

    visit_ListComp = visit_GeneratorExp = visit_SetComp = _comprehension

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        name = getattr(function, "id", "")
        hooked = self.label and (name in notation.NAMED or name in self.source.numbers)
        chosen = self.label and isinstance(function, ast.Subscript) and _base(function) in self.source.tables
        suffix = self._suffix(name if hooked else ast.unparse(function)) if hooked or chosen else ""
        node.args = [self.visit(a) for a in node.args]
        if hooked:
            return _method("inside", ast.Constant(name + suffix), node)
        if chosen and _base(function) in ("NORM", "ACTIVATION"):
            return _method("call", ast.Constant(suffix), function, *node.args)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        matrix = isinstance(node.op, ast.MatMult) and (_parameter(node.left) or _parameter(node.right))
        suffix = self._suffix(matrix) if matrix and self.label else ""
        node.left, node.right = self.visit(node.left), self.visit(node.right)
        return _method("inside", ast.Constant(matrix + suffix), node) if matrix and self.label else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """theta.W_e[:, x[t]] is the product of W_e with a unit vector."""
        column = isinstance(node.slice, ast.Tuple) and isinstance(node.slice.elts[0], ast.Slice)
        matrix = _parameter(node.value) if column else ""
        if matrix and self.label:
            return _method("inside", ast.Constant(matrix + self._suffix(matrix)), node)
        return self.generic_visit(node)

    def _suffix(self, name: str) -> str:
        self.seen[name] += 1
        return f".{self.seen[name]}" if self.seen[name] > 1 else ""


def _method(name: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    function = ast.Attribute(ast.Name("_watch", ast.Load()), name, ast.Load())
    return ast.Call(function, list(args), keywords or [])


def _later(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), value)


def _base(node: ast.expr) -> str:
    return getattr(node.value, "id", "") if isinstance(node, ast.Subscript) else ""


def _parameter(node: ast.expr) -> str:
    """The name of the parameter matrix that an expression is: theta.W_mlp1[l], W.W_o, W_u; else ""."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "T"):
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name if name.startswith("W_") and name != "W_qkv" else ""


def _several(node: Any) -> list[ast.stmt]:
    return node if isinstance(node, list) else [copy.copy(node)]

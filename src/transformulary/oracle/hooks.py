"""The source of the oracle, recompiled with a hook around every value, and with other ways to compute a line."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import permutations
from pathlib import Path as FilePath
from types import CodeType
from typing import Any, cast

from transformulary.errors import AlgorithmError
from transformulary.oracle import notation
from transformulary.oracle.source import FILES, INDICES, Comprehension, Source, read

#: Calls whose comprehension builds the value of a whole line, one member per index.
FAMILIES = frozenset({"columns", "matrix"})
#: (old, new), ...
Changes = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Variant:
    """Another way to compute some lines: "4.6" -> (a part of that line's expression, what stands there instead).

    The part is spelled as `ast.unparse` spells it and occurs once in the line.  Where two statements bear one
    number, as line 8 of Algorithm 10 does for the two kinds of MLP, those that have the part are changed.
    Several variants of one line hold together, where what one of them leaves has the part that another changes.
    An algorithm, "4", stands for all its lines: ("Mask", "ahead(Mask)") changes what they mean by a name.
    `within`: the line of the outermost algorithm within which it holds; "": in all.
    """

    key: str
    changes: Mapping[str, tuple[str, str]] = field(hash=False)
    within: str = field(default="", kw_only=True)


class Statement:
    """A numbered statement of the source, of which variants can be made.

    hooks  what puts hooks into it
    value  its expression, without hooks
    """

    def __init__(self, hooks: Hooks, value: ast.expr, label: str) -> None:
        self.label, self.line, self.number = label, f"{hooks.number}.{label}", hooks.number
        self.text, self._location = ast.unparse(value), getattr(value, "elt", None)
        self._hooks = copy.copy(hooks)
        self._hooks.loops = list(hooks.loops)

    def touched(self, lines: Set[str]) -> bool:
        """Whether it is in one of these lines, or of one of these algorithms."""
        return self.line in lines or self.number in lines

    def varied(self, variants: Iterable[Variant], variables: tuple[str, ...]) -> CodeType | None:
        """A function of some of the variables: the statement with these variants; None if they leave it as it is.

        Raises AlgorithmError where they cannot hold together.
        """
        changes = self.changes(tuple(variants))
        return _code(self, changes, variables) if any(changes) else None

    def changes(self, variants: Sequence[Variant]) -> tuple[Changes, Changes]:
        """What variants change in it: parts of it, and names."""
        here = (v.changes[self.line] for v in variants if self.line in v.changes)
        parts = tuple(change for change in here if _once(change[0], self.text))
        text = " ".join((self.text, *(new for _, new in parts)))
        names = (v.changes[self.number] for v in variants if self.number in v.changes)
        return parts, tuple(change for change in names if _named(change[0]).search(text))

    def changed(self, parts: Changes, names: Changes) -> ast.expr:
        """Its expression with these changes, of its parts in whichever order each of them finds its own."""
        for order in permutations(parts):
            text = self.text
            for old, new in order:
                if not (part := _once(old, text)):
                    break
                text = text[: part.start()] + new + text[part.end() :]
            else:
                for name, new in names:
                    text = _named(name).sub(new, text)
                value = ast.parse(text, mode="eval").body
                if isinstance(value, ast.ListComp) and self._location:
                    ast.copy_location(value.elt, self._location)  # Algorithm 5 has two numbers in one statement
                return value
        raise AlgorithmError(f"these variants of line {self.line} cannot hold together.")

    def hooked(self, value: ast.expr) -> ast.expr:
        """An expression that stands in its place, with hooks."""
        return self._hooks.hooked(value, self.label)


def _once(part: str, text: str) -> re.Match[str] | None:
    """Where a part of an expression is, if it is there once: "(e - m)" is no part of "half(e - m)"."""
    starts = r"(?<!\w)" if part[0].isalnum() or part[0] == "(" else ""
    found = list(re.finditer(starts + re.escape(part), text))
    return found[0] if len(found) == 1 else None


def _named(name: str) -> re.Pattern[str]:
    return re.compile(rf"\b{name}\b")


@lru_cache(maxsize=4096)
def _code(statement: Statement, changes: tuple[Changes, Changes], variables: tuple[str, ...]) -> CodeType:
    value = statement.hooked(statement.changed(*changes))
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    arguments = [ast.arg(name) for name in variables if name in names]
    function = ast.Lambda(ast.arguments([], arguments, None, [], [], None, []), value)
    return compile(ast.fix_missing_locations(ast.Expression(function)), f"line {statement.line}", "eval")


@lru_cache(maxsize=8)
def compiled(always: tuple[Variant, ...]) -> tuple[tuple[CodeType, ...], tuple[Statement, ...]]:
    """The files of the oracle with hooks and with some variants, and their numbered statements."""
    statements: list[Statement] = []
    files = dict.fromkeys(read().files.values())
    modules = tuple(compile(_instrumented(path, always, statements), str(path), "exec") for path in files)
    return modules, tuple(statements)


def _instrumented(path: FilePath, always: tuple[Variant, ...], statements: list[Statement]) -> ast.Module:
    """One file of the oracle with hooks; the algorithms that it imports are the watched ones, already there."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    hooks = Hooks(read(), path, always, statements)
    tree.body = [hooks.visit(node) for node in tree.body if not _imports_algorithms(node)]
    return ast.fix_missing_locations(tree)


def _imports_algorithms(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and (node.module or "").rpartition(".")[2] in {file.stem for file in FILES}


class Hooks(ast.NodeTransformer):
    """Put hooks into the functions of one file; its numbered statements are added to `statements`."""

    def __init__(
        self, source: Source, path: FilePath, always: tuple[Variant, ...], statements: list[Statement]
    ) -> None:
        self.source, self.path, self.always, self.statements = source, path, always, statements
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
        statement = Statement(self, value, label)
        if any(changes := statement.changes(self.always)):
            value = statement.changed(*changes)
            statement = Statement(self, value, label)
        self.statements.append(statement)
        place, variables = ast.Constant(len(self.statements) - 1), ast.Call(ast.Name("locals", ast.Load()), [], [])
        usual = _later(self.hooked(value, label))
        return self._framed(_method("varied", place, variables, usual), label, refines=False, shown=True)

    def hooked(self, value: ast.expr, label: str) -> ast.expr:
        """The expression of a line with that label, with hooks."""
        self.label, self.seen = label, Counter()
        family = value
        while isinstance(family, ast.Call) and getattr(family.func, "id", "") in FAMILIES and family.args:
            family = family.args[0]
        if isinstance(family, ast.ListComp | ast.GeneratorExp):
            family.family = True  # type: ignore[union-attr]
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "softmax":
            value.of_logits = True  # type: ignore[attr-defined]
        return cast(ast.expr, self.visit(value))

    def _framed(self, compute: ast.expr, label: str, refines: bool, shown: bool) -> ast.expr:
        at = [ast.keyword(v, ast.Name(v, ast.Load())) for v in (*self.loops, *self.members)]
        what = [ast.Constant(c) for c in (shown, self.number, label, refines)]
        return _method("line", compute, *what, keywords=at)

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
            node.elt = self._framed(_later(node.elt), inner, refines=True, shown=family)
        self.members.pop()
        return node

    visit_ListComp = visit_GeneratorExp = visit_SetComp = _comprehension

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        name = getattr(function, "id", "")
        named, algorithm = (self.label and name in names for names in (notation.NAMED, self.source.numbers))
        chosen = self.label and isinstance(function, ast.Subscript) and _base(function) in self.source.tables
        known = named or algorithm
        suffix = self._suffix(name if known else ast.unparse(function)) if known or chosen else ""
        node.args = [self.visit(a) for a in node.args]
        if getattr(node, "of_logits", False):
            node.args[0] = _method("inside", ast.Constant("logits"), node.args[0])
        if algorithm or (chosen and _base(function) in ("NORM", "ACTIVATION")):
            return _method("call", ast.Constant(suffix), function, *node.args)
        return _method("inside", ast.Constant(name + suffix), node) if named else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        matrix = isinstance(node.op, ast.MatMult) and (_parameter(node.left) or _parameter(node.right))
        suffix = self._suffix(matrix) if matrix and self.label else ""
        node.left, node.right = self.visit(node.left), self.visit(node.right)
        if not (matrix and self.label):
            return node
        return _method("product", ast.Constant(matrix + suffix), node.left, node.right)

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

"""Expressions of the oracle as formulas, with the origin moved: indices count from 0 there and from 1 in print.

Every index variable is one more in print.  The *degree* of an expression is by how much its printed value
then exceeds the source's: 1 for t and for t + 1, 0 for a size, for t_x - t_z and for any number.  An index
prints as value + 1, a number as its value; the constant that this leaves is folded.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from transformulary.oracle.source import INDICES
from transformulary.paper import masks
from transformulary.paper.masks import Mask
from transformulary.pseudocode.mask_rules import rule
from transformulary.pseudocode.nodes import (
    Apply,
    Big,
    Entry,
    Fence,
    Frac,
    Infix,
    Node,
    Num,
    Power,
    Prefix,
    Root,
    Sym,
    Words,
)
from transformulary.pseudocode.notation import FUNCTIONS, HIDDEN, SCALAR_FUNCTIONS, SCALARS, TOKENS, letters, member
from transformulary.pseudocode.rewriting import written
from transformulary.pseudocode.specialise import Program, annotation, is_mask

OPERATORS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "−",
    ast.MatMult: "",
    ast.Mod: "mod",
    ast.BitAnd: "∧",
    ast.BitOr: "∨",
    ast.Eq: "=",
    ast.NotEq: "≠",
    ast.LtE: "≤",
    ast.Lt: "<",
    ast.GtE: "≥",
    ast.Gt: ">",
    ast.In: "∈",
}
MASK = Sym("Mask")


class Formulas:
    """The expressions of one function.

    program   the specialised algorithms, which know what a call prints
    indices   the variables that count from 0 in the source: the usual ones and the function's positions
    scalars   names that are numbers here; the usual ones are
    arrays    names that are arrays here, though they usually are numbers
    families  name -> the comprehension that made it: its members print as e_t, not e[t]
    given     name -> what it is a function of: P(theta)
    """

    def __init__(
        self, program: Program, indices: Iterable[str] = (), scalars: Iterable[str] = (), arrays: Iterable[str] = ()
    ) -> None:
        self.program = program
        self.indices = INDICES | {"t_prime", *indices}
        self.arrays = frozenset(arrays)
        self.scalars = (SCALARS | {*scalars}) - self.arrays
        self.tokens = TOKENS - self.scalars
        self.families: dict[str, ast.comprehension] = {}
        self.given: dict[str, Node] = {}

    def __call__(self, node: ast.expr) -> Node:
        """The formula of the value of an expression."""
        method = getattr(self, type(node).__name__, None)
        assert method, f"there is no notation for {ast.unparse(node)}"
        return method(node)  # type: ignore[no-any-return]

    # the change of origin

    def degree(self, node: ast.expr) -> int:
        """By how much the value of `node` grows when every index counts from 1."""
        match node:
            case ast.Name(id=name):
                return int(name in self.indices or name in self.tokens)
            case ast.Subscript(value=ast.Name(id=name)) | ast.Subscript(value=ast.Subscript(value=ast.Name(id=name))):
                return int(name in self.tokens)
            case ast.BinOp(op=ast.Add()):
                return self.degree(node.left) + self.degree(node.right)
            case ast.BinOp(op=ast.Sub()):
                return self.degree(node.left) - self.degree(node.right)
            case ast.BinOp(op=ast.FloorDiv()):
                return self.degree(node.left)
        return 0

    def plus(self, node: ast.expr, by: int) -> Node:
        """node + by, its constants folded into one."""
        parts: list[tuple[int, Node]] = []
        constant = by
        for sign, term in _terms(node, 1):
            if isinstance(term, ast.Constant) and type(term.value) is int:
                constant += sign * term.value
            else:
                constant -= sign * self.degree(term)
                parts.append((sign, self.moved(term)))
        parts += [(1 if constant > 0 else -1, Num(abs(constant)))] if constant or not parts else []
        total: Node | None = None
        for sign, part in parts:
            op = "+" if sign > 0 else "−"
            total = Infix(op, total, part) if total else part if sign > 0 or part == Num(0) else Prefix("−", part)
        assert total
        return total

    def moved(self, node: ast.expr) -> Node:
        """One term, its index counted from 1: t, x[t], the group ceil(h/4) of head h, or ceil(h H_kv/H)."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv) and self.degree(node):
            above, below = self.as_printed(node.left), node.right
            if isinstance(below, ast.BinOp) and isinstance(below.op, ast.FloorDiv):  # H // H_kv leaves no remainder
                above, below = Infix("", above, self(below.right)), below.left
            return Fence("ceiling", (Frac(above, self(below)),))
        return self.symbol(node.id) if isinstance(node, ast.Name) else self(node)

    def as_printed(self, node: ast.expr) -> Node:
        """An index as such: t for t, t + 1 for t + 1."""
        return self.plus(node, self.degree(node))

    def index(self, node: ast.expr) -> Node | None:
        """An expression between brackets; None for the whole range."""
        if isinstance(node, ast.Slice):
            if not node.lower and not node.upper:
                return None
            assert node.upper
            return Infix(":", self.plus(node.lower, 1) if node.lower else Num(1), self.plus(node.upper, 0))
        return self.plus(node, 1)

    # atoms

    def symbol(self, name: str) -> Node:
        if name in self.given:
            return Apply(Sym(name), (self.given[name],))
        return Sym(name, plain=False if name in self.arrays else name in self.indices | self.scalars or None)

    def Name(self, node: ast.Name) -> Node:
        return self.plus(node, 0) if node.id in self.indices else self.symbol(node.id)

    def Attribute(self, node: ast.Attribute) -> Node:
        return Power(self(node.value), Words("T")) if node.attr == "T" else Sym(node.attr)

    def Constant(self, node: ast.Constant) -> Node:
        return Num(0) if node.value is None else number(node.value)

    def UnaryOp(self, node: ast.UnaryOp) -> Node:
        if isinstance(node.operand, ast.Constant):
            return number(-node.operand.value)  # type: ignore[operator]
        return Prefix("−", self(node.operand))

    def Subscript(self, node: ast.Subscript) -> Node:
        at = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if is_mask(node):
            return self.mask(node)
        if isinstance(at[-1], ast.Constant) and at[-1].value is None:  # b[:, None]
            return Infix("", self(node.value), Power(Num(1), Words("T")))
        if name := self.family(node):
            index = self.plus(node.slice, 1)
            return member(name, index, above="h" in _letters(node.slice))
        return Entry(self(node.value), tuple(map(self.index, at)))

    def family(self, node: ast.Subscript) -> str:
        """The name of the family of which `node` is a member, or ""."""
        name = getattr(node.value, "id", None) or getattr(node.value, "attr", "")
        if isinstance(node.slice, ast.Tuple | ast.Slice) or not name:
            return ""
        by_letter = _letters(node.slice) and _letters(node.slice) <= {"l", "h", "n"}
        return name if by_letter or name in self.families or name.endswith("_") else ""

    def mask(self, node: ast.Subscript) -> Node:
        """The mask of line 6: its rule, or Mask_l where it alternates."""
        if isinstance(node.slice, ast.Constant):
            return self.mask_is(self.program.config.mask[0])  # type: ignore[union-attr]
        return member("Mask", Sym("l"))

    def mask_is(self, mask: Mask, name: Node = MASK) -> Node:
        """Mask[t,t'] = [[t <= t']]; a mask of ones is Mask = 1."""
        allowed = rule(mask)
        if isinstance(allowed, ast.Constant):
            return Infix("≡", name, Num(1))
        return Infix("=", Entry(name, (Sym("t"), Sym("t_prime"))), Fence("[[]]", (self(allowed),)))

    # operations

    def BinOp(self, node: ast.BinOp) -> Node:
        match node.op:
            case ast.Add() | ast.Sub():
                parts = [term for _, term in _terms(node, 1)]
                if any(self.degree(term) or (isinstance(term, ast.Name) and term.id in self.indices) for term in parts):
                    return self.plus(node, 0)
            case ast.Mult():
                return Infix(self.product(node.left, node.right), self(node.left), self(node.right))
            case ast.Div():
                return Frac(self(node.left), self(node.right))
            case ast.Pow() if isinstance(node.right, ast.Constant) and not self.is_scalar(node.left):
                return self.power_of_entries(node.left, node.right)
            case ast.Pow():
                return Power(self(node.left), self(node.right))
            case ast.FloorDiv() if self.degree(node):
                return self.plus(node, 0)
            case ast.FloorDiv():
                return Fence("floor", (Frac(self(node.left), self(node.right)),))
        return Infix(OPERATORS[type(node.op)], self(node.left), self(node.right))

    def power_of_entries(self, base: ast.expr, exponent: ast.Constant) -> Node:
        """A power of an array, of every entry: A ⊙ A, since A² would be a product of matrices."""
        assert exponent.value in (2, 3), "a power of an array is printed as a product"
        square = Infix("⊙", self(base), self(base))
        return square if exponent.value == 2 else Infix("⊙", square, self(base))

    def product(self, left: ast.expr, right: ast.expr) -> str:
        """`*` is element by element between arrays, and a plain product if one factor is a number."""
        if isinstance(right, ast.Call) and getattr(right.func, "id", "") == "gradient":
            return "·"
        return "" if self.is_scalar(left) or self.is_scalar(right) else "⊙"

    def is_scalar(self, node: ast.expr) -> bool:
        match node:
            case ast.Constant() | ast.UnaryOp(operand=ast.Constant()) | ast.Attribute(value=ast.Name(id="c" | "how")):
                return True
            case ast.Name(id=name):
                return name in self.scalars or name in self.indices
            case ast.Subscript(value=ast.Name(id=name), slice=at):
                return name in self.scalars or "i" in _letters(at)
            case ast.Call(func=ast.Name(id=name)):
                return name in SCALAR_FUNCTIONS
            case ast.BinOp():
                return self.is_scalar(node.left) and self.is_scalar(node.right)
        return False

    def Compare(self, node: ast.Compare) -> Node:
        """Where both sides move by the same amount, they are compared as printed; a < n is a + 1 <= n."""
        left, right = node.left, node.comparators[0]
        op, move = OPERATORS[type(node.ops[0])], self.degree(left) - self.degree(right)
        if move == 0:
            return Infix(op, self.as_printed(left), self.as_printed(right))
        if op == "<" and move == 1:
            return Infix("≤", self.as_printed(left), self.as_printed(right))
        return Infix(op, self(left), self(right))

    def List(self, node: ast.List) -> Node:
        return Fence("[]", tuple(self(x.value if isinstance(x, ast.Starred) else x) for x in node.elts))

    def Tuple(self, node: ast.Tuple) -> Node:
        return Fence("()", tuple(map(self, node.elts)))

    def SetComp(self, node: ast.SetComp) -> Node:
        generator = node.generators[0]
        return Fence("{}", (Infix("such that", self.range(generator), self(generator.ifs[0])),))

    def range(self, generator: ast.comprehension) -> Node:
        """t in [ell] for `t in range(ell)`, t in T for `t in T`."""
        what = generator.iter
        count = Fence("[]", (self(what.args[0]),)) if isinstance(what, ast.Call) else self(what)
        return Infix("∈", self.symbol(generator.target.id), count)  # type: ignore[attr-defined]

    # calls

    def Call(self, node: ast.Call) -> Node:
        name = getattr(node.func, "id", "")
        if method := getattr(self, f"call_{name}", None):
            return method(*node.args)  # type: ignore[no-any-return]
        if name == "Mask":  # Mask(t_z, t_x) is an entry of the matrix
            return Entry(MASK, tuple(map(self.index, node.args)))
        if name.lower() in masks.MASKS:
            return self.mask_is(masks.MASKS[name.lower()](*map(ast.literal_eval, node.args)))
        if name in self.program.source.functions:
            return self.algorithm(name, node.args)
        shown = [a for a in node.args if getattr(a, "id", "") not in HIDDEN]
        function = Sym(name) if letters(name).base != name else Words(FUNCTIONS.get(name, name))
        return Apply(function, tuple(map(self, shown)))

    def algorithm(self, name: str, args: list[ast.expr]) -> Node:
        """A call of an algorithm: inputs | parameters, without what the callee does not use."""
        function = self.program.source.functions[name]
        value = dict(zip([a.arg for a in (*function.args.posonlyargs, *function.args.args)], args, strict=False))
        given, parameters = (
            tuple(self.argument(a, value[a.arg]) for a in group if a.arg in value)
            for group in self.program.visible(name)
        )
        if name == "MHAttention" and given[0] == given[1]:  # E4: MHAttention(X | W, Mask) attends from X to X
            given = given[:1]
        bar = function.args.posonlyargs
        return Apply(Words(name), given, parameters) if bar else Apply(Words(name), given + parameters)

    def argument(self, parameter: ast.arg, value: ast.expr) -> Node:
        return self.as_printed(value) if annotation(parameter) == "Position" else self(value)

    def call_sqrt(self, x: ast.expr) -> Node:
        return Root(self(x))

    def call_log(self, x: ast.expr) -> Node:
        return Prefix("log", self(x))

    def call_norm(self, theta: ast.expr) -> Node:
        return Fence("norm", (self(theta),))

    def call_iverson(self, condition: ast.expr) -> Node:
        return Fence("[[]]", (self(condition),))

    def call_ceil(self, x: ast.expr) -> Node:
        return Fence("ceiling", (self(x),))

    def call_floor(self, x: ast.expr) -> Node:
        return Fence("floor", (self(x),))

    def call_list(self, items: ast.expr) -> Node:
        """A list is its items; that of all indices is [n]."""
        return Fence("[]", (self(items.args[0]),)) if isinstance(items, ast.Call) else self(items)

    def call_gradient(self, f: ast.expr, at: ast.expr) -> Node:
        return Prefix("∇", Apply(Words(written(f)), (self(at),)))

    def call_W_qkv(self, _: ast.expr, h: ast.expr, g: ast.expr) -> Node:
        """W_qkv^h; with groups, W_qkv^{h,g}: queries of head h, keys and values of head g."""
        heads = dict.fromkeys((self.plus(h, 1), self.plus(g, 1)))
        return member("W_qkv", tuple(heads), above=True)

    def call_sum(self, terms: ast.expr) -> Node:
        assert isinstance(terms, ast.GeneratorExp)
        generator = terms.generators[0]
        index = self.symbol(generator.target.id)  # type: ignore[attr-defined]
        if isinstance(generator.iter, ast.Call):
            return Big(Infix("=", index, Num(1)), self(generator.iter.args[0]), self(terms.elt))
        return Big(Infix("∈", index, self(generator.iter)), None, self(terms.elt))

    def call_stacked(self, a: ast.expr, b: ast.expr) -> Node:
        return Fence("[]", (self(a), self(b)), "; ")

    def call_interleaved(self, a: ast.expr, b: ast.expr) -> Node:
        """[a[1]; b[1]; a[2]; b[2]; …]"""
        pairs = tuple(Entry(self(x), (Num(i),)) for i in (1, 2) for x in (a, b))
        return Fence("[]", (*pairs, Words("…")), "; ")

    def call_columns(self, vectors: ast.expr) -> Node:
        return self.all_members(vectors, ", ")

    def call_rows(self, blocks: ast.expr) -> Node:
        return self.all_members(blocks, "; ")

    def all_members(self, family: ast.expr, separator: str) -> Node:
        """[e_1, e_2, …, e_ell]: every member of a family; all written out if they are few."""
        assert isinstance(family, ast.Name) and isinstance(self.families[family.id].iter, ast.Call)
        generator = self.families[family.id]
        above = generator.target.id == "h"  # type: ignore[attr-defined]
        places = series(self(generator.iter.args[0]))  # type: ignore[attr-defined]
        shown = tuple(x if x == DOTS else member(family.id, x, above) for x in places)
        return Fence("[]", shown, separator)


DOTS = Words("…")


def series(last: Node) -> tuple[Node, ...]:
    """1, 2, …, last; all of them up to 3."""
    if isinstance(last, Num) and last.value <= 3:
        return tuple(map(Num, range(1, int(last.value) + 1)))
    return (Num(1), Num(2), DOTS, last)


def number(value: Any) -> Node:
    """A number as it is written: 0.044715, 10^-5, 1.23 · 10^-7."""
    if value == int(value) and abs(value) < 1e16:
        return Num(int(value))
    if 1e-3 <= abs(value) < 1e16:
        return Num(value)
    written = Decimal(repr(value))
    mantissa = float(written.scaleb(-written.adjusted()))
    power = Power(Num(10), Num(written.adjusted()))
    return power if mantissa == 1 else Infix("·", Num(int(mantissa) if mantissa.is_integer() else mantissa), power)


def _terms(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    """The terms of a sum with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        return _terms(node.left, sign) + _terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    return [(sign, node)]


def _letters(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}

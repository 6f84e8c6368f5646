"""The rule of a mask as an expression over t (the token that is asked) and t_prime (the one that asks).

It is read from the source of the mask's class, its numbers put in: `t_z <= t_x` of `Causal` is t <= t'.
"""

from __future__ import annotations

import ast
from dataclasses import fields
from functools import cache, reduce
from inspect import getsource
from textwrap import dedent

from transformulary.paper.masks import Mask
from transformulary.pseudocode.rewriting import Rewriter, written


def rule(mask: Mask) -> ast.expr:
    """The expression that is true where t_prime may attend to t; the constant True for `Full`."""
    if len(mask.members) > 1:
        return reduce(lambda a, b: ast.BinOp(a, ast.BitOr(), b), map(rule, mask.members))
    *named, result = _body(type(mask))
    assert isinstance(result, ast.Return) and result.value
    values: dict[str, ast.expr] = {"t_z": ast.Name("t"), "t_x": ast.Name("t_prime")}
    numbers = {f.name: ast.Constant(getattr(mask, f.name)) for f in fields(mask)}
    for statement in named:
        assert isinstance(statement, ast.Assign)
        values[written(statement.targets[0])] = _Rule(values, numbers).visit(statement.value)
    return _Rule(values, numbers).visit(result.value)  # type: ignore[no-any-return]


@cache
def _body(kind: type[Mask]) -> list[ast.stmt]:
    """The statements of one class's __call__, without its docstring."""
    call = ast.parse(dedent(getsource(kind.__call__))).body[0]
    assert isinstance(call, ast.FunctionDef)
    return [s for s in call.body if not isinstance(s, ast.Expr)]


class _Rule(Rewriter):
    """Names and the mask's numbers replaced by what they are; x == x, which only broadcasts, is true."""

    def __init__(self, values: dict[str, ast.expr], numbers: dict[str, ast.Constant]) -> None:
        self.values, self.numbers = values, numbers

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.numbers[node.attr]

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        node = self.parts(node)
        same = isinstance(node.ops[0], ast.Eq) and written(node.left) == written(node.comparators[0])
        return ast.Constant(True) if same else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        node = self.parts(node)
        if isinstance(node.op, ast.BitAnd) and isinstance(node.left, ast.Constant) and node.left.value is True:
            return node.right
        if isinstance(node.op, ast.Sub) and all(isinstance(x, ast.Constant) for x in (node.left, node.right)):
            return ast.Constant(node.left.value - node.right.value)  # type: ignore[attr-defined]
        return node

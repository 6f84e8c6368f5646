"""The functions that lines name, as formulas."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from transformulary.pseudocode.formulas import Formulas
from transformulary.pseudocode.nodes import Infix, Line, Node
from transformulary.pseudocode.specialise import Program

#: Function -> (what, its value, a remark), in Python.  A test compares each value with `oracle.notation`.
DEFINITIONS = {
    "softmax": ("softmax(A)[i, j]", "exp(A[i, j]) / sum(exp(A[k, j]) for k in range(d))", "where A has d rows"),
    "GELU": ("GELU(x)", "x * Phi(x)", "for every entry x"),
    "Phi": ("Phi(x)", "(1 + erf(x / sqrt(2))) / 2", ""),
    "GELU_tanh": ("GELU_tanh(x)", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))", "for every entry x"),
    "ReLU": ("ReLU(x)", "max(0, x)", "for every entry x"),
    "SiLU": ("SiLU(x)", "x / (1 + exp(-x))", "for every entry x"),
    "ramp": ("ramp(x, a, b)", "max(0, min(1, (x - a) / (b - a)))", "; a step at a where a = b"),
    "bucket": ("bucket(r, b)", "", "is T5's bucket, from 0 to 31, of the distance r; b: later tokens are seen"),
}


def definitions(program: Program) -> Iterator[Line]:
    """One line for every function that the lines of a model name, and for those that these need."""
    used = {n.id for name in program.executed for n in ast.walk(program[name]) if isinstance(n, ast.Name)}
    formula = Formulas(program, scalars={"x"}, indices={"j", "k"})
    for name, (what, value, remark) in DEFINITIONS.items():
        if name in used:
            used |= {n.id for n in ast.walk(ast.parse(value)) if isinstance(n, ast.Name)}
            node: Node = formula(_expression(what))
            shown = Infix("=", node, formula(_expression(value))) if value else node
            yield Line("", 0, (shown, remark) if remark else (shown,))


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body

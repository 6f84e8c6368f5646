"""Partial evaluation: the oracle's source and one config -> the statements that this model executes.

Choices of the config are decided (`if c.…`, TABLE[c.…], a choice that has no number of its own), and a
parameter that the model lacks is a 0 that folds away.  Sizes stay symbols or become numbers.  What comes out
is Python again: compiled, it computes bitwise what the oracle computes.
"""

from __future__ import annotations

import ast
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from types import CodeType
from typing import Any

from transformulary.errors import ConfigError
from transformulary.oracle.source import Source, read
from transformulary.paper import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Mask,
    PreEDTransformerConfig,
    TwoStacks,
    parameters,
)
from transformulary.paper.parameters import leaves
from transformulary.paper.practice import Inference, Practice, Training
from transformulary.paper.top import GIVES_TOKENS, Top
from transformulary.pseudocode.notation import HIDDEN
from transformulary.pseudocode.rewriting import Rewriter, replaced, written

PAPER, LOAD = Practice(), ast.Load()
#: What is printed for d_e in Algorithm 6 where it norms vectors of several widths.
WIDTH = "d"
#: The architecture of each config, which is where a run begins.
ROOTS: dict[type, str] = {
    EDTransformerConfig: "8",
    PreEDTransformerConfig: "8a",
    ETransformerConfig: "9",
    DTransformerConfig: "10",
}


class Program:
    """The oracle's algorithms as one model executes them.

    config    the model's
    numbers   whether sizes are the model's numbers or symbols
    practice  how it is trained and used
    widths    whether Algorithm 6 has a width of its own; as a rule where the model norms vectors of several
    top       what stands on top of an encoder's layers
    """

    def __init__(
        self,
        config: Config,
        numbers: bool = False,
        source: Source | None = None,
        practice: Practice = PAPER,
        widths: bool | None = None,
        top: Top = GIVES_TOKENS,
    ) -> None:
        self.config, self.numbers, self.source, self.practice = config, numbers, source or read(), practice
        self.widths, self.top = widths_differ(config, top) if widths is None else widths, top
        self._done: dict[str, ast.FunctionDef] = {}

    def __getitem__(self, name: str) -> ast.FunctionDef:
        """The specialised function `name`.  Raises ConfigError where it is for another architecture."""
        if name not in self._done:
            self._done[name] = self._specialised(self.source.functions[name])
        return self._done[name]

    def _specialised(self, function: ast.FunctionDef) -> ast.FunctionDef:
        wanted = architecture(function)
        if wanted not in ("", "Any", type(self.config).__name__):
            raise ConfigError(
                f"Algorithm {self.source.numbers[function.name]} is for a {wanted}, and this model is a "
                f"{type(self.config).__name__}, which runs Algorithm {ROOTS[type(self.config)]}."
            )
        if self.top.gives != "tokens" and function.name == ETransformerConfig.__name__.removesuffix("Config"):
            function = _without_top(function)
        if self.widths:
            function = _Width().visit(function)
        return _Specialiser(self, function).result

    @cached_property
    def in_symbols(self) -> Program:
        """The same with the paper's symbols for sizes."""
        if not (self.numbers or self.widths):
            return self
        return Program(self.config, source=self.source, practice=self.practice, widths=False, top=self.top)

    @cached_property
    def executed(self) -> list[str]:
        """The names of all algorithms that the model's forward pass executes, in the order of their numbers."""
        return self.executed_by(ROOTS[type(self.config)], *(["9c"] if self.top.gives == "classes" else []))

    def executed_by(self, *numbers: str) -> list[str]:
        """The names of all algorithms that these execute, in the order of their numbers."""
        todo, found = [self.source.name(number) for number in numbers], set[str]()
        while todo:
            name = todo.pop()
            if name and name not in found:
                found.add(name)
                todo += mentioned(self[name]) & self.source.numbers.keys()
        return sorted(found, key=lambda name: order(self.source.numbers[name]))

    def visible(self, name: str) -> tuple[list[ast.arg], list[ast.arg]]:
        """The arguments of a function that its lines use, and so its callers print: (inputs, parameters).

        The bar between them is the signature's `/`; sequences of tokens are inputs wherever they stand.
        """
        function = self[name]
        used = mentioned(function) - HIDDEN
        shown = [a for a in (*function.args.posonlyargs, *function.args.args) if a.arg in used]
        before = [a for a in shown if a in function.args.posonlyargs or "Sequence" in annotation(a)]
        return before, [a for a in shown if a not in before]

    @cached_property
    def no_beta(self) -> bool:
        """Whether no norm of the model has an offset, so that Algorithm 6 has none."""
        return not any("beta" in name for name, _, _ in leaves(parameters(self.config), self.config))


def how(function: ast.FunctionDef, practice: Practice) -> Training | Inference | None:
    """What a function chooses beside the model's config, by the annotation of its argument `how`."""
    kinds: dict[str, Training | Inference] = {"Training": practice.training, "Inference": practice.inference}
    return next((kinds[annotation(a)] for a in function.args.args if a.arg == "how"), None)


def papers_program(name: str) -> Program:
    """The algorithms with the paper's choices, for the architecture that the algorithm `name` is for, if it is for one.

    Their sizes do not show, they are symbols.
    """
    source = read()
    kind = next((k for k in ROOTS if k.__name__ == architecture(source.functions[name])), DTransformerConfig)
    return _papers_program(kind, "rms_norm" if source.numbers[name] == "6r" else "layer_norm")


@cache
def _papers_program(kind: type, norm: str) -> Program:
    layers: Any = {"L_enc": 2, "L_dec": 2} if issubclass(kind, TwoStacks) else {"L": 2}
    return Program(kind(N_V=2, ell_max=2, H=2, d_e=4, d_mlp=2, norm=norm, **layers))


def widths_differ(config: Config, top: Top = GIVES_TOKENS) -> bool:
    """Whether norms work at two widths, d_e and d_f or d_attn, so that the width in Algorithm 6 is not always d_e."""
    d_f = getattr(config, "d_f", config.d_e) if top.gives == "tokens" else config.d_e
    others = (d_f, config.d_attn if config.qk_norm else config.d_e)
    return any(width != config.d_e for width in others)


def _without_top(function: ast.FunctionDef) -> ast.FunctionDef:
    """Algorithm 9 up to line 9, which returns what its layers leave."""
    *body, end = function.body
    layers = max(i for i, statement in enumerate(body) if isinstance(statement, ast.For))
    return replaced(function, body=[*body[: layers + 1], replaced(end, value=ast.Name("X", LOAD))])


def order(number: str) -> tuple[int, str]:
    """Sorts "4", "4r", "5", "10"."""
    digits = number.rstrip("abcdefghijklmnopqrstuvwxyz")
    return int(digits), number.removeprefix(digits)


def architecture(function: ast.FunctionDef) -> str:
    """The config that a function takes: "DTransformerConfig"; "Any" or "" where it runs in all architectures."""
    return next((annotation(a) for a in function.args.args if a.arg == "c"), "")


def annotation(argument: ast.arg) -> str:
    """The annotation of an argument as text, "" without one."""
    return written(argument.annotation) if argument.annotation else ""


def exact(value: float, node: ast.BinOp) -> bool:
    """Whether a number is that of two numbers as they are written: 1 - 0.5 is 0.5, but 1 - 0.9 is not quite 0.1."""
    written = {"a": node.left, "b": node.right}
    numbers = {name: Decimal(repr(side.value)) for name, side in written.items() if isinstance(side, ast.Constant)}
    code = ast.fix_missing_locations(ast.Expression(ast.BinOp(ast.Name("a", LOAD), node.op, ast.Name("b", LOAD))))
    return Decimal(repr(value)) == eval(compile(code, "<numbers>", "eval"), {"__builtins__": {}}, numbers)  # type: ignore[no-any-return]


def is_number(node: ast.AST | None, value: float) -> bool:
    """Whether a node is the literal number `value`."""
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == value


def cycle(masks: tuple[Mask, ...]) -> tuple[Mask, ...]:
    """The shortest cycle of masks that gives every layer the same one."""
    n = len(masks)
    return next((masks[:k] for k in range(1, n + 1) if n % k == 0 and masks == masks[:k] * (n // k)), ())


def is_mask(node: ast.AST) -> bool:
    """Whether a node is the mask of a layer: c.mask[…]."""
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "mask"


def is_cycle(node: ast.AST) -> bool:
    """Whether a node is the mask of layer l where masks alternate: c.mask[l % 2]."""
    return is_mask(node) and not isinstance(node.slice, ast.Constant)  # type: ignore[attr-defined]


def is_size(statement: ast.stmt) -> bool:
    """Whether a statement only names sizes: H, H_kv = len(W.W_q), len(W.W_k)."""
    if not isinstance(statement, ast.Assign):
        return False
    values = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
    return all(map(_is_length, values))


def _is_length(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="len")) | ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def names(target: ast.expr) -> list[str]:
    """The names that an assignment binds."""
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name)]


@lru_cache(maxsize=1024)
def mentioned(function: ast.FunctionDef) -> frozenset[str]:
    """The names that the lines of a function mention."""
    return frozenset(n.id for statement in function.body for n in ast.walk(statement) if isinstance(n, ast.Name))


@lru_cache(maxsize=1024)
def choice(node: ast.expr) -> CodeType | None:
    """The code of an expression that uses nothing but the config; None of any other."""
    parts = list(ast.walk(node))
    used = {n.id for n in parts if isinstance(n, ast.Name)}
    if not used <= {"c", "how", "len"} or any(isinstance(n, ast.Lambda | ast.GeneratorExp) for n in parts):
        return None
    return compile(ast.fix_missing_locations(ast.Expression(node)), "<choice>", "eval")


class _Substitute(Rewriter):
    def __init__(self, values: dict[str, ast.expr]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node


class _Specialiser(Rewriter):
    """One function under one config."""

    def __init__(self, program: Program, function: ast.FunctionDef) -> None:
        self.program, self.config, self.source = program, program.config, program.source
        self.path = self.source.files[function.name]
        self.chosen: dict[str, Any] = {"c": program.config, "how": how(function, program.practice)}
        self.sizes = self._sizes(function)
        values: dict[str, ast.expr] = {
            argument.arg: ast.Constant(None)
            for argument, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
            if isinstance(default, ast.Constant) and default.value is None
        }
        if program.numbers:
            told = {a.arg for a in function.args.kwonlyargs} & set(program.practice.told)
            values |= {name: ast.Constant(program.practice.told[name]) for name in told}
        if program.no_beta:
            values["beta"] = ast.Constant(0)
        if program.numbers:
            values |= {name: ast.Constant(size) for name, size in self.sizes.items()}
        self.result = replaced(function, body=self._block(function.body, values))

    def _sizes(self, function: ast.FunctionDef) -> dict[str, int]:
        """The sizes that a function names itself and that are the config's: d_attn = len(...)."""
        found = {name for s in function.body if is_size(s) for name in names(s.targets[0])}  # type: ignore[attr-defined]
        return {name: getattr(self.config, name) for name in found if hasattr(self.config, name)}

    def _block(self, statements: list[ast.stmt], values: dict[str, ast.expr]) -> list[ast.stmt]:
        """Specialise statements; a choice without a number of its own is put in place."""
        out: list[ast.stmt] = []
        for statement in statements:
            chooses = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.IfExp)
            chosen = chooses and not self.source.label(self.path, statement)
            new = self.visit(_Substitute(values).visit(statement) if values else statement)
            for s in new if isinstance(new, list) else [new]:
                if chosen:
                    values = values | {names(s.targets[0])[0]: s.value}
                else:
                    out.append(s)
        return out

    def _known(self, node: ast.expr) -> tuple[bool, Any]:
        """(True, value) of an expression that uses nothing but the config."""
        code = choice(node)
        return bool(code), code and eval(code, {"__builtins__": {"len": len}, **self.chosen})

    # statements

    def visit_If(self, node: ast.If) -> Any:
        known, value = self._known(node.test)
        if not known:
            return self.parts(node)
        return self._block(node.body if value else node.orelse, {})

    def visit_For(self, node: ast.For) -> ast.For:
        return replaced(node, iter=self.visit(node.iter), body=self._block(node.body, {}))

    def visit_While(self, node: ast.While) -> ast.While:
        return replaced(node, test=self.visit(node.test), body=self._block(node.body, {}))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return replaced(node, body=self._block(node.body, {}))

    # expressions

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        known, value = self._known(node.test)
        return self.visit(node.body if value else node.orelse) if known else self.parts(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in self.chosen:
            value = getattr(self.chosen[node.value.id], node.attr)
            always = node.value.id == "c" and type(value) is float
            literal = always or (type(value) in (int, float) and self.program.numbers)
            return ast.Constant(value) if literal else node
        if node.attr in self.config.absent:
            return ast.Constant(0)
        return self.parts(node)

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """TABLE[c.…] is the entry; a member of an absent parameter is 0; c.mask[l % k] is a cycle of masks."""
        if isinstance(node.value, ast.Name) and (table := self.source.tables.get(node.value.id)):
            known, key = self._known(node.slice)
            assert known, f"{ast.unparse(node)} must be decided by the config"
            return self.visit(table[key])
        if is_mask(node):
            return self._masks(node)
        new = self.parts(node)
        return ast.Constant(0) if is_number(new.value, 0) else new

    def _masks(self, node: ast.Subscript) -> ast.expr:
        """c.mask[0] where all layers have the same mask, else c.mask[l % 2]: values, which print as their rules."""
        period = len(cycle(self.config.mask))  # type: ignore[union-attr]
        return replaced(node, slice=ast.Constant(0) if period == 1 else _Length(period).visit(node.slice))

    def visit_Call(self, node: ast.Call) -> Any:
        new = self.parts(node)
        if isinstance(new.func, ast.Lambda):
            given = {a.arg: value for a, value in zip(new.func.args.args, new.args, strict=True)}
            return self.visit(_Substitute(given).visit(new.func.body))
        return new

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        new = self.parts(node)
        a, b = new.left, new.right
        sizes = [self.sizes.get(getattr(x, "id", "")) for x in (a, b)]
        match node.op:
            case ast.FloorDiv() if all(sizes) and sizes[0] == sizes[1]:  # H // H_kv: no groups
                return ast.Constant(1)
            case ast.Add() if is_number(a, 0):
                return b
            case ast.Add() | ast.Sub() if is_number(b, 0):
                return a
            case ast.Mult() | ast.MatMult() if is_number(a, 0) or is_number(b, 0):
                return ast.Constant(0)
            case ast.Mult() if is_number(a, 1):
                return b
            case ast.Mult() | ast.Div() | ast.FloorDiv() if is_number(b, 1):
                return a
        if all(isinstance(x, ast.Constant) for x in (a, b)) and exact(value := self._known(new)[1], new):
            return ast.Constant(value)
        return new


class _Width(Rewriter):
    """Algorithm 6 with d, the width of its vector, which is not always d_e."""

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return replaced(node, id=WIDTH) if node.id == "d_e" else node


class _Length(Rewriter):
    """len(c.mask) as a number."""

    def __init__(self, length: int) -> None:
        self.length = length

    def visit_Call(self, node: ast.Call) -> Any:
        return ast.Constant(self.length)

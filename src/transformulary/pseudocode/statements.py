"""Statements of a specialised algorithm as numbered lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from transformulary.pseudocode.formulas import Formulas, series
from transformulary.pseudocode.layers import layers
from transformulary.pseudocode.nodes import (
    Apply,
    Big,
    Entry,
    Frac,
    Infix,
    Line,
    Node,
    Num,
    Power,
    Prefix,
    Sym,
    Words,
)
from transformulary.pseudocode.notation import member
from transformulary.pseudocode.rewriting import written
from transformulary.pseudocode.specialise import Program, annotation, cycle, is_cycle, names, order

Parts = tuple[Node | str, ...]


@lru_cache(maxsize=128)
def lines(program: Program, name: str) -> tuple[Line, ...]:
    """The lines of one algorithm with the paper's numbers, its numbered `end`s included."""
    return tuple(_Lines(program, name).block(program[name].body, 0))


class _Lines:
    """The lines of one function."""

    def __init__(self, program: Program, name: str) -> None:
        self.source, self.path = program.source, program.source.files[name]
        arguments = program[name].args
        positions = (a.arg for a in arguments.posonlyargs + arguments.args if annotation(a) in ("Token", "Position"))
        self.numbers = program.numbers
        self.config, self.formula = program.config, Formulas(program, positions, arrays=arrays(program[name]))

    def label(self, statement: ast.stmt) -> str:
        return self.source.label(self.path, statement) or ""

    def block(self, body: list[ast.stmt], depth: int) -> Iterator[Line]:
        for statement, following in zip(body, [*body[1:], None], strict=True):
            if remark := self.source.notes.get((self.path, statement.lineno - 1)):
                yield Line("", depth, (f"-- {remark}",))
            yield from self.statement(statement, following, depth)

    def statement(self, s: ast.stmt, following: ast.stmt | None, depth: int) -> Iterator[Line]:
        """The lines of one statement; one without a number has none."""
        label = self.label(s)
        match s:
            case ast.For():
                yield from self.masks_by_layer(s, depth)
                yield from self.loop(("for", *self.counted(s), "do"), s.body, label, depth)
                if isinstance(following, ast.Return) and not self.label(following):  # what a loop leaves
                    yield Line("", depth, ("return", self.formula(following.value)))  # type: ignore[arg-type]
            case ast.While():
                yield from self.loop(("while", self.formula(s.test), "do"), s.body, label, depth)
            case ast.If(body=[ast.Return(value=ast.expr() as value) as end]):
                yield Line(self.label(end), depth, ("if", self.formula(s.test), "then", "return", self.formula(value)))
            case ast.FunctionDef():
                yield from self.loss(s, depth)
            case ast.Return(value=ast.expr() as value) if label:
                yield Line(label, depth, ("return", self.formula(value)))
            case ast.Assign() if label and self.returns(following, s.targets[0]):
                yield Line(label, depth, ("return", Infix("=", self.formula(s.targets[0]), self.formula(s.value))))
            case ast.Assign() if label:
                yield from self.assignment(s, label, depth)

    def returns(self, following: ast.stmt | None, target: ast.expr) -> bool:
        """Whether what follows only returns `target`: the two are one line in print."""
        unnumbered = isinstance(following, ast.Return) and not self.label(following)
        return unnumbered and written(following.value) == written(target)  # type: ignore[union-attr]

    # loops

    def loop(self, head: Parts, body: list[ast.stmt], label: str, depth: int) -> Iterator[Line]:
        """A loop, whose `end` has the number after its last line's."""
        yield Line(label, depth, head)
        last = label
        for line in self.block(body, depth + 1):
            last = line.label or last
            yield line
        yield Line(str(order(last)[0] + 1), depth, ("end",))

    def counted(self, s: ast.For) -> Iterator[Node | str]:
        """l = 1, 2, …, L; n ∈ B"""
        if isinstance(s.iter, ast.Name):
            yield Infix("∈", self.formula.symbol(written(s.target)), self.formula(s.iter))
            return
        first, *others = series(self.formula(s.iter.args[0]))  # type: ignore[attr-defined]
        yield Infix("=", self.formula.symbol(written(s.target)), first)
        for value in others:
            yield from (",", value)

    def masks_by_layer(self, s: ast.For, depth: int) -> Iterator[Line]:
        """Where masks differ, what Mask_l is: one rule for all layers that have it."""
        masks, l = cycle(getattr(self.config, "mask", ())), Sym("l")
        if len(masks) < 2 or not any(map(is_cycle, ast.walk(s))):
            return
        for mask, which in layers(masks, self.config.L).items():  # type: ignore[union-attr]
            yield Line("", depth, (self.formula.mask_is(mask, member("Mask", l)), "for", *which))

    def loss(self, function: ast.FunctionDef, depth: int) -> Iterator[Line]:
        """A function of theta inside an algorithm: P(theta) ← …, loss(theta) = …"""
        at = Sym(function.args.args[0].arg)
        for s in function.body:
            if isinstance(s, ast.Assign):
                self.formula.given[written(s.targets[0])] = at
                yield from self.assignment(s, self.label(s), depth)
            if isinstance(s, ast.Return) and s.value:
                left = Apply(Words(function.name), (at,))
                yield Line(self.label(s), depth, (Infix("=", left, self.formula(s.value)),))

    # assignments

    def assignment(self, s: ast.Assign, label: str, depth: int) -> Iterator[Line]:
        """One assignment, in the form that its right-hand side asks for."""
        target = s.targets[0]
        match s.value:
            case ast.ListComp() as members:
                yield from self.family(target, members, label, depth)
            case ast.Call(func=ast.Name(id="columns"), args=[ast.GeneratorExp() as vectors]):
                t = vectors.generators[0].target
                column = ast.Subscript(target, ast.Tuple([ast.Slice(), t]))
                yield Line(label, depth, (*self.each(vectors.generators[0]), self.becomes(column, vectors.elt)))
            case ast.Call(func=ast.Name(id="matrix"), args=[ast.GeneratorExp(elt=ast.ListComp() as row) as entries]):
                at = [entries.generators[0].target, row.generators[0].target]
                entry = ast.Subscript(target, ast.Tuple(at))
                yield Line(label, depth, (*self.for_all(at), self.becomes(entry, row.elt)))
            case ast.Call(func=ast.Name(id="where"), args=[ast.Call(args=at) as condition, _, otherwise]):
                entry = ast.Subscript(target, ast.Tuple(at))
                unless = Prefix("¬", self.formula(condition))
                yield Line(label, depth, (*self.for_all(at), "if", unless, "then", self.becomes(entry, otherwise)))
            case ast.Call(func=ast.Name(id="sample"), args=[q, _]):
                yield Line(label, depth, self.sampled(self.formula(target), q))
            case ast.Call(func=ast.Name(id="proportional"), args=[p, tau]):
                yield from self.tempered(p, self.formula(tau), label, depth)
            case ast.Call(func=ast.Name(id="appended"), args=[_, item]):
                yield Line(label, depth, ("append", self.formula(item), "to", self.formula(target)))
            case ast.Call(func=ast.Name(id="shuffled")):
                yield Line(label, depth, ("put", self.formula(target), "in random order"))
            case ast.Call(func=ast.Name(id="randomly"), args=[a, b, p, _]):
                first = self.becomes(target, a)
                yield Line(label, depth, (first, "with probability", self.formula(p), ", else", self.formula(b)))
            case value:
                yield Line(label, depth, (self.becomes(target, value),))
                self.formula.families.pop(written(target), None)

    def sampled(self, y: Node, q: ast.expr) -> Parts:
        """sample a token y from q ∝ p^{1/τ}; at τ = 0 the most probable one is taken."""
        if not isinstance(q, ast.Call):
            return ("sample a token", y, "from", self.formula(q))
        p, tau = map(self.formula, q.args)
        if tau == Num(0):
            return (Infix("←", y, Apply(Words("argmax"), (p,))),)
        return ("sample a token", y, "from", p if tau == Num(1) else Infix("∝", Sym("q"), tempered(p, tau)))

    def tempered(self, p: ast.expr, tau: Node, label: str, depth: int) -> Iterator[Line]:
        """p ← p^{1/τ} / (the sum of its entries); at τ = 1 there is no such line."""
        if tau != Num(1):
            u, N_V = Sym("u", plain=True), Num(self.config.N_V) if self.numbers else Sym("N_V")
            total = Big(Infix("=", u, Num(1)), N_V, tempered(Entry(self.formula(p), (u,)), tau))
            yield Line(label, depth, (Infix("←", self.formula(p), Frac(tempered(self.formula(p), tau), total)),))

    def becomes(self, target: ast.expr, value: ast.expr) -> Node:
        right = self.formula(value)  # before the target, which this line may bind anew
        return Infix("←", self.formula(target), right)

    def each(self, generator: ast.comprehension) -> Parts:
        return ("for", self.formula.range(generator), ":")

    def for_all(self, indices: list[ast.expr]) -> Parts:
        first, *others = (self.formula.symbol(written(i)) for i in indices)
        return ("∀", first, *(part for i in others for part in (",", i)), ":")

    def family(self, target: ast.expr, members: ast.ListComp, label: str, depth: int) -> Iterator[Line]:
        """for t ∈ [ell]: e_t ← …; two lines where the member has a number of its own (Algorithm 5).

        Members that i numbers are the entries of a vector: a[i].
        """
        name, generator = written(target), members.generators[0]
        right = self.formula(members.elt)
        if written(generator.target) != "i":
            self.formula.families[name] = generator
        left = self.formula(ast.Subscript(target, generator.target))
        own = self.source.labels.get((self.path, members.elt.end_lineno or 0), label)
        if own == label:
            yield Line(label, depth, (*self.each(generator), Infix("←", left, right)))
        else:
            yield Line(label, depth, self.each(generator))
            yield Line(own, depth + 1, (Infix("←", left, right),))


@lru_cache(maxsize=128)
def arrays(function: ast.FunctionDef) -> frozenset[str]:
    """The names that are arrays in a function, though elsewhere they are numbers.

    They are vectors made entry by entry, and in training the gradient, and what an optimiser remembers.
    """
    found = set[str]()
    for s in function.body:
        match s:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp(generators=[one])) if (
                written(one.target) == "i"
            ):
                found.add(name)
            case ast.Assign(targets=[target], value=ast.Name(id="omega")):
                found |= {*names(target)}
    return frozenset(found | {"g", "omega"} if any(annotation(a) == "Training" for a in function.args.args) else found)


def tempered(p: Node, tau: Node) -> Node:
    """p^{1/τ}"""
    return Power(p, Frac(Num(1), tau))

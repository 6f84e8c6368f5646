"""The head of a box: title, inputs, output, hyperparameters and parameters, with the spaces that they are in.

The parameters of Algorithms 8-10 come from the table that also counts them (`paper.parameters`); what the
paper's smaller boxes declare, and the spaces, are in `spaces`, spelled in the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby

from transformulary.paper import parameters
from transformulary.paper.parameters import POSITIONAL, QK_NORM, Shapes, size, split
from transformulary.pseudocode.credits import IN_THE_TEXT, MISPRINTED
from transformulary.pseudocode.nodes import Apply, Box, Entry, Fence, Infix, Line, Node, Num, Power, Sym, Words
from transformulary.pseudocode.notation import member
from transformulary.pseudocode.spaces import GENERIC, PARAMETERS, RESULTS, SETS, SPACES, SPECIAL, TOLD
from transformulary.pseudocode.specialise import ROOTS, WIDTH, Program, annotation, mentioned, papers_program
from transformulary.pseudocode.statements import Parts, arrays, lines

_NEXT, _KNOWN = Entry(Sym("x"), (Infix("+", Sym("t"), Num(1)),)), Entry(Sym("x"), (Infix(":", Num(1), Sym("t")),))
_MODEL = Sym("P_hat", low=(Sym("theta"),))
#: What column t of P is: the distribution of the next token, or of a token at place t.
COLUMNS: dict[str, Parts] = {
    "8": (Apply(_MODEL, (_NEXT,), (_KNOWN, Sym("z"))),),
    "8a": (Apply(_MODEL, (_NEXT,), (_KNOWN, Sym("z"))),),
    "9": ("a distribution over", SETS["V"]),
    "10": (Apply(_MODEL, (_NEXT,), (_KNOWN,)),),
}
#: The sizes of an architecture, in the paper's order.
SIZES = ("N_V", "ell_max", "L", "L_enc", "L_dec", "H", "H_kv", "d_e", "d_attn", "d_mid", "d_mlp", "d_f", "segments")
#: What a bundle is: one more Algorithm 5; attention between sequences has no buckets of distances.
BUNDLES: dict[str, Parts] = {
    "bundle": (": parameters of Algorithm 5",),
    "bundle without B": (": parameters of Algorithm 5, where", Infix("=", Sym("B", high=(Sym("h"),)), Num(0))),
}
#: The letter that counts the members of a family.
LETTERS = {"L": "l", "L_enc": "l", "L_dec": "l", "H": "h", "H_kv": "g"}


def box(program: Program, name: str) -> Box:
    """One algorithm of a model as the paper prints it."""
    head = _Head(program, name)
    sections = {
        "Input": [Line("", 0, head.input())],
        "Output": [Line("", 0, head.output())],
        "Hyperparameters": [Line("", 0, head.hyperparameters())],
        "Parameters": list(head.parameters()),
    }
    kept = ((heading, tuple(row for row in rows if row.parts)) for heading, rows in sections.items())
    shown = tuple((heading, rows) for heading, rows in kept if rows)
    printed = lines(program, name)
    return Box(head.number, head.title(), credit(program, name), shown, printed)


def papers_lines(name: str) -> tuple[Line, ...]:
    """The lines of one algorithm as the paper prints them."""
    return lines(papers_program(name), name)


def credit(program: Program, name: str) -> str:
    """What an algorithm owes to the paper.

    Lines and parameters are the paper's, but for a misprint or not, or some are not; or it is no algorithm there.
    """
    number = program.source.numbers[name]
    if not number.isdigit() and number not in IN_THE_TEXT:
        return "added to"
    ours, papers = ((lines(p, name), *_Head(p, name).parameters()) for p in (program.in_symbols, papers_program(name)))
    if ours != papers:
        return "adapted from"
    if number in IN_THE_TEXT:
        return "from the text of"
    return "corrected from" if number in MISPRINTED else "from"


class _Head:
    """The head of one function's box."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.config, self.function = program, program.config, program[name]
        self.name, self.number = name, program.source.numbers[name]
        self.given, self.rest = program.visible(name)
        self.bar = bool(self.function.args.posonlyargs)
        self.results = results(self.function)

    def title(self) -> Node:
        given, rest = (tuple(map(self.argument, group)) for group in (self.given, self.rest))
        call = Apply(Words(self.name), given, rest) if self.bar else Apply(Words(self.name), given + rest)
        shown = tuple(map(self.symbol, self.results))
        return Infix("←", shown[0] if len(shown) == 1 else Fence("()", shown), call)

    def symbol(self, name: str) -> Sym:
        return Sym(name, plain=False if name in arrays(self.function) else None)

    def argument(self, a: ast.arg) -> Node:
        """An argument in the title: x, or x_{1:N_data} if it is a family."""
        if _count(a):
            return member(a.arg, Infix(":", Num(1), Sym(_count(a))))
        return Sym(a.arg, plain=True) if annotation(a) in ("Token", "Position") else self.symbol(a.arg)

    def input(self) -> Parts:
        """x ∈ V*; families are e_t ∈ … for t ∈ [T].  Training and inference take theta as an input too."""
        parts: Parts = ()
        for count, group in groupby(self.given if self.bar else self.given + self.rest, _count):
            arguments = list(group)
            index = Sym("t" if count == "T" else "n")
            symbols = [member(a.arg, index) if count else self.argument(a) for a in arguments]
            found = self.members((s, self.space(SPACES[a.arg])) for s, a in zip(symbols, arguments, strict=True))
            every: Parts = ("for", Infix("∈", index, Fence("[]", (Sym(count),)))) if count else ()
            parts += (*((";",) if parts else ()), *found, *every)
        return (*parts, ", where", SETS["A"], "is any set") if self.generic else parts

    def output(self) -> Parts:
        found = self.members((self.symbol(name), self.space((SPACES | RESULTS)[name])) for name in self.results)
        return (*found, "; column", Sym("t"), "is", *COLUMNS[self.number]) if self.results == ["P"] else found

    def hyperparameters(self) -> Parts:
        """What the paper calls so: sizes, the mask, and what training and inference are told."""
        used = mentioned(self.function)
        told = [a.arg for a in self.rest if a.arg == "Mask" or annotation(a) == "float"]
        told += [a.arg for a in self.function.args.kwonlyargs]
        chosen = [(Sym(name), self.space(SPACES[name])) for name in told if name in SPACES and name in used]
        chosen += [(Sym(name), self.space(space)) for name, space in self.told()]
        if self.program.numbers:
            equal = [Infix("=", Sym(name), Num(self.size(name))) for name in self.sizes()]
            return _listed([*equal, *(Infix("∈", *pair) for pair in chosen)])
        return self.members([*((Sym(name), SETS["naturals"]) for name in self.sizes()), *chosen])

    def told(self) -> Iterator[tuple[str, str]]:
        """What else the lines name that the rest of the head does not: what is practised, and sizes.

        An algorithm of the paper as it is printed there declares what it declares there.
        """
        printed = lines(self.program, self.name)
        if self.number.isdigit() and printed == papers_lines(self.name):
            return iter(())
        here = set(symbols(printed))
        head = [self.input(), self.output(), *(row.parts for row in self.parameters())]
        known = {*self.sizes(), *symbols(Line("", 0, parts) for parts in head)} | ({"N_V"} if self.is_root else set())
        return ((name, space) for name, space in (TOLD | SPECIAL).items() if name in here - known)

    @property
    def generic(self) -> bool:
        """Whether it makes batches of whatever it is given: whole sequences, or numbers of pairs (Algorithm 11)."""
        return self.name == "batches" and not self.program.practice.training.chunks

    @property
    def is_root(self) -> bool:
        """Whether it is the algorithm of the whole model."""
        return self.number == ROOTS[type(self.config)]

    def sizes(self) -> list[str]:
        """The sizes that the box declares: the paper's, and the others where they are not what the paper has."""
        c = self.config
        usual = {"d_attn": c.d_e // c.H, "d_mid": c.d_attn, "H_kv": c.H, "segments": 0}
        if self.program.numbers:
            del usual["d_attn"]
        kept = [name for name in SIZES if hasattr(c, name) and getattr(c, name) != usual.get(name)]
        if self.number == "5":
            return [name for name in kept if name in ("H", "H_kv")]
        if self.number == "9c" and self.program.numbers:
            return ["N_C"]
        if not self.is_root:
            return []
        if self.program.top.gives != "tokens":
            kept.remove("d_f")
        return kept if self.program.numbers else kept[1:]  # the paper does not list N_V

    def size(self, name: str) -> int:
        return self.program.top.N_C if name == "N_C" else int(getattr(self.config, name))

    # parameters

    def parameters(self) -> Iterator[Line]:
        if self.is_root:
            yield from self.table(parameters(self.config, self.program.top))
        elif self.number in PARAMETERS:
            extra = (QK_NORM if self.config.qk_norm else {}) | POSITIONAL.get(self.config.positions, {})
            extra = extra if self.number in ("4", "5") else {}
            extra = {name if self.number == "5" else split(name)[0]: shape for name, shape in extra.items()}
            table = {name: s for name, s in (PARAMETERS[self.number] | extra).items() if self.has(split(name)[0])}
            yield from self.table(table)

    def has(self, name: str) -> bool:
        return name not in self.config.absent and not (name == "beta" and self.program.no_beta)

    def table(self, table: Shapes) -> Iterator[Line]:
        """Rows of a table of parameters: what there is once, and what there is for every layer or head."""
        for count, entries in groupby(table.items(), lambda entry: self.count(split(entry[0])[1])):
            rows = list(self.rows(LETTERS.get(count, ""), [(split(name)[0], shape) for name, shape in entries]))
            if not count:
                yield from (Line("", 0, row) for row in rows)
                continue
            every: Parts = ("for", Infix("∈", Sym(LETTERS[count]), Fence("[]", (self.dimension(count),))), ":")
            if len(rows) == 1:
                yield Line("", 0, (*every, *rows[0]))
            else:
                yield Line("", 0, every)
                yield from (Line("", 1, row) for row in rows)
        if self.number == "5":
            yield Line("", 0, (self.one_head(table),))

    def count(self, count: str) -> str:
        return "H" if count == "H_kv" and self.config.H_kv == self.config.H else count

    def one_head(self, table: Shapes) -> Node:
        """W_qkv^h = (W_q^h, b_q^h, …); with groups W_qkv^{h,g}; norms are the same for all heads."""
        counted = [(name, Sym(LETTERS[self.count(count)])) for name, count in map(split, table) if count]
        of = tuple(dict.fromkeys(letter for _, letter in counted))
        parts = (*(member(*c, above=True) for c in counted), *(Sym(name) for name in table if name in QK_NORM))
        return Infix("=", member("W_qkv", of, above=True), Fence("()", parts))

    def rows(self, letter: str, entries: list[tuple[str, str | Shapes]]) -> Iterator[Parts]:
        """Rows like W_q^h ∈ …, b_q^h ∈ …: bundles, norms, and the others by four; a bundle is one Algorithm 5."""
        for kind, group in groupby(entries, self.kind):
            pairs = []
            for name, shape in group:
                symbol = member(name, Sym(letter), above=letter in "hg") if letter else Sym(name)
                pairs.append((symbol, self.space(shape) if isinstance(shape, str) else Words("Algorithm 5")))
            if kind.startswith("bundle"):
                yield (*_listed([symbol for symbol, _ in pairs]), *BUNDLES[kind])
                continue
            spaces = [list(same) for _, same in groupby(pairs, lambda pair: pair[1])]
            for start in range(0, len(spaces), 4):
                yield self.members(pair for same in spaces[start : start + 4] for pair in same)

    def kind(self, entry: tuple[str, str | Shapes]) -> str:
        """Parameters that share a row: bundles, norms, everything else."""
        name, shape = entry
        if isinstance(shape, dict):
            return "bundle without B" if self.config.positions == "bucketed" and "B[H]" not in shape else "bundle"
        return "norm" if name.startswith(("gamma", "beta")) else "other"

    # spaces

    def members(self, pairs: Iterable[tuple[Node, Node]]) -> Parts:
        """gamma, beta ∈ S, W ∈ T"""
        parts: list[Node | str] = []
        for space, group in groupby(pairs, lambda pair: pair[1]):
            *others, last = (symbol for symbol, _ in group)
            for shown in (*others, Infix("∈", last, space)):
                parts += [",", shown] if parts else [shown]
        return tuple(parts)

    def space(self, spec: str) -> Node:
        """The set that a spec of SPACES or a shape of the table of parameters means."""
        if self.generic:
            spec = GENERIC.get(spec, spec)
        if spec == "steps":
            return self.steps()
        if spec == "memory":
            two = self.program.practice.training.optimiser in ("adam", "adamw")
            return Power(self.space("d"), Num(2)) if two else self.space("d")
        if spec == SPACES["X"] and self.number in ("9", "9c"):
            spec = "d_e length(x)" if self.number == "9" else "d_e ell"
        first, *shape = spec.split()
        if first.startswith("[") and first not in SETS:
            base: Node = Fence("[]", (self.dimension(first[1:-1]),))
        else:
            base, shape = (SETS[first], shape) if first in SETS else (Sym("reals"), [first, *shape])
        return Power(base, reduce(lambda a, b: Infix("×", a, b), map(self.dimension, shape))) if shape else base

    def steps(self) -> Node:
        """The numbers of steps: all, or those of a part of a run."""
        if not self.program.practice.steps:
            return SETS["naturals"]
        first, last = self.program.practice.steps
        every = tuple(map(Num, range(first, last + 1)))
        return Fence("{}", every if len(every) <= 3 else (every[0], Words("…"), every[-1]))

    def dimension(self, word: str) -> Node:
        """A size as a symbol or as the model's number."""
        if word == "length(x)":
            return Apply(Words("length"), (Sym("x"),))
        if self.number == "3":
            word = word.replace("d_e", "d_in")
        elif self.program.numbers:
            word = {"d_x": "d_e", "d_z": "d_e", "d_out": "d_mid" if self.number == "4" else "d_e"}.get(word, word)
        if self.number.startswith("6") and self.program.widths:
            word = word.replace("d_e", WIDTH)
        factors = word.split("*")
        if self.program.numbers and all(f.isdigit() or hasattr(self.config, f) for f in factors):
            return Num(size(word, self.config))
        symbols: list[Node] = [Num(int(f)) if f.isdigit() else Sym(f) for f in factors]
        return reduce(lambda a, b: Infix("", a, b), symbols)


def symbols(rows: Iterable[Line]) -> Iterator[str]:
    """The names of all symbols in some lines."""

    def inside(part: object) -> Iterator[str]:
        match part:
            case Sym(name):
                yield name
            case str() | int() | float() | None:
                return
        for value in part if isinstance(part, tuple) else vars(part).values():
            yield from inside(value)

    return (name for row in rows for name in inside(row.parts))


def results(function: ast.FunctionDef) -> list[str]:
    """The names that a function returns."""
    end = function.body[-1]
    assert isinstance(end, ast.Return) and end.value
    return [n.id for n in ast.walk(end.value) if isinstance(n, ast.Name)]


def _count(a: ast.arg) -> str:
    """How many there are of an argument that is a family, "" if it is one thing."""
    return {"Sequences": "N_data", "Sequence[Array]": "T"}.get(annotation(a), "")


def _listed(nodes: list[Node]) -> Parts:
    return tuple(part for node in nodes for part in (",", node))[1:]

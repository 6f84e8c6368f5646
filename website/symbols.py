"""Symbols explained: beside each algorithm those that it prints, and all of them on one page."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from functools import reduce
from html import escape
from typing import Any

from transformulary.paper.meanings import MEANINGS
from transformulary.paper.symbols import GROUPS, SYMBOLS, Symbol
from transformulary.pseudocode.mathml import mathml
from transformulary.pseudocode.nodes import Box, Fence, Frac, Infix, Node, Num, Power, Sym, Words
from transformulary.pseudocode.spaces import SETS

_V = Sym("vocabulary")
#: Sets of the tables as formulas, by their spelling there.
SPACES: dict[str, Node] = {
    "N": Sym("naturals"),
    "R": Sym("reals"),
    "R^d": Power(Sym("reals"), Sym("d")),
    "V": _V,
    "V^ell": Power(_V, Sym("ell")),
    "V*": SETS["V*"],
    "Delta(V)": SETS["Delta(V)"],
    "{0,1}^(ell_z x ell_x)": Power(SETS["{0,1}"], Infix("×", Sym("ell_z"), Sym("ell_x"))),
    "(0,1)": SETS["(0,1)"],
    "[0,1]": Fence("[]", (Num(0), Num(1)), ","),
    "(0,oo)": SETS["(0,∞)"],
    "[0,oo)": Words("[0,∞)"),
    "[1,oo)": Words("[1,∞)"),
}


def nodes(tree: Any) -> Iterator[Any]:
    """Everything in a tree of pseudocode, in order."""
    yield tree
    if dataclasses.is_dataclass(tree):
        tree = tuple(getattr(tree, part.name) for part in dataclasses.fields(tree))
    if isinstance(tree, tuple):
        for part in tree:
            yield from nodes(part)


def words(tree: Any) -> Iterator[str]:
    """The names of functions in a tree of pseudocode, and its other words."""
    return (node.text for node in nodes(tree) if isinstance(node, Words))


def printed(tree: Any) -> Iterator[str]:
    """The names of the symbols in a tree of pseudocode."""
    return (node.name for node in nodes(tree) if isinstance(node, Sym))


def meaning(name: str, number: str = "") -> str:
    """What a symbol means, in Algorithm `number`; "" where nobody has said."""
    told = MEANINGS.get((number, name))
    return told or (SYMBOLS[name].meaning if name in SYMBOLS else "")


def legend(number: str, box: Box, others: Any = ()) -> str:
    """A list of the symbols of a box, and of other trees; what a symbol's hover shows is its entry here."""
    names = [name for name in dict.fromkeys(printed((box, others))) if meaning(name, number)]
    return _list(_entry(name, number, stated(box)) for name in names)


def legend_of(parts: Iterable[tuple[str, Any]]) -> str:
    """The same for a page of several algorithms, (number, tree) each: what a symbol is, and what else it is in one."""
    pairs = dict.fromkeys((number, name) for number, tree in parts for name in printed(tree))
    own = [pair for pair in pairs if pair in MEANINGS]
    names = dict.fromkeys(name for number, name in pairs if (number, name) not in own)
    entries = [_entry(name, "", {}) for name in names if meaning(name)]
    return _list((*entries, *(_entry(name, number, {}, f"{number}-") for number, name in own)))


def _list(entries: Iterable[str]) -> str:
    return f'<dl class="legend">{"".join(entries)}</dl>'


def stated(box: Box) -> dict[str, Infix]:
    """Symbol -> what the head of a box says that it is in: gamma ∈ R^{d_e}; of a family, each of its members."""
    found: dict[str, Infix] = {}
    for row in (row for _, rows in box.head for row in rows):
        before: list[Sym] = []
        for part in row.parts:
            match part:
                case Sym():
                    before.append(part)
                case Infix("∈", Sym() as last, space):
                    for symbol in (*before, last):
                        found.setdefault(symbol.name, Infix("∈", symbol, space))
                    before = []
                case text if text != ",":
                    before = []
    return found


def _entry(name: str, number: str, stated: dict[str, Infix], prefix: str = "") -> str:
    """One row; the prefix, "6-", is of a page on which the symbol has another meaning outside Algorithm 6."""
    symbol = SYMBOLS.get(name) if (number, name) not in MEANINGS else None
    space = shown(stated[name]) if name in stated else _usual(symbol)
    told = f"in Algorithm {number}: " * bool(prefix) + meaning(name, number)
    return f'<div id="symbol-{prefix}{name}">{_said(name, mathml(Sym(name)), told, space, symbol)}</div>'


def shown(member: Infix) -> str:
    """∈ V, or x_n ∈ V* of a family."""
    alone = isinstance(member.left, Sym) and not (member.left.low or member.left.high)
    return f"∈ {mathml(member.right)}" if alone else mathml(member)


def _usual(symbol: Symbol | None) -> str:
    """The set that the tables of symbols have."""
    return f"∈ {_space(symbol.space)}" if symbol and symbol.space else ""


def _said(name: str, drawn: str, meaning: str, space: str, symbol: Symbol | None) -> str:
    """How a symbol is drawn and spelled, what it means, where it is from, what others call it."""
    shown = f'<span class="space">{space}</span>' if space else ""
    others = f'<span class="others">{_others(symbol)}</span>' if symbol and symbol.others else ""
    return f"<dt>{drawn}<code>{escape(name)}</code></dt><dd>{escape(meaning)} {shown}{others}</dd>"


def _others(symbol: Symbol) -> str:
    """input_ids (GPT-2, Llama)"""
    whose: dict[str, list[str]] = {}
    for who, what in symbol.others.items():
        whose.setdefault(what, []).append(who)
    return ", ".join(f"<code>{escape(what)}</code> ({escape(', '.join(who))})" for what, who in whose.items())


def _space(space: str) -> str:
    """The set that a symbol is from: a shape (d_e x N_V), numbers up to a size ([N_V]), or one of SPACES."""
    if space in SPACES:
        return mathml(SPACES[space])
    if space.startswith("["):
        return mathml(Fence("[]", (Sym(space[1:-1]),))) if re.fullmatch(r"\[\w+\]", space) else escape(space)
    return mathml(Power(Sym("reals"), product(space.split(" x "))))


def product(sizes: Iterable[str]) -> Node:
    """Sizes as a product: d_e × N_V; a size may be two multiplied, H*d_mid, or a half, d_e/2."""
    return reduce(lambda a, b: Infix("×", a, b), map(_size, sizes))


def _size(word: str) -> Node:
    whole, half, two = word.partition("/")
    factors: list[Node] = [Num(int(factor)) if factor.isdigit() else Sym(factor) for factor in whole.split("*")]
    node: Node = reduce(lambda a, b: Infix("", a, b), factors)
    return Frac(node, Num(int(two))) if half else node


def page() -> str:
    """Every symbol, searchable under everybody's names for it."""
    parts = [f'<h2 id="{title.split()[0].lower()}">{title}</h2>{_table(rows)}' for title, rows in GROUPS.items()]
    return f"""<h1>Symbols</h1>
<p>A symbol is spelled as its LaTeX command without backslash and braces. <code>transformulary symbols NAME</code> finds
one by anybody's name for it: <code>symbols hidden_size</code> is <code>d_e</code>.</p>
{"".join(parts)}"""


def _table(rows: tuple[Symbol, ...]) -> str:
    return f'<dl class="legend all">{"".join(map(_row, rows))}</dl>'


def _row(symbol: Symbol) -> str:
    drawn = mathml(Sym(symbol.name)) if symbol.name.isidentifier() else escape(symbol.unicode)
    said = _said(symbol.name, drawn, symbol.meaning, _usual(symbol), symbol)
    return f'<div id="{anchor(symbol.name)}" data-title="{escape(symbol.name)}">{said}</div>'


def anchor(name: str) -> str:
    """The id of a symbol on its page: M[i,j] is M-i-j."""
    return re.sub(r"\W+", "-", name.replace("*", "-star").replace(":", "-all")).strip("-")

"""Formulas as MathML Core, which browsers show without help.

Browsers do not break a formula, and on a phone some lines are too long: so a formula is several elements <math>
in a row, and a line may end after an operator or a comma that is no deeper than in brackets.  A symbol's element
says its name: <msub data-symbol="W_e">.
"""

from __future__ import annotations

import re
import unicodedata
from html import escape

from transformulary.pseudocode.grouping import grouped
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
from transformulary.pseudocode.notation import GREEK, Letters, letters

FENCES = {"[]": "[]", "{}": "{}", "[[]]": "⟦⟧", "ceiling": "⌈⌉", "floor": "⌊⌋", "()": "()", "[)": "[)", "norm": "‖‖"}
ACCENTS = {"tilde": "~", "hat": "^"}
#: Letters that lean over what stands right of them, or above it: what moves that away (`html.STYLE`).  Browsers do not.
LEANING = dict.fromkeys("VY", "leans") | dict.fromkeys("FPTW", "leans-less")
#: Operators after which a line may end.
BREAKING = frozenset("←=≡≠≤≥∈∝+−⊙∧∨")
BREAK = "<wbr>"
TRANSPOSED = '<mi mathvariant="normal">⊤</mi>'
#: Operators that show as another sign; the product of matrices is a thin space.
SHOWN = {"": '<mspace width="0.17em"></mspace>', "mod": '<mo form="infix" lspace="0.2em" rspace="0.2em">mod</mo>'}


def mathml(node: Node) -> str:
    """A formula: elements <math>, between which a line may end."""
    pieces = _row(grouped(node, flat=False)).split(BREAK)
    return BREAK.join(f"<math>{piece}</math>" for piece in pieces)


def _one(node: Node) -> str:
    """A formula as one element, unbroken."""
    return f"<mrow>{_row(node).replace(BREAK, '')}</mrow>"


def _tight(node: Node) -> str:
    """An index: its operators are set without spaces."""
    return _one(node).replace('<mo form="infix" stretchy', '<mo form="infix" lspace="0" rspace="0" stretchy')


def _row(node: Node) -> str:
    """A formula as elements in a row, with BREAK where a line may end."""
    match node:
        case Sym(name, low, high, plain):
            return _named(name, _symbol(letters(name, plain), low, high))
        case Num(value):
            return f"<mn>{value}</mn>" if value >= 0 else _operator("−", "prefix") + f"<mn>{-value}</mn>"
        case Words(words):
            return f'<mi mathvariant="normal">{escape(words)}</mi>'
        case Infix(op, left, right):
            sign = SHOWN.get(op) or _operator(":" if op == "such that" else op, "infix")
            return _row(left) + sign + (BREAK if op in BREAKING else "") + _row(right)
        case Prefix("log", body):
            return '<mi mathvariant="normal">log</mi>' + SHOWN[""] + _row(body)
        case Prefix(op, body):
            return _operator(op, "prefix") + _row(body)
        case Root(body):
            return f"<msqrt>{_one(body)}</msqrt>"
        case Power(Num(1), Words("T")):
            return f"<msup><mn>𝟏</mn>{TRANSPOSED}</msup>"
        case Power(Sym(name, under, (), plain), Words("T")) if not letters(name).high:
            return _named(name, _symbol(letters(name, plain), under, (), TRANSPOSED))
        case Power(base, exponent):
            return f"<msup>{_one(base)}{TRANSPOSED if exponent == Words('T') else _one(exponent)}</msup>"
        case Frac(above, below, built):
            if built:
                return f"<mfrac>{_one(above)}{_one(below)}</mfrac>"
            return _one(above) + '<mo form="infix" lspace="0" rspace="0">/</mo>' + _one(below)
        case Big(where, up, body):
            tag, limits = ("msubsup", _tight(where) + _tight(up)) if up else ("msub", _tight(where))
            return f'<{tag}><mo form="prefix" largeop="false">∑</mo>{limits}</{tag}>' + SHOWN[""] + _row(body)
        case Apply(function, given, parameters):
            bar = '<mo form="infix" stretchy="false" lspace="0.28em" rspace="0.28em">|</mo>' + BREAK
            inside = bar.join(_listed(part, ",") for part in (given, parameters) if part)
            return _row(function) + _fenced("()", inside)
        case Entry(base, at):
            places = (_tight(i) if i else '<mo form="infix" lspace="0" rspace="0">:</mo>' for i in at)
            return _one(base) + _fenced("[]", '<mo form="infix" lspace="0" rspace="0">,</mo>'.join(places))
        case Fence(kind, items, separator):
            return _fenced(FENCES[kind], _listed(items, separator.strip()))


def _listed(items: tuple[Node, ...], separator: str) -> str:
    return (_operator(separator, "infix") + BREAK).join(map(_row, items))


def _operator(sign: str, form: str) -> str:
    return f'<mo form="{form}" stretchy="false">{escape(sign)}</mo>'


def _fenced(pair: str, inside: str) -> str:
    if "<mfrac>" in inside:  # brackets as tall as the fraction need a row of their own, which is not broken
        return f"<mrow><mo>{pair[0]}</mo>{inside.replace(BREAK, '')}<mo>{pair[1]}</mo></mrow>"
    return _operator(pair[0], "prefix") + inside + _operator(pair[1], "postfix")


def _named(name: str, element: str) -> str:
    tag, rest = re.match(r"(<\w+)(.*)", element, re.DOTALL).groups()  # type: ignore[union-attr]
    return f'{tag} data-symbol="{name}"{rest}'


def _symbol(own: Letters, low: tuple[Node, ...], high: tuple[Node, ...], exponent: str = "") -> str:
    base, below, above = _letter(own), _marks(own.low, low), _marks(own.high, high) or exponent
    if own.style in ("", "bold") and (lean := LEANING.get(own.letter)):
        if above:
            above = f'<mrow class="{lean}">{above}</mrow>'
        elif not below:
            base = base.replace(" ", f' class="{lean}" ', 1) if own.accent else f'<mi class="{lean}"{base[3:]}'
    match bool(below), bool(above):
        case True, True:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        case True, False:
            return f"<msub>{base}{below}</msub>"
        case False, True:
            return f"<msup>{base}{above}</msup>"
    return base


def _letter(own: Letters) -> str:
    shown = GREEK.get(own.letter, own.letter)
    if own.style == "calligraphic":
        shown = unicodedata.lookup(f"MATHEMATICAL BOLD SCRIPT CAPITAL {own.letter}")
    if own.style == "bold":
        shown = _bold(shown)
    letter = f'<mi mathvariant="normal">{shown}</mi>' if len(shown) > 1 else f"<mi>{shown}</mi>"
    if own.accent == "prime":
        return f'<msup>{letter}<mo lspace="0" rspace="0">′</mo></msup>'
    if own.accent:
        return f'<mover accent="true">{letter}<mo stretchy="false">{ACCENTS[own.accent]}</mo></mover>'
    return letter


def _bold(letter: str) -> str:
    """The bold italic form of a Latin or Greek letter."""
    _, case, _, name = unicodedata.name(letter).split()
    return unicodedata.lookup(f"MATHEMATICAL BOLD ITALIC {case} {name}")


def _marks(word: str, nodes: tuple[Node, ...]) -> str:
    """What is below or above a letter: a word, upright, or indices."""
    shown = [_word(word)] * bool(word) + [_tight(node) for node in nodes]
    return f"<mrow>{'<mo>,</mo>'.join(shown)}</mrow>" if shown else ""


def _word(word: str) -> str:
    if word.isdigit():
        return f"<mn>{word}</mn>"
    return f"<mi>{word}</mi>" if len(word) == 1 else f'<mi mathvariant="normal">{word}</mi>'

"""Formulas and boxes as plain Unicode text."""

from __future__ import annotations

import re

from transformulary.pseudocode.nodes import (
    ATOM,
    BIG,
    FRACTION,
    LEVELS,
    POWER,
    PRODUCT,
    RELATION,
    Apply,
    Big,
    Box,
    Entry,
    Fence,
    Frac,
    Infix,
    Line,
    Node,
    Num,
    Power,
    Prefix,
    Root,
    Sym,
    Words,
    level,
)
from transformulary.pseudocode.notation import letters

FENCES = {"[]": "[]", "{}": "{}", "[[]]": ("[[", "]]"), "ceiling": "⌈⌉", "floor": "⌊⌋", "()": "()"}
INDENT = "    "
SPACED = {"": " ", ":": ":", "×": "×", "such that": " : "}
ABOVE = str.maketrans("0123456789−T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ")


def text(node: Node, least: int = 0) -> str:
    """A formula; in parentheses if it binds less tightly than `least`."""
    return f"({_text(node)})" if level(node) < least else _text(node)


def _text(node: Node) -> str:
    match node:
        case Sym(name, low, high):
            return _symbol(name, low, high)
        case Num(value):
            return str(value).replace("-", "−")
        case Words(words):
            return words
        case Infix(op, left, right):
            inside = text if LEVELS[op] <= RELATION else _inside
            return _first(left, LEVELS[op]) + SPACED.get(op, f" {op} ") + inside(right, LEVELS[op] + 1)
        case Prefix("log", body):
            return f"log {text(body, ATOM)}"
        case Prefix(op, body):
            return op + _inside(body, BIG)
        case Root(body):
            return "√" + text(body, ATOM)
        case Power(base, exponent):
            return text(base, ATOM) + _above(text(exponent))
        case Frac(above, below):
            slash = " / " if isinstance(below, Big) or level(above) == PRODUCT else "/"
            return text(above, PRODUCT) + slash + text(below, BIG if isinstance(below, Big) else POWER)
        case Big(where, up, body):
            return f"Σ_{{{_tight(where)}{'..' + _tight(up) if up else ''}}} {_inside(body, FRACTION)}"
        case Apply(function, given, parameters):
            return f"{text(function)}({' | '.join(', '.join(map(text, part)) for part in (given, parameters) if part)})"
        case Entry(base, at):
            return f"{text(base, ATOM)}[{','.join(':' if i is None else _tight(i) for i in at)}]"
        case Fence(kind, items, separator):
            opening, closing = FENCES[kind]
            return opening + separator.join(map(text, items)) + closing


def _inside(node: Node, least: int) -> str:
    """An operand that is not the first: one that begins with a minus needs parentheses."""
    shown = text(node, least)
    return f"({shown})" if shown.startswith("−") else shown


def _first(node: Node, least: int) -> str:
    """The left operand; a number below 0 may begin a sum or a product without parentheses."""
    return text(node, 0 if isinstance(node, Num) else least)


def _symbol(name: str, low: tuple[Node, ...], high: tuple[Node, ...]) -> str:
    own = letters(name)
    below = ",".join(filter(None, (own.low, *map(_tight, low))))
    above = ",".join(filter(None, (own.high, *map(_tight, high))))
    return own.base + (f"_{_group(below)}" if below else "") + (_above(above) if above else "")


def _above(words: str) -> str:
    """A superscript: raised digits where Unicode has all of them."""
    raised = words.translate(ABOVE)
    return raised if re.fullmatch("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ*]+", raised) else f"^{_group(words)}"


def _group(words: str) -> str:
    return words if re.fullmatch(r"[^\W_]+", words) else f"{{{words}}}"


def _tight(node: Node) -> str:
    """Between brackets, sums are set without spaces."""
    return re.sub(r" ([+−=∈]) ", r"\1", text(node))


def line(words: Line) -> str:
    """A line without its number: words and formulas, no space before a comma or colon or after "for all"."""
    out = ""
    for part in words.parts:
        shown = part if isinstance(part, str) else text(part)
        out += shown if not out or out.endswith("∀") or shown[0] in ",:;" else f" {shown}"
    return INDENT * words.depth + out


def box(b: Box) -> str:
    """An algorithm: its title, what goes in and comes out, and its numbered lines."""
    head = [row for heading, rows in b.head for row in _section(heading, rows)]
    numbered = [f"{row.label:>4}  {line(row)}" for row in b.lines]
    return "\n".join([f"Algorithm {b.number}: {text(b.title)}", *head, *numbered])


def _section(heading: str, rows: tuple[Line, ...]) -> list[str]:
    """A part of the head: on the line of its heading if it is short."""
    if len(rows) == 1:
        return [f"{INDENT}{heading}: {line(rows[0])}"]
    return [f"{INDENT}{heading}:", *(INDENT * 2 + line(row) for row in rows)]

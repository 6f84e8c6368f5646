"""Formulas, algorithms and documents as plain Unicode text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from textwrap import fill

from transformulary.pseudocode.credits import BIBTEX, PRINTED_BY
from transformulary.pseudocode.diff import Diff, Pair
from transformulary.pseudocode.grouping import grouped
from transformulary.pseudocode.nodes import (
    PRODUCT,
    Apply,
    Big,
    Box,
    Code,
    Document,
    Entry,
    Fence,
    Frac,
    Head,
    Infix,
    Line,
    Node,
    Num,
    Part,
    Power,
    Prefix,
    Root,
    Sym,
    Words,
    level,
)
from transformulary.pseudocode.notation import letters
from transformulary.tables import table

FENCES = {
    "[]": "[]",
    "{}": "{}",
    "[[]]": ("[[", "]]"),
    "ceiling": "⌈⌉",
    "floor": "⌊⌋",
    "()": "()",
    "[)": "[)",
    "norm": "‖‖",
}
INDENT = "    "
SPACED = {"": " ", ":": ":", "×": "×", "such that": " : "}
ABOVE = str.maketrans("0123456789−T", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻ᵀ")
#: Longer lines are broken.
WIDTH = 100


def text(node: Node) -> str:
    """A formula."""
    return _text(grouped(node))


def _text(node: Node) -> str:
    match node:
        case Sym(name, low, high):
            return _symbol(name, low, high)
        case Num(value):
            return str(value).replace("-", "−")
        case Words(words):
            return words
        case Infix(op, left, right):
            return _text(left) + SPACED.get(op, f" {op} ") + _text(right)
        case Prefix("log", body):
            return f"log {_text(body)}"
        case Prefix(op, body):
            return op + _text(body)
        case Root(body):
            return "√" + _text(body)
        case Power(base, exponent):
            return _text(base) + _above(_text(exponent))
        case Frac(above, below):
            slash = " / " if isinstance(below, Big) or level(above) == PRODUCT else "/"
            return _text(above) + slash + _text(below)
        case Big(where, up, body):
            return f"Σ_{{{_tight(where)}{'..' + _tight(up) if up else ''}}} {_text(body)}"
        case Apply(function, given, parameters):
            return f"{_text(function)}({' | '.join(', '.join(map(_text, p)) for p in (given, parameters) if p)})"
        case Entry(base, at):
            return f"{_text(base)}[{','.join(':' if i is None else _tight(i) for i in at)}]"
        case Fence(kind, items, separator):
            opening, closing = FENCES[kind]
            return opening + separator.join(map(_text, items)) + closing


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
    return re.sub(r" ([+−=∈]) ", r"\1", _text(node))


def line(words: Line) -> str:
    """A line without its number, unbroken."""
    return INDENT * words.depth + "".join(space + _part(part) for space, part in words.spaced())


def _part(part: Part) -> str:
    if isinstance(part, Code):
        return f"`{part.text}`"
    return part if isinstance(part, str) else text(part)


def numbered(row: Line) -> str:
    """A line with its number."""
    return f"{row.label:>4}  {line(row)}"


def title(b: Box) -> str:
    """The caption of an algorithm."""
    return f"Algorithm {b.number}: {text(b.title)}"


def box(b: Box) -> str:
    """An algorithm: its title, what goes in and comes out, and its numbered lines."""
    return f"{title(b)}, {b.credit} [PH22]\n{body(b)}"


def body(b: Box) -> str:
    """A box without its title."""
    head = [row for heading, rows in b.head for row in _section(heading, rows)]
    return "\n".join(map(broken, head + [numbered(row) for row in b.lines]))


def _section(heading: str, rows: tuple[Line, ...]) -> list[str]:
    """A part of the head: on the line of its heading if it is short."""
    if len(rows) == 1:
        return [f"{INDENT}{heading}: {line(rows[0])}"]
    return [f"{INDENT}{heading}:", *(INDENT * 2 + line(row) for row in rows)]


def broken(row: str) -> str:
    """A row of at most WIDTH characters, or several: after the first, two steps deeper than where its words begin."""
    begins = re.match(r"[ \d]{3}[\da-z]  +|\s*", row)
    assert begins
    rows, hanging = [], " " * begins.end() + INDENT * 2
    while len(row) > WIDTH and (at := _place(row, len(hanging))):
        rows.append(row[:at])
        row = hanging + row[at + 1 :]
    return "\n".join([*rows, row])


def _place(row: str, first: int) -> int:
    """The space at which a row is broken: in as few brackets as can be, after a comma, late; 0 if there is none."""
    depth, found = 0, (99, True, 0)
    for at, sign in enumerate(row[: WIDTH + 1]):
        depth += (sign in "([{⌈⌊") - (sign in ")]}⌉⌋")
        if sign == " " and at > max(first, WIDTH // 2):
            found = min(found, (depth, row[at - 1] not in ",;:", -at))
    return -found[2]


def definition(row: Line) -> str:
    """What a function is."""
    return broken(INDENT + line(row))


def document(d: Document) -> str:
    """Algorithms, one below the other, the functions that their lines name, and notes."""
    above = [head(d.head)] if d.head else []
    cited = f"{PRINTED_BY} [PH22] is\n{BIBTEX}"
    return "\n\n".join([*above, *map(box, d.boxes), *where(d.where), *map(sentence, d.notes), cited])


def where(definitions: tuple[Line, ...]) -> list[str]:
    """What the functions are, below the word "where"."""
    return ["\n".join(["where", *map(definition, definitions)])] if definitions else []


def sentence(row: Line) -> str:
    """A paragraph, in which no formula is broken."""
    kept = (part if isinstance(part, str) else _part(part).replace(" ", "\xa0") for part in row.parts)
    return fill(line(Line("", 0, tuple(kept))), WIDTH).replace("\xa0", " ")


def head(h: Head) -> str:
    """What is said of a model."""
    return "\n".join([h.title, *map(sentence, h.says), *tabled(h)])


def tabled(h: Head) -> list[str]:
    """The rows of its table, aligned."""
    return table(h.table, right=range(1, len(h.table[0]))).splitlines() if h.table else []


def diff(d: Diff) -> str:
    """What differs, in the form of a unified diff: the lines of the first with -, those of the second with +."""
    rows = [head(d.same)] if d.same else [f"--- {d.names[0]}", f"+++ {d.names[1]}"]
    for x in d.differences:
        before, after = (title and line(title) for title in x.titles)
        heading = f"@@ {after or before} @@"
        rows += [heading, f"-{before}", f"+{after}"][: 3 if before and after and before != after else 1]
        for i, run in enumerate(x.runs):
            rows += [heading] * (i > 0)
            rows += _unified(run)
    return "\n\n".join(["\n".join(rows), *where(d.where)])


def _unified(run: tuple[Pair, ...]) -> Iterator[str]:
    for same, pairs in groupby(run, lambda pair: pair[0] == pair[1]):
        before, after = ([numbered(x) for x in side if x] for side in zip(*pairs, strict=True))
        yield from (" " + x for x in before) if same else [*("-" + x for x in before), *("+" + x for x in after)]

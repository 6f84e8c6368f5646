"""Algorithms as Markdown, for a README: captions are headings, lines are fenced text.

Fenced text and not mathematics between dollars: it looks the same on every site and in every editor (PyPI and
most editors show no mathematics, and GitHub's has no indentation and breaks in tables), keeps numbers and
indentation, and what is copied from it is what is read.
"""

from __future__ import annotations

import re
from dataclasses import replace

from transformulary.pseudocode import text
from transformulary.pseudocode.credits import ADDRESS, BIBTEX, PAPER, PRINTED_BY
from transformulary.pseudocode.diff import Diff
from transformulary.pseudocode.nodes import Box, Code, Document, Head, Line, Part


def document(d: Document) -> str:
    """Algorithms, a heading each, the functions that their lines name, and notes."""
    above = [head(d.head)] if d.head else []
    below = [*_where(d.where), *map(sentence, d.notes), f"{PRINTED_BY} [PH22] is [{PAPER}]({ADDRESS}):", _bibtex()]
    return "\n\n".join([*above, *map(box, d.boxes), *below])


def _where(definitions: tuple[Line, ...]) -> list[str]:
    return ["where", _fenced("\n".join(map(text.definition, definitions)))] if definitions else []


def head(h: Head) -> str:
    """What is said of a model."""
    table = [_fenced("\n".join(text.tabled(h)))] if h.table else []
    return "\n\n".join([f"## {escaped(h.title)}", *map(sentence, h.says), *table])


def sentence(row: Line) -> str:
    """A paragraph."""
    return "".join(space + _said(part) for space, part in row.spaced())


def _said(part: Part) -> str:
    if isinstance(part, Code):
        ticks = _longer(part.text, 1)
        space = " " * ("`" in part.text)
        return f"{ticks}{space}{part.text}{space}{ticks}"
    return escaped(part if isinstance(part, str) else text.text(part))


def escaped(words: str) -> str:
    """Words in which no character means anything but itself; an underscore inside a word never does."""
    return re.sub(r"[\\`*\[\]<>#|~&$]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", words)


def _longer(words: str, least: int) -> str:
    """More backticks than stand together in the words."""
    return "`" * max(least, *(len(run) + 1 for run in re.findall("`+", words)), least)


def box(b: Box) -> str:
    """An algorithm: its title, what goes in and comes out, and its numbered lines."""
    return f"### Algorithm {b.number}: `{text.text(b.title)}`\n\n{b.credit} [PH22]\n\n{_fenced(text.body(b))}"


def diff(d: Diff) -> str:
    """A fenced diff, which most sites set in colour."""
    if d.same:
        return head(d.same)
    return "\n\n".join([_fenced(text.diff(replace(d, where=())), "diff"), *_where(d.where)])


def _bibtex() -> str:
    return _fenced(BIBTEX, "bibtex")


def _fenced(words: str, language: str = "text") -> str:
    fence = _longer(words, 3)
    return f"{fence}{language}\n{words}\n{fence}"

"""Algorithms as Markdown, for a README: captions are headings, lines are fenced text.

Fenced text and not mathematics between dollars: it looks the same on every site and in every editor (PyPI and
most editors show no mathematics, and GitHub's has no indentation and breaks in tables), keeps numbers and
indentation, and what is copied from it is what is read.
"""

from __future__ import annotations

from dataclasses import replace

from transformulary.pseudocode import text
from transformulary.pseudocode.credits import ADDRESS, BIBTEX, PAPER, PRINTED_BY
from transformulary.pseudocode.diff import Diff
from transformulary.pseudocode.nodes import Box, Document, Head, Line


def document(d: Document) -> str:
    """Algorithms, a heading each, the functions that their lines name, and notes."""
    above = [head(d.head)] if d.head else []
    below = [*_where(d.where), *map(text.line, d.notes), f"{PRINTED_BY} [PH22] is [{PAPER}]({ADDRESS}):", _bibtex()]
    return "\n\n".join([*above, *map(box, d.boxes), *below])


def _where(definitions: tuple[Line, ...]) -> list[str]:
    return ["where", _fenced("\n".join(map(text.definition, definitions)))] if definitions else []


def head(h: Head) -> str:
    """What is said of a model."""
    table = [_fenced("\n".join(text.tabled(h)))] if h.table else []
    return "\n\n".join([f"## {h.title}", *map(text.line, h.says), *table])


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
    return f"```{language}\n{words}\n```"

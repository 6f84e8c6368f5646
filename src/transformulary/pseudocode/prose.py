"""Sentences with mathematics: each format sets it as it sets a line's."""

from __future__ import annotations

import ast
import re

from transformulary.pseudocode.formulas import Formulas
from transformulary.pseudocode.nodes import Code, Line, Part
from transformulary.pseudocode.specialise import papers_program
from transformulary.tables import printable


def prose(words: str, formula: Formulas | None = None, **facts: object) -> Line:
    """A sentence.

    Args:
        words: `$e_t + 1$` is a formula, in the oracle's Python, and what stands between backticks is typed.
        formula: how formulas are set, as in the paper's lines unless given.
        facts: what replaces {name}; in words and in what is typed it is taken literally, whatever it holds.
    """
    facts = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
    formula = formula or Formulas(papers_program("DTransformer"))
    pieces = filter(None, (piece.strip() for piece in re.split(r"(\$[^$]*\$|`[^`]*`)", words)))
    return Line("", 0, tuple(filter(None, (_part(piece, formula, facts) for piece in pieces))))


def _part(piece: str, formula: Formulas, facts: dict[str, object]) -> Part:
    shown = piece.format(**facts)
    if piece[0] == "$":
        tree = ast.parse(shown.strip("$ "), mode="eval").body
        return formula.symbol(tree.id) if isinstance(tree, ast.Name) else formula(tree)
    return Code(shown[1:-1]) if piece[0] == "`" else shown


def plain(words: str) -> Line:
    """A sentence of words alone."""
    return Line("", 0, (printable(words),))

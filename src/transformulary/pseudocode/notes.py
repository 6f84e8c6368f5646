"""What is said below algorithms of how they are printed: what is corrected, left out, or one form of several."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import fields

from transformulary.oracle.source import read
from transformulary.paper.practice import PRACTICES, Inference, Training
from transformulary.pseudocode.credits import MISPRINTED
from transformulary.pseudocode.nodes import Box, Line
from transformulary.pseudocode.prose import plain, prose
from transformulary.pseudocode.specialise import order

GAPS = "Where a number is missing, the line of that number belongs to a choice that is not made here."
#: The choices of practice that decide which lines there are.
CHOICES = {f.name: f for kind in (Training, Inference) for f in fields(kind)}


def notes(boxes: Iterable[Box]) -> Iterator[Line]:
    """Which misprints of the paper are corrected, and why numbers are missing."""
    shown = list(boxes)
    for one in shown:
        if one.credit == "corrected from":
            yield prose(f"In Algorithm {one.number} a misprint is corrected: {MISPRINTED[one.number]}.")
    if any(map(_has_gaps, shown)):
        yield plain(GAPS)


def _has_gaps(one: Box) -> bool:
    found = {order(row.label)[0] for row in one.lines if row.label}
    return bool(found) and found - {0} != {*range(1, max(found) + 1)}


def forms(number: str) -> Iterator[Line]:
    """That an algorithm of practice has other forms, and what they depend on."""
    if names := choices(number):
        every = [f"`{name}` ({', '.join(PRACTICES[name])})" if name in PRACTICES else f"`{name}`" for name in names]
        listed = " and ".join(filter(None, (", ".join(every[:-1]), every[-1])))
        yield prose(
            f"This is one form of Algorithm {number}; `transformulary show {number} --choose NAME=VALUE` shows others, "
            f"by the choices {listed}."
        )


def choices(number: str) -> list[str]:
    """The fields of `Training` or `Inference` on which depends which lines an algorithm has, in their order."""
    nodes = list(ast.walk(read().functions[read().name(number) or ""]))
    decides = [n.test for n in nodes if isinstance(n, ast.If | ast.IfExp)]
    decides += [n.slice for n in nodes if isinstance(n, ast.Subscript)]
    used = {n.attr for part in decides for n in ast.walk(part) if isinstance(n, ast.Attribute)}
    return [name for name in CHOICES if name in used]

"""What the lines of a transformer do, read from the text of the oracle: what a line sets, adds to, asks or norms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from transformulary.oracle.path import parse
from transformulary.oracle.source import read


@dataclass(frozen=True)
class Line:
    """One line that computes a value.

    number   of its algorithm, "8a"
    label    "5"
    target   what it computes: ell, e, X, Z_tilde, P
    side     the sequence whose tokens are its columns: "z" in an encoder that has a decoder, else "x"
    adds     whether it adds to what it sets: the rest of the line is an increment of the residual stream
    layers   the size that counts the layers it is in, "L_enc"; "" outside of layers
    when     the choice of the config without which a model does not have it, "embedding_norm"; "" if all do
    asks     the streams of which attention compares tokens: those that ask and those that are asked, "XZ"; "" for none
    heads    what theta calls the parameters of its attention, "W_enc"
    norm     what a norm scales with and what it adds, ("gamma_1", "beta_1"); () for no norm
    members  whether it is a family, one vector per token
    gathers  whether it puts such a family into one matrix
    """

    number: str
    label: str
    target: str
    side: str = "x"
    adds: bool = False
    layers: str = ""
    when: str = ""
    asks: str = ""
    heads: str = ""
    norm: tuple[str, ...] = ()
    members: bool = False
    gathers: bool = False

    @property
    def name(self) -> str:
        return f"{self.number}.{self.label}"

    @property
    def pattern(self) -> str:
        """Its path, [l] for the layer: 8.5[l]."""
        return self.name + ("[l]" if self.layers else "")

    @property
    def stream(self) -> str:
        """The residual stream that it sets, "X" or "Z"; "" if it sets none."""
        return self.target if self.target in ("X", "Z") else ""

    @property
    def counts(self) -> bool:
        """Whether it is the length of a sequence."""
        return self.target.startswith("ell")

    @property
    def crosses(self) -> bool:
        """Whether it looks from one sequence at the other."""
        return len(set(self.asks)) > 1

    @property
    def calls(self) -> frozenset[str]:
        """The algorithms that it calls, and those that they call."""
        norms = {"6", "6r"} if self.norm or self.asks else set()
        attention = {"4", "4d", "4r", "5"} if self.asks else set()
        return frozenset(norms | attention | ({"2s", "2v", "2h", "2t"} if self.members else set()))


@cache
def lines_of(number: str) -> dict[str, Line]:
    """Label -> line, of every line of an algorithm that computes a value, in the order of its text."""
    source, found = read(), dict[str, Line]()
    if (name := source.name(number)) is None:
        raise KeyError(number)
    bundle, side = "", "x"
    for node, layers, when in _statements(source.functions[name].body):
        target, text = ast.unparse(node.targets[0]), ast.unparse(node.value)
        bundle = text if target == "W" else bundle
        side = {"ell_z": "z", "ell_x": "x"}.get(target, side)
        label = source.label(source.files[name], node)
        if label and label not in found:
            says = _said(target, text, bundle)
            found[label] = Line(number, label, target, side, layers=layers, when=when, **says)
    return found


def line_at(path: str) -> Line:
    """The line of the outermost algorithm in which the value at a path is computed."""
    step = parse(path).steps[0]
    return lines_of(step.number)[step.label]


def _said(target: str, text: str, bundle: str) -> dict[str, Any]:
    """What the expression of a line says of it; `bundle`: what W is there."""
    norm = re.search(r"NORM\[c\.norm\]\(\w+\[:, t\], theta\.(gamma\w*)(?:\[l\])?, theta\.(beta\w*)", text)
    attention = re.search(r"MHAttention\((\w)\w*, (\w)\w*, (\S+),", text)
    heads = re.search(r"theta\.(W\w*)\[l\]", bundle if attention and attention[3] == "W" else text)
    return {
        "adds": text.startswith(f"{target} + "), "members": text.startswith("["), "norm": norm.groups() if norm else (),
        "gathers": text == "columns(e)",
        "asks": attention[1] + attention[2] if attention else "", "heads": heads[1] if attention and heads else "",
    }  # fmt: skip


def _statements(body: list[ast.stmt], layers: str = "", when: str = "") -> Iterator[tuple[ast.Assign, str, str]]:
    """(assignment, size that counts the layers it is in, choice on which it depends)."""
    for node in body:
        if isinstance(node, ast.Assign):
            yield node, layers, when
        elif isinstance(node, ast.For):
            inside = re.fullmatch(r"range\(c\.(\w+)\)", ast.unparse(node.iter))
            yield from _statements(node.body, inside[1] if inside else layers, when)
        elif isinstance(node, ast.If):
            choice = re.fullmatch(r"c\.(\w+)", ast.unparse(node.test))
            yield from _statements(node.body, layers, choice[1] if choice else when)
            yield from _statements(node.orelse, layers, when)

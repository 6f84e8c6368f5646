"""What lines are, for a reader who does not have the paper at hand."""

from __future__ import annotations

from transformulary.oracle.lines import Line, lines_of
from transformulary.oracle.whole import CLASSES

#: What stands inside lines that attend.
INSIDE = {"5.2": "attention, one head", "5.3": "heads joined"}
#: Lines that nothing below says.
FURTHER = {
    "9.2a": "embedding, with segments", "9.10": "projection", "9.11": "norm of the projection",
    "9c.1": "first token, projected", "9c.2": "probabilities of classes", "8a.10": "final norm of Z",
}  # fmt: skip


def title_of(line: str) -> str:
    """10.6 -> line 6 (X + attention); 9c.1 -> line 1 of Algorithm 9c (...)."""
    number, _, label = line.partition(".")
    outer, _, inner = label.partition("/")
    plain = not inner and ":" not in label
    words = _words(lines_of(number)[outer]) if plain else INSIDE.get(inner, "")
    of = f" of Algorithm {number}" if number == CLASSES else ""
    return f"line {label}{of}" + (f" ({words})" if words else "")


def _words(line: Line) -> str:
    if line.name in FURTHER:
        return FURTHER[line.name]
    if line.counts:
        return "length"
    if line.members:
        return "embedding"
    if line.adds:
        return f"{line.stream} + {_part(line).removeprefix('the ')}"
    if line.norm:
        return _norm(line)
    return "probabilities" if line.target == "P" else f"embedding, {line.target}"


def _part(line: Line) -> str:
    return "the MLP" if not line.asks else "cross-attention" if line.crosses else "attention"


def _norm(line: Line) -> str:
    if not line.layers:
        return "norm of the embedding" if line.label[-1].isalpha() else "final norm"
    lines = list(lines_of(line.number).values())
    at = lines.index(line)
    if line.stream:
        return f"norm after {_part(lines[at - 1])}"
    return f"norm before {_part(next(later for later in lines[at:] if later.adds))}"

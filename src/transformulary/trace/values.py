"""What a value of a model is: an array of numbers, the names of its axes, the line that computes it."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from transformulary.oracle import axes as axes_of
from transformulary.oracle.path import parse
from transformulary.oracle.source import read
from transformulary.oracle.whole import CLASSES, number_of
from transformulary.paper import Config
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.specialise import Program
from transformulary.pseudocode.text import line as as_text

#: ALGORITHM.LINE, or ALGORITHM.LINE:NAME where a value inside the line has other axes -> the axes of the whole line's
TOKENS = ("ell", "ell_x", "ell_z")


def axes(path: str, value: NDArray[Any]) -> list[str]:
    """What runs along each axis of the value at a path, by the paper's names (`oracle.axes`); a number has none."""
    return axes_of(path) if value.ndim else []


def token_axis(names: list[str]) -> int | None:
    """Which axis has one entry per token; the asking token's, where both are there."""
    return next((names.index(axis) for axis in (*TOKENS[:2], TOKENS[2]) if axis in names), None)


class Lines:
    """The text of the lines that one model executes, whatever an encoder gives."""

    def __init__(self, config: Config) -> None:
        program = Program(config)
        self.algorithms = {number: name for name, number in read().numbers.items()}
        self.texts: dict[tuple[str, str], str] = {}
        number = number_of(config)
        for name in program.executed_by(number, *([CLASSES] if number == "9" else [])):
            number = read().numbers[name]
            for row in box(program, name).lines:
                if row.label:
                    self.texts.setdefault((number, row.label), as_text(row).strip())

    def about(self, path: str) -> dict[str, str]:
        """The algorithm and the line of the last step of a path: its numbers, name and text."""
        last = parse(path).steps[-1]
        text = self.texts.get((last.number, last.label), "")
        return {"algorithm": last.number, "name": self.algorithms[last.number], "line": last.label, "text": text}

"""What a value of Algorithm 10 is: an array of numbers, the names of its axes, the line that computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle.path import Step, parse
from transformulary.oracle.source import read
from transformulary.paper import DTransformerConfig
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.specialise import Program
from transformulary.pseudocode.text import line as as_text

#: ALGORITHM.LINE, or ALGORITHM.LINE:NAME where a value inside the line has other axes -> the axes of the whole line's
#: value.  `*` stands for every line, or every name, that is not listed.
AXES = {
    "10.1": "",
    "10.*": "d_e ell",
    "10.2:sqrt": "",
    "10.8:*": "d_mlp ell",
    "10.8:W_mlp2": "d_e ell",
    "10.11": "N_V ell",
    "10.11:*": "N_V ell",
    "5.1": "H d_mid ell_x",
    "5.2": "d_mid ell_x",
    "5.3": "H*d_mid ell_x",
    "5.4": "d_e ell_x",
    "4.1": "d_attn ell_x",
    "4.2": "d_attn ell_z",
    "4.3": "d_mid ell_z",
    "4.3a": "d_attn ell_x",
    "4.3b": "d_attn ell_z",
    "4.4": "ell_z ell_x",
    "4.4:*": "d_e",
    "4.4:bucket": "",
    "4.5": "ell_z ell_x",
    "4.6": "d_mid ell_x",
    "4.6:softmax": "ell_z ell_x",
    "4.6:sqrt": "",
    "4r.*": "d_attn/2",
    "4r.4": "d_attn",
    "4d.*": "d_e/2",
    "4d.4": "d_e",
    "6.*": "",
    "6.3": "d_e",
    "6.3:sqrt": "",
    "6r.*": "",
    "6r.3": "d_e",
    "6r.3:sqrt": "",
    **{f"2{kind}.*": "d_e/2" for kind in "svht"},
    **{f"2{kind}.3": "d_e" for kind in "svht"},
}
#: The index of a member of a line -> the axes that one member lacks.
LACKS = {"t": {"ell", "ell_x", "ell_z"}, "t_x": {"ell_x"}, "t_z": {"ell_z"}, "i": {"d_attn/2", "d_e/2"}}
TOKENS = ("ell", "ell_x", "ell_z")


def axes(path: str, value: NDArray[Any]) -> list[str]:
    """What runs along each axis of the value at a path of Algorithm 10, by the paper's names; a number has none.

    ell_x counts the tokens that ask, ell_z those that are asked.
    """
    if not value.ndim:
        return []
    parsed = parse(path)
    last = parsed.steps[-1]
    lacks = set[str]().union(*(LACKS.get(name, set()) for name, _ in last.indices))
    return [axis for axis in _whole(last, parsed.name.partition(".")[0]).split() if axis not in lacks]


def _whole(step: Step, name: str) -> str:
    line, rest = f"{step.number}.{step.label}", f"{step.number}.*"
    keys = ([f"{line}:{name}", f"{line}:*"] if name else []) + [line, rest]
    return next(AXES[key] for key in keys if key in AXES)


def token_axis(names: list[str]) -> int | None:
    """Which axis has one entry per token; the asking token's, where both are there."""
    return next((names.index(axis) for axis in (*TOKENS[:2], TOKENS[2]) if axis in names), None)


def numbers(value: Any) -> NDArray[Any]:
    """A value of the oracle as one array: vectors in a list become columns, matrices in a list are stacked."""
    if isinstance(value, list):
        members = [np.asarray(member) for member in value]
        return np.stack(members, axis=1 if members[0].ndim == 1 else 0)
    return np.asarray(value)


class Lines:
    """The text of the lines that one model executes."""

    def __init__(self, config: DTransformerConfig) -> None:
        program = Program(config)
        self.algorithms = {number: name for name, number in read().numbers.items()}
        self.texts: dict[tuple[str, str], str] = {}
        for name in program.executed:
            number = read().numbers[name]
            for row in box(program, name).lines:
                if row.label:
                    self.texts.setdefault((number, row.label), as_text(row).strip())

    def about(self, path: str) -> dict[str, str]:
        """The algorithm and the line of the last step of a path: its numbers, name and text."""
        last = parse(path).steps[-1]
        text = self.texts.get((last.number, last.label), "")
        return {"algorithm": last.number, "name": self.algorithms[last.number], "line": last.label, "text": text}

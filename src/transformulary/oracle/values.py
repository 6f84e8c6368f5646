"""What the value of a line is: an array of numbers, and what its axes count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle.path import Step, parse

#: ALGORITHM.LINE, or ALGORITHM.LINE:NAME where a value inside the line has other axes -> the axes of the whole line's
#: value.  `*` stands for every line, or every name, that is not listed.
AXES = {
    "1.1": "d_e",
    "2.1": "d_e",
    **{f"2{kind}.*": "d_e/2" for kind in "svht"},
    **{f"2{kind}.3": "d_e" for kind in "svht"},
    "3.1": "d_attn",
    "3.2": "d_attn T",
    "3.3": "d_mid T",
    "3.4": "T",
    "3.4:*": "",
    "3.5": "d_mid",
    "4.1": "d_attn ell_x",
    "4.1a": "d_attn ell_x",
    "4.2": "d_attn ell_z",
    "4.2a": "d_attn ell_z",
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
    "5.1": "H d_mid ell_x",
    "5.2": "d_mid ell_x",
    "5.3": "H*d_mid ell_x",
    "5.4": "d_e ell_x",
    "6.*": "",
    "6.3": "d_e",
    "6.3:sqrt": "",
    "6r.*": "",
    "6r.3": "d_e",
    "6r.3:sqrt": "",
    "7.*": "N_V",
    **{f"{n}.{label}": "" for n, labels in (("8", "1 10"), ("8a", "1 11"), ("9", "1")) for label in labels.split()},
    **{f"8.{label}": "d_e ell_z" for label in ["2", "3", "3a", "5", "6", "7", "8"]},
    **{f"8a.{label}": "d_e ell_z" for label in ["2", "3", "3a", "5", "6", "7", "8", "10"]},
    **{f"{n}.*": "d_e ell_x" for n in ("8", "8a")},
    **{f"{line}:sqrt": "" for line in ("8.2", "8.11", "8a.2", "8a.12", "8a.23", "9.2", "10.2")},
    **{f"{line}:*": "d_mlp ell_z" for line in ("8.7", "8a.8")},
    **{f"{line}:W_mlp2": "d_e ell_z" for line in ("8.7", "8a.8")},
    **{f"{line}:*": "d_mlp ell_x" for line in ("8.18", "8a.20")},
    **{f"{line}:W_mlp4": "d_e ell_x" for line in ("8.18", "8a.20")},
    **dict.fromkeys(("8.21", "8.21:*", "8a.23", "8a.23:*"), "N_V ell_x"),
    "9.*": "d_e ell",
    "9.7:*": "d_mlp ell",
    "9.7:W_mlp2": "d_e ell",
    "9.10": "d_f ell",
    "9.11": "d_f ell",
    "9.12": "N_V ell",
    "9.12:*": "N_V ell",
    "9c.1": "d_e",
    "9c.2": "N_C",
    "10.1": "",
    "10.*": "d_e ell",
    "10.8:*": "d_mlp ell",
    "10.8:W_mlp2": "d_e ell",
    "10.11": "N_V ell",
    "10.11:*": "N_V ell",
    "14.1": "",
    "14.3": "N_V ell",
    "14.4": "N_V",
    **{f"14.4{letter}": "N_V" for letter in "abc"},
    "14.5": "",
    "14.5:proportional": "N_V",
    "14.6": "ell",
    "14.6a": "ell_gen",
    "14.8": "ell_gen",
    "15.*": "ell_x",
    "15.2": "",
    "15.4": "N_V ell_x",
    **{f"15.{label}": "N_V" for label in ("5", "5a", "5b", "5c")},
    "15.6": "",
    "15.6:proportional": "N_V",
    "15.7a": "",
}
#: The index of a member of a line -> the axes that one member lacks.
LACKS = {"t": {"ell", "ell_x", "ell_z", "T"}, "t_x": {"ell_x"}, "t_z": {"ell_z"}, "i": {"d_attn/2", "d_e/2"}}
#: The lines that norm vectors of another width than d_e.
WIDTHS = {("4", "1a"): "d_attn", ("4", "2a"): "d_attn", ("9", "11"): "d_f"}


def axes(path: str) -> list[str]:
    """What the axes of the value at a path count, in the paper's names; of all algorithms but those that train.

    ell_x counts the tokens that ask, ell_z those that are asked.  Raises KeyError for a line of another algorithm.
    """
    parsed = parse(path)
    last = parsed.steps[-1]
    lacks = set[str]().union(*(LACKS.get(name, set()) for name, _ in last.indices))
    whole = _whole(last, parsed.name.partition(".")[0])
    for step in parsed.steps[:-1]:
        whole = whole.replace("d_e", WIDTHS.get((step.number, step.label), "d_e"))
    return [axis for axis in whole.split() if axis not in lacks]


def _whole(step: Step, name: str) -> str:
    line = f"{step.number}.{step.label}"
    names = [f"{line}:{name}", f"{line}:*"] if name else []
    known = [AXES[key] for key in (*names, line, f"{step.number}.*") if key in AXES]
    if not known:
        raise KeyError(line)
    return known[0]


def numbers(value: Any) -> NDArray[Any]:
    """A value of the oracle as one array: vectors in a list become columns, matrices in a list are stacked."""
    if isinstance(value, list):
        members = [np.asarray(member) for member in value]
        return np.stack(members, axis=1 if members[0].ndim == 1 else 0)
    return np.asarray(value)

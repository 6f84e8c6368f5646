"""What a recorded value is as an array, and what its axes count."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle.path import parse

#: ALGORITHM.LINE, or ALGORITHM.LINE:NAME where a value inside the line has other axes than the line -> its axes.
AXES = {
    "1.1": "d_e",
    "2.1": "d_e",
    **dict.fromkeys(["2s.1", "2s.2", "2v.1", "2v.2", "2h.1", "2h.2", "2t.1", "2t.2"], "d_e/2"),
    **dict.fromkeys(["2s.3", "2v.3", "2h.3", "2t.3"], "d_e"),
    "3.1": "d_attn",
    "3.2": "d_attn T",
    "3.3": "d_out T",
    "3.4": "T",
    "3.4:exp": "",
    "3.4:sqrt": "",
    "3.5": "d_out",
    "4.1": "d_attn ell_x",
    "4.2": "d_attn ell_z",
    "4.3": "d_out ell_z",
    "4.3a": "d_attn ell_x",
    "4.3b": "d_attn ell_z",
    "4.4": "ell_z ell_x",
    "4.4:W_r": "d_attn",
    "4.4:offset": "d_e",
    "4.5": "ell_z ell_x",
    "4.6": "d_out ell_x",
    "4.6:softmax": "ell_z ell_x",
    "4.6:sqrt": "",
    **dict.fromkeys(["4r.1", "4r.2", "4r.3"], "d_attn/2"),
    "4r.4": "d_attn",
    **dict.fromkeys(["4d.1", "4d.2", "4d.3"], "d_e/2"),
    "4d.4": "d_e",
    "5.1": "H d_mid ell_x",
    "5.2": "d_mid ell_x",
    "5.3": "H*d_mid ell_x",
    "5.4": "d_out ell_x",
    "6.1": "",
    "6.2": "",
    "6.3": "d_e",
    "6.3:sqrt": "",
    "6r.2": "",
    "6r.3": "d_e",
    "6r.3:sqrt": "",
    "7.1": "N_V",
    "10.1": "",
    **dict.fromkeys(["10.2", "10.3", "10.3a", "10.5", "10.6", "10.7", "10.8", "10.10"], "d_e ell"),
    **{f"10.8:{name}": "d_mlp ell" for name in ("W_mlp1", "W_mlp3", "GELU", "GELU_tanh", "ReLU", "SiLU")},
    "10.2:sqrt": "",
    "10.11": "N_V ell",
    "14.1": "",
    "14.3": "N_V ell",
    "14.4": "N_V",
    "14.5": "",
    "14.5:proportional": "N_V",
    "14.6": "ell",
    "14.8": "ell_gen",
}


def as_array(value: Any) -> NDArray[Any]:
    """A value of a line as an array of float64, or int64 for ids and counts.

    Vectors that the paper numbers (e_1, e_2, ...) are columns; matrices that it numbers, one per head, lie one
    behind the other.
    """
    array = np.stack(value, axis=1) if isinstance(value, list) and np.ndim(value[0]) == 1 else np.asarray(value)
    return array.astype(np.int64 if array.dtype.kind == "i" else np.float64)


def axes(path: str, ndim: int) -> tuple[str, ...]:
    """What the axes of the value at `path` count, in the words of its last step's algorithm: ("d_attn", "ell_x").

    ndim: how many axes the value has: one member of a line (10.5[l=1,t=2]) lacks the last.  Raises KeyError for
    a line that `AXES` does not know.
    """
    parsed = parse(path)
    line = f"{parsed.steps[-1].number}.{parsed.steps[-1].label}"
    name = parsed.name.partition(".")[0]
    known = AXES.get(f"{line}:{name}") if name else None
    return tuple((AXES[line] if known is None else known).split())[:ndim]

"""Values of lines as arrays, and what their axes count."""

import numpy as np
import pytest

from transformulary.oracle import as_array, axes
from transformulary.oracle.source import read
from transformulary.oracle.values import AXES


def test_numbered_vectors_are_columns():
    """e_1, e_2 lie side by side; matrices, one per head, behind one another; numbers in a row."""
    e = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])]

    assert as_array(e).shape == (3, 2)
    assert as_array([np.zeros((4, 7))] * 2).shape == (2, 4, 7)
    assert as_array([0.5, 0.25]).shape == (2,)


def test_whole_numbers_stay_whole():
    """Ids and counts are int64, everything else is float64."""
    assert [as_array(v).dtype.name for v in (7, [1, 2], 0.5, [0.5], np.float32(1))] == [
        "int64", "int64", "float64", "float64", "float64"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "ndim", "expected"),
    [
        ("10.6[l=1]/5.2[h=1]/4.6:softmax", 2, ("ell_z", "ell_x")),
        ("10.5[l=1]", 2, ("d_e", "ell")),
        ("10.5[l=1,t=2]", 1, ("d_e",)),
        ("10.5[l=1,t=2]/6.1", 0, ()),
        ("10.8[l=1]:GELU", 2, ("d_mlp", "ell")),
        ("10.8[l=1]:W_mlp2", 2, ("d_e", "ell")),
        ("10.6[l=1]/5.1", 3, ("H", "d_mid", "ell_x")),
        ("3.4[t=1,u=2]:exp.2", 0, ()),
    ],
)
def test_axes(path, ndim, expected):
    """An axis is named in the words of the algorithm whose line the value is of."""
    assert axes(path, ndim) == expected


@pytest.mark.parametrize(
    "number", ["1", "2", "2s", "2v", "2h", "2t", "3", "4", "4r", "4d", "5", "6", "6r", "7", "10", "14"]
)
def test_every_line_that_computes_has_axes(number):
    """The table knows all lines of the algorithms of a decoder, and no line that is none."""
    loops = {"10": {"4"}, "14": {"2"}}.get(number, set())

    known = {key.split(".")[1] for key in AXES if key.startswith(f"{number}.") and ":" not in key}

    assert known == set(read().lines(number)) - loops

"""Values of lines as arrays, and what their axes count."""

import numpy as np
import pytest

from transformulary.oracle import axes, numbers
from transformulary.oracle.source import read


def test_numbered_vectors_are_columns():
    """e_1, e_2 lie side by side; matrices, one per head, behind one another; numbers in a row."""
    e = [np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])]

    assert numbers(e).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert numbers([np.zeros((4, 7))] * 2).shape == (2, 4, 7)
    assert numbers([0.5, 0.25]).shape == (2,)
    assert numbers(7).shape == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("10.6[l=1]/5.2[h=1]/4.6:softmax", ("ell_z", "ell_x")),
        ("10.5[l=1]", ("d_e", "ell")),
        ("10.5[l=1,t=2]", ("d_e",)),
        ("10.5[l=1,t=2]/6.1", ()),
        ("10.8[l=1]:GELU", ("d_mlp", "ell")),
        ("10.8[l=1]:W_mlp2", ("d_e", "ell")),
        ("10.6[l=1]/5.1", ("H", "d_mid", "ell_x")),
        ("3.4[t=1,u=2]:exp.2", ()),
    ],
)
def test_axes(path, expected):
    """An axis is named in the words of the paper."""
    assert tuple(axes(path)) == expected


@pytest.mark.parametrize(
    "number", ["1", "2", "2s", "2v", "2h", "2t", "3", "4", "4r", "4d", "5", "6", "6r", "7", "10", "14"]
)
def test_every_line_that_computes_has_axes(number):
    """All lines of the algorithms of a decoder are known."""
    loops = {"10": ["4"], "14": ["2"]}.get(number, [])

    lines = [label for label in read().lines(number) if label not in loops]

    assert all(len(axes(f"{number}.{label}")) <= 3 for label in lines)
    assert lines


def test_a_line_of_training():
    """Those of all other algorithms are known; asking says which line is not."""
    assert tuple(axes("8.5[l=1]")) == ("d_e", "ell_z")
    with pytest.raises(KeyError, match=r"13\.6"):
        axes("13.6[i=1]")

"""One value, one path."""

import pytest

from transformulary.errors import AlgorithmError
from transformulary.oracle import source
from transformulary.oracle.path import NESTING, from_filename, parse
from transformulary.oracle.source import INDICES


def test_the_letters_are_those_of_the_source():
    """The order in which loops nest has every index letter of the oracle."""
    assert set(NESTING) == INDICES


@pytest.mark.parametrize(
    "text",
    [
        "010.6", "10.06", "10.6[l=0]", "10.6[l=01]", "0.6", "10.0", "13.00a", "10.6[l=1,l=1]", "10.6[l=1,l=2]",
        "10.5[t=1,l=1]", "10.5[t=1]/5.2[h=0]", "10.5[k=1]", "10.8:GELU.1", "10.8:GELU.02", "10.8:GELU.0", "10.6[l=١]",
        "١0.6", "10.8:é",
    ],
)  # fmt: skip
def test_a_second_spelling_is_none(text):
    """No leading zeros, nothing counted from 0, no index twice, unknown or out of order, no first `.1`, ASCII only."""
    for read in (parse, from_filename):
        with pytest.raises(AlgorithmError, match="is not the path of a value"):
            read(text)


def test_every_line_has_a_path():
    """Every numbered line of the source can be named, those before line 1 too."""
    oracle = source.read()
    lines = [f"{number}.{label}" for number in oracle.numbers.values() for label in oracle.lines(number)]

    assert "13.0a" in lines
    assert lines == [str(parse(line)) for line in lines]


@pytest.mark.parametrize("text", ["13.4[i=1,n=10]/10.5[l=2,t=3]", "4.4[t_z=1,t_x=2]", "8.18:W_mlp3.2", "4r.2[i=12]"])
def test_the_spelling(text):
    """What the oracle writes is read, and written again the same."""
    assert text == str(parse(text))

"""The paper's fifteen algorithms, as printed."""

import re
from pathlib import Path

import pytest

from transformulary.errors import AlgorithmError, ConfigError
from transformulary.paper import DTransformerConfig
from transformulary.pseudocode import numbers, render

GOLDEN = Path(__file__).parents[1] / "golden" / "paper.txt"


def numbered(page):
    """The numbered lines of a page."""
    return [row for row in page.splitlines() if re.match(r"[ \d]{3}[\da-z]  ", row)]


def golden():
    """{number: numbered lines} of the golden file."""
    blocks = re.split(r"^Algorithm (\d+)\n", GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {number: block.splitlines() for number, block in zip(blocks[::2], blocks[1::2], strict=True)}


@pytest.mark.parametrize("number", range(1, 16))
def test_the_papers_lines(number):
    """Each algorithm prints the paper's lines, with the paper's numbers, its numbered `end`s included."""
    lines = numbered(render(number))

    assert golden()[str(number)] == lines


def test_the_paper_has_113_lines():
    """Fifteen algorithms, 113 numbered lines."""
    assert sum(len(numbered(render(number))) for number in range(1, 16)) == 113


def test_less_than_fifty_lines():
    """The paper's "less than 50 lines" for a whole GPT: Algorithms 10, 4, 5, 6, 13 and 14 have 41."""
    assert sum(len(numbered(render(number))) for number in (10, 4, 5, 6, 13, 14)) == 41


@pytest.mark.parametrize("number", range(1, 16))
def test_numbers_have_no_gap(number):
    """The numbers of a page count from 1."""
    labels = [int(row[:4]) for row in numbered(render(number))]

    assert labels == list(range(1, len(labels) + 1))


def captions():
    """{number: head of the box} of the golden file."""
    blocks = (GOLDEN.parent / "captions.txt").read_text(encoding="utf-8").split("\n\n")
    return {int(block.split(":")[0].removeprefix("Algorithm ")): block.strip() for block in blocks}


@pytest.mark.parametrize("number", range(1, 16))
def test_the_papers_captions(number):
    """The head of each box says what the paper's says: what computes what, from which sets, with what parameters."""
    title, *head = render(number).partition("   1  ")[0].rstrip().splitlines()

    assert captions()[number] == "\n".join([title.rpartition(", ")[0], *head])


def test_numbers_are_in_order():
    """Lettered algorithms stand after the one that they vary."""
    assert (
        " ".join(numbers())
        == "1 2 2h 2s 2t 2v 3 4 4d 4r 5 6 6r 7 8 8a 9 9c 10 11 12 13 13a 13b 13c 13d 13e 13m 13r 13u 14 15"
    )


@pytest.mark.parametrize("number", ["16", "0", "4x", "", "ten", -1])
def test_no_such_algorithm(number):
    """A number that no algorithm has is an error that says which there are."""
    with pytest.raises(
        AlgorithmError, match=rf"the paper has no Algorithm {number or repr(number)}; it has 1 to 15\..* 4d, 4r, 6r"
    ):
        render(number)


def test_another_architecture():
    """Algorithm 8 of a decoder is an error that says what the decoder runs."""
    config = DTransformerConfig(N_V=3, ell_max=3, L=1, H=1, d_e=2, d_mlp=2)

    with pytest.raises(ConfigError, match=r"Algorithm 8 is for a EDTransformerConfig.*which runs Algorithm 10"):
        render(8, config)

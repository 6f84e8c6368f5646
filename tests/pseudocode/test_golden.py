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


def test_the_box_of_algorithm_10():
    """The head of the box says what the paper's says: input, output, hyperparameters, parameters, spaces."""
    head = render(10).partition("   1  ")[0].splitlines()

    assert head == [
        "Algorithm 10: P ← DTransformer(x | θ), from [PH22]",
        "    Input: x ∈ V*",
        "    Output: P ∈ (0,1)^{N_V×length(x)}; column t is P̂_θ(x[t+1] | x[1:t])",
        "    Hyperparameters: ℓ_max, L, H, d_e, d_mlp ∈ ℕ",
        "    Parameters:",
        "        W_e ∈ ℝ^{d_e×N_V}, W_p ∈ ℝ^{d_e×ℓ_max}",
        "        for l ∈ [L]:",
        "            𝓦_l: parameters of Algorithm 5",
        "            γ_l¹, β_l¹, γ_l², β_l² ∈ ℝ^{d_e}",
        "            W_mlp1^l ∈ ℝ^{d_mlp×d_e}, b_mlp1^l ∈ ℝ^{d_mlp}, W_mlp2^l ∈ ℝ^{d_e×d_mlp},",
        "                    b_mlp2^l ∈ ℝ^{d_e}",
        "        γ, β ∈ ℝ^{d_e}",
        "        W_u ∈ ℝ^{N_V×d_e}",
    ]


@pytest.mark.parametrize(
    ("number", "head"),
    [
        (1, "Input: v ∈ V | Output: e ∈ ℝ^{d_e} | Parameters: W_e ∈ ℝ^{d_e×N_V}"),
        (2, "Input: ℓ ∈ [ℓ_max] | Output: e_p ∈ ℝ^{d_e} | Parameters: W_p ∈ ℝ^{d_e×ℓ_max}"),
        (6, "Input: e ∈ ℝ^{d_e} | Output: ê ∈ ℝ^{d_e} | Parameters: γ, β ∈ ℝ^{d_e}"),
        (7, "Input: e ∈ ℝ^{d_e} | Output: p ∈ Δ(V) | Parameters: W_u ∈ ℝ^{N_V×d_e}"),
        (
            11,
            "Input: z_n, x_n ∈ V* for n ∈ [N_data]; θ ∈ ℝ^d | Output: θ̂ ∈ ℝ^d | "
            "Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)",
        ),
        (
            12,
            "Input: x_n ∈ V* for n ∈ [N_data]; θ ∈ ℝ^d | Output: θ̂ ∈ ℝ^d | "
            "Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞), p_mask ∈ (0,1)",
        ),
        (14, "Input: x ∈ V*, θ̂ ∈ ℝ^d | Output: y ∈ V* | Hyperparameters: ℓ_gen ∈ ℕ, τ ∈ (0,∞)"),
        (15, "Input: z ∈ V*, θ̂ ∈ ℝ^d | Output: x̂ ∈ V* | Hyperparameters: τ ∈ (0,∞)"),
    ],
)
def test_small_boxes(number, head):
    """Inputs, outputs and hyperparameters of the smaller boxes are the paper's."""
    rows = render(number).partition("   1  ")[0].splitlines()[1:]

    assert head == " | ".join(row.strip() for row in rows)


def test_numbers_are_in_order():
    """Lettered algorithms stand after the one that they vary."""
    assert (
        " ".join(numbers())
        == "1 2 2h 2s 2t 2v 3 4 4d 4r 5 6 6r 7 8 8a 9 9c 10 11 12 13 13a 13b 13c 13d 13e 13m 13r 13u 14 15"
    )


@pytest.mark.parametrize("number", ["16", "0", "4x", "", "ten", -1])
def test_no_such_algorithm(number):
    """A number that no algorithm has is an error that says which there are."""
    with pytest.raises(AlgorithmError, match=rf"the paper has no Algorithm {number}; it has 1 to 15\..* 4d, 4r, 6r"):
        render(number)


def test_another_architecture():
    """Algorithm 8 of a decoder is an error that says what the decoder runs."""
    config = DTransformerConfig(N_V=3, ell_max=3, L=1, H=1, d_e=2, d_mlp=2)

    with pytest.raises(ConfigError, match=r"Algorithm 8 is for a EDTransformerConfig.*which runs Algorithm 10"):
        render(8, config)

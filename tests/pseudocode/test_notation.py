"""How symbols are set."""

import ast
import re
import unicodedata

import pytest

from transformulary.paper import symbols
from transformulary.pseudocode.formulas import Formulas
from transformulary.pseudocode.nodes import Sym
from transformulary.pseudocode.specialise import papers_program
from transformulary.pseudocode.text import text

#: Names of notations and of choices, which no line prints as a symbol.
NOT_PRINTED = {"vocabulary", "odot", "eps"}
NAMES = {s.name: s.unicode for s in (*symbols.APPENDIX, *symbols.BOXES, *symbols.OURS) if s.name.isidentifier()}


def bare(symbol):
    """A symbol without the marks that say what is below and what is above."""
    return re.sub(r"[_^{}]", "", unicodedata.normalize("NFC", symbol))


@pytest.mark.parametrize("name", sorted(NAMES.keys() - NOT_PRINTED))
def test_symbols_are_those_of_the_table(name):
    """A page shows a symbol as the table of all symbols does: a name says how it is set."""
    assert bare(NAMES[name]) == bare(text(Sym(name)))


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("X + W_mlp2 @ ReLU(W_mlp1 @ X) ** 2", "X + W_mlp2 (ReLU(W_mlp1 X) ⊙ ReLU(W_mlp1 X))"),
        ("X ** 3", "X ⊙ X ⊙ X"),
        ("(e[i] - m) ** 2", "(e[i] − m)²"),
        ("d_e ** -0.5 * m**2", "d_e^{−0.5} m²"),
    ],
)
def test_a_power_of_an_array_is_of_every_entry(written, printed):
    """ReLU(x) ** 2 as NumPy means it: the square of a matrix would be a product of matrices."""
    formulas = Formulas(papers_program("DTransformer"), scalars={"m", "d_e"})

    assert printed == text(formulas(ast.parse(written, mode="eval").body))

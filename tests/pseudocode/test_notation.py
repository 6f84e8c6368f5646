"""How symbols are set."""

import re
import unicodedata

import pytest

from transformulary.paper import symbols
from transformulary.pseudocode.nodes import Sym
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

"""Whatever the program prints, `symbols` knows; and whatever a page marks, it explains."""

import re

import pytest
from website import algorithms, models, symbols

from transformulary.cli import main
from transformulary.oracle.source import read
from transformulary.paper import SYMBOLS, DTransformerConfig, called
from transformulary.paper.presets import presets
from transformulary.pseudocode import describe, numbers, render, text
from transformulary.pseudocode.definitions import DEFINITIONS
from transformulary.pseudocode.nodes import Sym

#: Words that are no names: the transpose, all of a kind, an ellipsis.
NO_NAMES = {"T", "*", "…", "sqrt"}  # the last is drawn


def pages():
    """Every algorithm, with all that practice adds, and every preset, as trees."""
    yield from (render(number).what for number in numbers())
    yield from (tuple(algorithms.practised(number)) for number in numbers())
    yield from (describe(one).what for one in presets().values())
    yarn = {"positions": "rotary", "frequencies": "yarn", "factor": 2.0, "ell_train": 4}
    yield describe(DTransformerConfig(N_V=3, ell_max=8, L=1, H=1, d_e=4, d_mlp=4, **yarn)).what


def test_every_printed_symbol_is_known():
    """As it is printed, with its indices, and by its name without them."""
    drawn = {node for page in pages() for node in symbols.nodes(page) if isinstance(node, Sym)}

    assert len(drawn) > 150
    assert {text.text(node) for node in drawn if not called(text.text(node))} == set()
    assert {node.name for node in drawn if node.name.rstrip("_") not in SYMBOLS} == set()


def test_every_printed_function_is_known():
    """Those that formulas use and those that a page defines, but for the algorithms, which are shown."""
    words = {word for page in pages() for word in symbols.words(page)}
    defined = {what.partition("(")[0].partition("[")[0] for what, _, _ in DEFINITIONS.values()}

    assert {"GELU", "softmax"} <= words
    assert {word for word in words | defined if not called(word)} - NO_NAMES - {*read().numbers} == set()


def test_the_table_has_what_is_printed():
    """The table of symbols spells a symbol as the pages do."""
    names = {name for page in pages() for name in symbols.printed(page) if name in SYMBOLS}

    assert {name: text.text(Sym(name)) for name in names} == {name: SYMBOLS[name].unicode for name in names}


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("ℓ_max", "ell_max"), ("ell_max", "ell_max"), ("ℓ_x", "ell_x"), ("ell_z", "ell_z"), ("ℓ_gen", "ell_gen"),
        ("Mask_l", "Mask"), ("δ", "delta"), ("delta", "delta"), ("s", "s"),
        ("Φ", "Phi"), ("Phi", "Phi"), ("GELU", "GELU"),
        ("GELU_tanh", "GELU_tanh"), ("bucket", "bucket"), ("r", "r"), ("a", "a"), ("W_mlp1^l", "W_mlp1"),
        ("γ_l²", "gamma_2"),
        ("𝓦_l^{e/d}", "W_ed"), ("W_qkv^{h,⌈h H_kv / H⌉}", "W_qkv"), ("e_{1:T}", "e"), ("X\u0303", "X_tilde"),
        (r"\boldsymbol{W}_{\mathrm{mlp1}}^l", "W_mlp1"),
    ],
)  # fmt: skip
def test_symbols_finds_it(printed, name, capsys):
    """In Unicode, in ASCII, and as a member of a family."""
    assert 0 == main(["symbols", printed])
    assert re.match(rf"{re.escape(name)}( \(|:)", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["d_foo", "foo_l", "Mask_foo", "nobody"])
def test_what_is_no_index_is_no_symbol(name):
    """Only an index that is made of symbols is taken for one."""
    assert () == called(name)


def unexplained(page):
    """The symbols of a page, (algorithm, name), that have no entry on it, as its script looks them up."""
    entries = set(re.findall(r'id="symbol-([^"]+)"', page))
    own = r'<figure[^>]* data-algorithm="(\w+)">(.*?)</figure>'
    inside = [(number, name) for number, part in re.findall(own, page, re.DOTALL) for name in marked(part)]
    outside = [("", name) for name in marked(re.sub(own, "", page, flags=re.DOTALL))]
    return {(number, name) for number, name in inside + outside if not {name, f"{number}-{name}"} & entries}


def marked(part):
    """The names of the symbols that a part of a page marks, but for those in its own list."""
    return re.findall(r'data-symbol="(\w+)"', re.sub(r"<dl.*?</dl>", "", part, flags=re.DOTALL))


@pytest.mark.parametrize("family", models.published(), ids=lambda family: family.name)
def test_a_model_s_page_explains_what_it_marks(family):
    """Every symbol of the lines that differ and of the whole has its entry, and another meaning in one algorithm."""
    page = models.page(family)

    assert unexplained(page) == set()
    assert len(marked(page)) > 100


@pytest.mark.parametrize("number", ["4", "8", "9", "10", "14"])
def test_an_algorithm_s_page_explains_what_it_marks(number):
    """The lines that published models and practice add, too: s of BERT's line 2a."""
    page = algorithms.page(number)

    assert unexplained(page) == set()
    assert ('id="symbol-s"' in page) == (number == "9")


def test_a_letter_with_two_meanings_has_both():
    """v is the variance in Algorithm 6, and nothing else on GPT-2's page."""
    (family,) = (one for one in models.published() if one.name == "gpt2")

    entries = dict(re.findall(r'id="symbol-(\w+-)?v".*?<dd>(.*?)<', models.page(family)))

    assert {"6-": "in Algorithm 6: variance of the elements of one vector "} == entries

"""LaTeX, Markdown and HTML say what the text says, and are what their readers need."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from pseudocode.formula_reader import compiled
from pseudocode.page_reader import whole
from pseudocode.print_reader import Html, Latex, as_words, found, pages
from pseudocode.published import CONFIGS
from pseudocode.test_notation import NOT_PRINTED
from pseudocode.test_text import VALUES, Names, bigger, leaves, value
from transformulary import __version__
from transformulary.paper import SYMBOLS, Training, preset
from transformulary.paper.practice import Practice
from transformulary.paper.presets import presets
from transformulary.pseudocode import FORMATS, describe, diff, numbers, render
from transformulary.pseudocode.latex import latex
from transformulary.pseudocode.mathml import mathml
from transformulary.pseudocode.nodes import Apply, Big, Frac, Infix, Num, Power, Prefix, Root, Sym, Words
from transformulary.pseudocode.text import WIDTH

OTHERS = [form for form in FORMATS if form != "text"]


def bare(document, form):
    """The rows of all algorithms of a document, without spaces and parentheses."""
    return [[re.sub(r"[ ()]", "", row) for row in whole(page).splitlines()] for page in pages(form, document)]


@pytest.mark.parametrize("form", OTHERS)
def test_every_format_prints_the_papers_algorithms(form):
    """Read back, each format has the captions, heads, numbers and lines of the text, parentheses aside."""
    expected = bare(render(numbers()), "text")

    assert len(expected) == len(numbers())
    assert expected == bare(render(numbers(), format=form), form)


@pytest.mark.parametrize("form", OTHERS)
@pytest.mark.parametrize("sizes", [False, True], ids=["symbols", "numbers"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_format_prints_any_model(name, sizes, form):
    """So has each format for every model, with symbols or numbers.  Parentheses: test_pages executes the lines."""
    expected = bare(describe(CONFIGS[name], sizes), "text")

    assert len(expected) >= 4
    assert expected == bare(describe(CONFIGS[name], sizes, form), form)


@pytest.mark.parametrize("form", OTHERS)
def test_every_format_prints_every_preset(form):
    """So has each format for every preset, with its numbers."""
    for one in presets().values():
        expected = bare(describe(one, numbers=True), "text")

        assert len(expected) >= 4
        assert expected == bare(describe(one, numbers=True, format=form), form), one.name


def seen(node, form):
    """The value of a formula as it is read in a format."""
    if form == "latex":
        words = Latex(latex(node)).formula()
    else:
        words = "".join(map(as_words, found(Html(mathml(node)).root, "math")))
    return compiled(words)(Names(VALUES)) + 0j


@pytest.mark.parametrize("form", ["latex", "html"])
@given(node=st.recursive(leaves, bigger, max_leaves=8))
@settings(max_examples=200)
def test_any_formula_read_back(form, node):
    """Any formula, printed in two dimensions and read with a reader's precedence, is that formula."""
    try:
        with np.errstate(all="ignore"):
            tree, read = np.asarray(value(node, VALUES)), seen(node, form)
    except ZeroDivisionError:
        reject()

    np.testing.assert_allclose(read, tree, rtol=1e-9)


#: Choices of a config that are several words, which no line prints, and classification, which is not yet here.
CHOICES = {name for name, symbol in SYMBOLS.items() if r"\_" in symbol.latex and not name.endswith("_token")}
NOT_IN_LINES = NOT_PRINTED | CHOICES | {"N_C"}


@pytest.mark.parametrize("name", sorted(filter(str.isidentifier, SYMBOLS.keys() - NOT_IN_LINES)))
def test_symbols_are_set_as_the_table_says(name):
    """LaTeX of a symbol is that of the table of symbols: bold, upright, accents, below, above."""
    expected = SYMBOLS[name].latex

    assert bare_latex(expected) == bare_latex(latex(Sym(name)))


def bare_latex(source):
    """Without the braces around one letter."""
    return re.sub(r"(?<=[_^])\{(\\?\w+)\}", r"\1", source)


q, m, X = Sym("q"), Sym("m"), Sym("X")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Frac(q, m), r"\boldsymbol{q}/m"),
        (Frac(Infix("−", q, m), m), r"\dfrac{\boldsymbol{q}-m}{m}"),
        (Infix("", Frac(q, m), m), r"\dfrac{\boldsymbol{q}}{m}\,m"),
        (Power(Frac(q, m), Num(2)), r"(\boldsymbol{q}/m)^{2}"),
        (Root(Infix("+", m, Num(1))), r"\sqrt{m + 1}"),
        (Infix("", q, Infix("+", m, X)), r"\boldsymbol{q}\,(m + \boldsymbol{X})"),
        (Infix("−", q, Prefix("−", m)), r"\boldsymbol{q}-(-m)"),
        (Power(Num(1), Words("T")), r"\boldsymbol{1}^{\top}"),
        (Sym("v", plain=True), "v"),
        (Sym("v"), r"\boldsymbol{v}"),
        (Sym("W_mlp1", high=(Sym("l"),)), r"\boldsymbol{W}_{\mathrm{mlp1}}^{l}"),
        (Big(Infix("=", Sym("i"), Num(1)), m, q), r"\sum_{i = 1}^{m} \boldsymbol{q}"),
        (Apply(Words("layer_norm"), (q,), (m,)), r"\mathrm{layer\_norm}(\boldsymbol{q} \mid m)"),
    ],
)
def test_latex(node, expected):
    """Worked examples of the notation."""
    assert expected == latex(node)


def test_lines_of_text_are_short():
    """No line of text is longer than WIDTH, but for the BibTeX entry."""
    rows = [row for config in CONFIGS.values() for row in describe(config).partition("\nPrinted")[0].splitlines()]

    assert WIDTH >= max(map(len, rows))
    assert any(row.startswith(" " * 20) for row in rows)


def test_latex_is_ascii():
    """LaTeX needs no package for its letters."""
    assert all(describe(config, format="latex").isascii() for config in CONFIGS.values())


@pytest.mark.parametrize("form", FORMATS)
def test_credits(form):
    """Captions say what is the paper's; the version, the paper and its BibTeX entry stand at the end, once."""
    page = describe(CONFIGS["GPT-2"], format=form)

    assert page.count("@article{PH22,") == page.count(f"Printed by Transformulary {__version__}.") == 1
    assert len(re.findall(r"\b(from|corrected from|adapted from)(?= .{0,50}PH22)", page)) == 4


@pytest.mark.parametrize(
    ("number", "name", "credit"),
    [
        ("4", "GPT-2", "from"),
        ("6", "GPT-2", "adapted from"),
        ("10", "GPT-2", "adapted from"),
        ("10", "paper 10", "from"),
        ("8", "paper 8", "corrected from"),
        ("4r", "Llama", "added to"),
        ("2s", "paper 10", "from the text of"),
        ("6r", "Llama", "adapted from"),
        ("5", "Transformer-XL", "adapted from"),
    ],
)
def test_who_a_line_is_owed_to(number, name, credit):
    """An algorithm is the paper's as printed or corrected, in its text, adapted from it, or added to it.

    It is adapted where a line differs (eps), or a parameter: Transformer-XL's u, v and W_r.
    """
    config = preset("gopher-44m").config if name == "Transformer-XL" else CONFIGS[name]

    assert f", {credit} [PH22]" in render(number, config).splitlines()[0]


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_corrected(form):
    """A page says of each misprint that it corrects what it was, and where more is said of it."""
    page = visible(render([8, 9, 6], format=form), form)

    for number, erratum in {"8": "E3", "9": "E2", "6": "E8"}.items():
        assert re.search(rf"In Algorithm {number} a misprint is corrected: .*\({erratum}\)", " ".join(page.split()))
    assert "misprint" not in render([4, 10], format=form)


@pytest.mark.parametrize(
    ("number", "gaps"), [("6r", True), ("13e", True), ("10", False), ("13", False), ("13b", False)]
)
def test_missing_numbers(number, gaps):
    """A page whose line numbers have gaps says why."""
    assert gaps == ("Where a number is missing" in render(number))


@pytest.mark.parametrize(
    ("number", "bold", "plain"),
    [
        ("4r", "abqω", "ℓ"),
        ("2s", "ab", "ℓ"),
        ("13d", "gmvω", "i"),
        ("13a", "gω", ""),
        ("13u", "gθω", "η"),
        ("13", "gθω", ""),
        ("13b", "x", "abnw"),
        ("6", "e", "mv"),
    ],
)
def test_vectors_are_bold(number, bold, plain):
    """A letter is bold where it is an array, in the captions, heads and lines of one algorithm; else it is not."""
    practice = Practice(training=Training(N_steps=2, optimiser="adam")) if number == "13" else None
    page = re.split(r"\\(?:noindent|medskip)", visible(render(number, format="latex", practice=practice), "latex"))[0]
    words = re.sub(r"\\(?:mathrm|textbf|begin|end|cite|mathbb)\{[^}]*\}|\\algline\{\w+\}", "", page)
    names = {"ω": r"\omega", "θ": r"\theta", "ℓ": r"\ell", "η": r"\eta"}

    alone = {c for c in bold + plain if re.search(rf"(?<![\\{{_a-z]){re.escape(names.get(c, c))}(?![a-z_])", words)}
    inside = {c for c in bold + plain if rf"\boldsymbol{{{names.get(c, c)}}}" in words}
    assert (set(plain), set(bold)) == (alone, inside)


class Complete(HTMLParser):
    """What a page asks of others."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def handle_starttag(self, tag, attributes):
        self.asked += [value for name, value in attributes if name in ("src", "href") and tag != "a"]


def test_html_needs_nothing_else():
    """A page of HTML loads no other file, and says that it can be dark and narrow."""
    page, reader = describe(CONFIGS["Llama"], format="html"), Complete()

    reader.feed(page)

    assert reader.asked == []
    assert "@import" not in page and "url(" not in page and "<script" not in page
    assert "prefers-color-scheme: dark" in page and 'name="viewport"' in page


@pytest.mark.parametrize("form", ["text", "latex"])
def test_a_notebook_shows_html(form):
    """Whatever its format, a page shows itself as HTML in a notebook, and as itself elsewhere."""
    page = render(10, format=form)

    assert bare(render(10), "text") == bare(page._repr_html_(), "html")
    assert str(page) == repr(page)


@pytest.mark.parametrize("form", FORMATS)
def test_the_head_of_a_model(form):
    """Above its algorithms each format shows what a model is called, costs, and where its numbers are from."""
    page = describe(preset("gopher-44m"), numbers=True, format=form)
    above = re.split(r"### Algorithm|\nAlgorithm|<figure|\\begin\{algorithm\}\[H\]", visible(page, form))[0]

    for words in ("Gopher (gopher-44m)", "43,700,736 parameters (published: 44M)", "87.4 MB", "arXiv:2112.11446"):
        assert words in above
    assert "87,293,952 FLOPs a token for matrices" in " ".join(above.split())
    assert "and W_u tied to W_e." in " ".join(above.replace("\\_", "_").split())


def test_a_notebook_shows_the_head():
    """So does a notebook, of any config too."""
    shown = describe(CONFIGS["Llama"], name="<mine>")._repr_html_()

    assert "<h2>&lt;mine&gt;</h2>" in shown
    assert "FLOPs a token" in visible(shown, "html")


def visible(page, form):
    """What of a page is seen: no comments, no preamble."""
    if form == "latex":
        return re.sub(r"(?<!\\)%.*", "", page.partition("\\begin{document}")[2].replace("\\allowbreak{}", ""))
    return re.sub(r"<!--.*?-->|<title>.*?</title>", "", page, flags=re.DOTALL)


def test_names_in_html_are_no_markup():
    """The names of the two sides of a diff are shown literally."""
    page = diff(CONFIGS["GPT-2"], CONFIGS["Llama"], format="html", names=("<b>&", "b"))

    assert "&lt;b&gt;&amp;" in page and "<b>&" not in page


def test_html_diff_has_both_sides():
    """Side by side: the left side of an HTML diff has a's lines, the right side b's, equal ones twice."""
    page = diff(CONFIGS["paper 10"], CONFIGS["GPT-2"], format="html")

    assert (3, 3, 2 * 4) == tuple(page.count(f'class="numbered {kind}"') for kind in ("gone", "come", "same"))


def test_no_such_format():
    """A format that there is not is an error that lists those that there are."""
    with pytest.raises(ValueError, match=r"there is no format 'pdf'; there are text, latex, markdown, html\."):
        render(10, format="pdf")

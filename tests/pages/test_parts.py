"""What the pages are made of, compared with where it comes from."""

import re

import pytest
from website import algorithms, models, search, source, symbols
from website.example import CHOICES, example

from transformulary.oracle.source import read
from transformulary.paper.presets import preset
from transformulary.paper.symbols import SYMBOLS
from transformulary.pseudocode import boxes, numbers, render
from transformulary.pseudocode.boxes import papers_lines
from transformulary.pseudocode.diff import between


@pytest.mark.parametrize("number", numbers())
def test_the_pieces_of_the_oracle_are_its_text(number):
    """Every line of an algorithm's body stands beside one line of the pseudocode, in order, none twice."""
    name = read().name(number)
    function, file = read().functions[name], read().files[name]
    text = file.read_text(encoding="utf-8").splitlines()
    docstring = function.body[0]

    pieces = sorted((p.line, p.text) for pieces in source.oracle(number).values() for p in pieces)
    shown = [line.strip() for _, piece in pieces for line in piece.splitlines()]

    written = [source._plain(line).strip() for line in text[docstring.end_lineno : function.end_lineno]]
    assert [line for line in shown if line] == [line for line in written if line]


def test_the_pieces_of_an_algorithm_have_its_labels():
    """A statement stands beside the line whose number its comment gives."""
    pieces = source.oracle("10")

    assert list(pieces) == read().lines(10)
    assert "MHAttention(X_tilde, X_tilde, theta.W[l]" in pieces["6"][0].text


def test_the_table_of_the_fast_model():
    """Each row names one line of a file, and a line that the oracle has."""
    known = {f"{number}.{label}" for number in numbers() for label in read().lines(number)}

    assert set(source.fast()) - known == set()


def test_every_line_is_printed():
    """What practice adds to the paper's algorithms of training and inference stands there as pseudocode too."""
    for number in algorithms.groups()["Training and inference"]:
        lettered = [label for label in read().lines(number) if not label.isdigit()]
        told = {"15": ["7a"]}.get(number, [])  # where Algorithm 15 is cut is told, not printed

        assert lettered == [line.label for line in algorithms.practised(number)] + told


def test_every_line_has_a_value():
    """Whatever computes something has its value on the page.

    Line 3b of Algorithm 10 is dropout, which no config of a model has.
    """
    without = {
        (number, label)
        for number in numbers()
        for label in read().lines(number)
        if not example(number, CHOICES.get((number, label), "")).of(number, label)
    }
    loops = {(n, label) for n, label in without if source.oracle(n)[label][-1].text.rpartition("  #")[0].endswith(":")}

    assert {("10", "3b")} == without - loops


@pytest.mark.parametrize("number", numbers())
def test_every_printed_symbol_is_explained(number):
    """No symbol of an algorithm, and of what practice adds to it, is without an entry beside it."""
    printed = symbols.printed((*render(number).what.boxes, *algorithms.practised(number)))

    assert [name for name in dict.fromkeys(printed) if not symbols.meaning(name, number)] == []


@pytest.mark.parametrize("family", ["gpt2", "llama-3", "gopher"])
def test_changes_are_those_of_the_diff(family):
    """The lines that a page says a model changes are those in which `diff` says it differs from the paper."""
    differences = between(preset("paper").config, preset(family).config, ("paper", family)).differences
    for difference in differences:
        if all(difference.titles):
            number = difference.titles[0].parts[0].removeprefix("Algorithm ").rstrip(":")
            pairs = [pair for run in difference.runs for pair in run if pair[0] != pair[1]]

            changed = models.changes(number, read().name(number))
            ours = {label for label, forms in changed.items() if f"{family}-" in str(list(forms.values()))}
            assert {line.label for pair in pairs for line in pair if line and line.label} == ours


def test_no_model_leaves_a_line_out():
    """Every line of the paper is a line of each model that executes the algorithm, perhaps in another form."""
    lacking = [
        (user, number, line.label)
        for user, boxes in models.executed().items()
        for number, box in boxes.items()
        for line in papers_lines(read().name(number))
        if line.label not in {theirs.label for theirs in box.lines}
    ]

    assert lacking == []


def test_names_of_models():
    """A family stands for all its sizes, and only for all."""
    small, every = models.names(["gpt2-small"]), models.names(p.name for p in models.published()[2].presets())

    assert [">gpt2-small<" in small, ">gpt2<" in every, "gpt2-small" in every] == [True, True, False]


def test_errata_are_all_read():
    """The pages know every row of docs/errata.md."""
    assert [row[0] for row in algorithms.errata()] == [f"E{n}" for n in range(1, 25)]


def test_errata_stand_at_their_algorithm():
    """What the errata say of an algorithm, or its docstring of them, is on its page."""
    assert all(f"errata.html#{e}" in "".join(algorithms._rulings("14")) for e in ("E10", "E11", "E12", "E15"))


def test_entries_of_the_index():
    """A part of a page is found under its heading, with its words in ordinary letters and without its numbers."""
    body = (
        '<h1>Page</h1><p>Begin</p><h2 id="a">One <b>two</b></h2><p>𝑿 ← <span>soft</span>max</p>'
        '<table class="numbers"><tr><td>0.123</td></tr></table><div id="s" data-title="d_e">width</div>'
    )

    found = list(search.entries("/p.html", "Page", body))
    assert found == [
        ["p.html", "Page", "", "Page Begin"],
        ["p.html#a", "Page", "One two", "One two X ← softmax"],
        ["p.html#s", "Page", "d_e", "width"],
    ]


@pytest.mark.parametrize("name", [name for name, one in SYMBOLS.items() if one.space])
def test_the_set_of_a_symbol(name):
    """It is a set with a name, numbers up to a size, or real arrays whose sizes are symbols."""
    space = SYMBOLS[name].space

    sizes = re.findall(r"[A-Za-z]\w*", space.replace(" x ", " "))

    assert space in symbols.SPACES or set(sizes) <= {*SYMBOLS, "d"}


def test_the_set_of_the_mask():
    """The page of symbols says of a mask what the box of Algorithm 4 says: zeros and ones, a row per token read."""
    said = re.findall(r"\{0,1\}|ell_\w", SYMBOLS["Mask"].space)

    assert said == boxes.SPACES["Mask"].split()

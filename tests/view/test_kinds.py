"""The page of an encoder-decoder, which looks in three ways, in a real browser."""

import numpy as np
import pytest

from transformulary.view import attention_page, whole
from transformulary.view.visible import visible
from view.examples import weights

SOURCE = ["Wer", " reitet", " so", " spät", " durch", " Nacht", " und", " Wind", "?"]
TARGET = ["<s>", "Who", " rides", " so", " late"]


def across(ell_x, ell_z, L, H):
    """Weights of ell_x queries for ell_z keys."""
    return [w[:, :ell_x, :ell_z] / w[:, :ell_x, :ell_z].sum(-1, keepdims=True) for w in weights(L, H, 9, causal=False)]


STACKS = [
    whole(SOURCE, weights(1, 2, 9, causal=False, seed=1), kind="encoder", line="8.5"),
    whole(TARGET, weights(2, 2, 5, seed=2), kind="decoder", line="8.14"),
    whole(TARGET, across(5, 9, 2, 2), SOURCE, "cross", "8.16"),
]


@pytest.fixture
def three(tmp_path):
    """The file of a page of an encoder-decoder."""
    (tmp_path / "page.html").write_text(attention_page(STACKS), encoding="utf-8")
    return tmp_path / "page.html"


@pytest.mark.parametrize(("n", "layer", "head", "query", "key"), [(0, 1, 2, 9, 3), (1, 2, 1, 4, 2), (2, 2, 2, 5, 9)])
def test_an_address_leads_to_a_kind_of_attention(page, three, n, layer, head, query, key):
    """#kind=cross&layer=2... shows the weight of a token of one text for one of the other."""
    stack = STACKS[n]

    page.open(three, f"#kind={stack.kind}&layer={layer}&head={head}&query={query}&key={key}")

    w = f"{stack.weights[layer - 1][head - 1, query - 1, key - 1]:.3e}"
    text, _, number = page.text("#reading").rpartition(" ")
    asks, asked = visible(stack.queries[query - 1]), visible(stack.keys[key - 1])
    assert (f"Query {query} {asks}, key {key} {asked}: weight", float(w)) == (text, float(number))
    assert page.text("#path") == f"{stack.line}[l={layer}]/5.2[h={head}]/4.6:softmax"
    address = f"#kind={stack.kind}&layer={layer}&head={head}&query={query}&key={key}&scale=root"
    assert address == page.ask("location.hash")


def test_the_kinds_of_attention_can_be_chosen(page, three):
    """Each has its own texts, layers, heads and pictures; who asks can be pinned, who is asked is shaded."""
    page.open(three)
    seen = []
    for n in (2, 1, 0):
        page.ask(f"change({n})")
        seen.append((page.texts("#tokens bdi"), page.texts("#context bdi"), page.texts("#layer option")))

    shown = [[visible(token) for token in tokens] for tokens in (TARGET, SOURCE)]
    assert [(shown[0], shown[1], ["1", "2"]), (shown[0], [], ["1", "2"]), (shown[1], [], ["1"])] == seen
    page.ask("change(2)")
    page.ask("pin(1)")
    assert "2 Who" in page.text("#asks")
    assert 9 == page.ask("asked.filter((word) => word.style.background).length")
    assert 0 == page.ask("words.filter((word) => word.style.background).length")


def test_each_kind_is_chosen_from_a_list(page, three):
    """The list is there where there is something to choose, and does it."""
    page.open(three)
    chosen = "byId('path').textContent.startsWith('8.16')"
    page.ask("byId('kind').value = 2, byId('kind').dispatchEvent(new Event('change'))")
    page.ask(f"new Promise((done) => {{ const look = () => {chosen} ? done() : setTimeout(look, 5); look(); }})")

    assert ["encoder", "decoder", "cross"] == page.texts("#kind option")
    assert True is page.ask("document.querySelector('#kind').checkVisibility()")
    assert "8.16[l=1]/5.2[h=1]/4.6:softmax" == page.text("#path")


def test_a_wide_matrix_is_drawn_as_it_is(page, three):
    """Rows and columns are as many as there are tokens; each cell has the colour of its weight; keys walk over both."""
    page.open(three, "#kind=cross&head=2")
    pixels = page.ask("Array.from(matrix.picture.data)")
    width, cell = page.ask("[matrix.picture.width, matrix.cell]")
    starts = [4 * (int((q + 0.5) * cell) * width + int((k + 0.5) * cell)) for q in range(5) for k in range(9)]
    drawn = [pixels[start : start + 4] for start in starts]
    page.ask("document.querySelector('#matrix').focus()")
    for key in ["ArrowRight", "End", "ArrowDown", "ArrowDown"]:
        page.press(key)

    rgba = "[0, 8, 16, 24].map((shift) => (colours.table[head.at(q, k)] >>> shift) & 255)"
    assert page.ask(f"queries.flatMap((_, q) => keys.map((_, k) => {rgba}))") == drawn
    assert page.text("#reading").startswith(f"Query 5 {visible(TARGET[-1])}, key 9 {visible(SOURCE[-1])}: weight ")


def test_a_tall_matrix_fits_into_the_window(page, tmp_path):
    """An answer much longer than its context is no higher than the window until it is enlarged."""
    stack = whole(["a"] * 200, [np.full((1, 200, 4), 0.25)], ["b"] * 4, "cross", "8.16")
    (tmp_path / "page.html").write_text(attention_page([stack]), encoding="utf-8")

    page.open(tmp_path / "page.html")

    height, scrolls = page.ask("[matrix.box.clientHeight, matrix.box.scrollHeight - matrix.box.clientHeight]")
    assert height < page.ask("innerHeight")
    assert scrolls <= 0

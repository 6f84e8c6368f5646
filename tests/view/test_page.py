"""The page of attention in a real browser."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from transformulary.view import Attention, attention_page, whole
from transformulary.view.visible import visible
from transformulary.view.weights import encode
from view.chromium import READY, Page
from view.examples import HOSTILE, weights
from view.test_weights import value

TOKENS = ["My", " grandma", " makes", " the", " best", " apple", " pie", ".", "\n", " I", " love", " it"]
WEIGHTS = weights(3, 4, len(TOKENS))


@pytest.fixture
def path(tmp_path):
    """The file of an ordinary page."""
    (tmp_path / "page.html").write_text(attention_page([whole(TOKENS, WEIGHTS)]), encoding="utf-8")
    return tmp_path / "page.html"


def reading(tokens, w, query, key):
    """What is said of the weight w of a query and a key, both from 1."""
    shown = [f"{t} {visible(tokens[t - 1])}" for t in (query, key)]
    return f"Query {shown[0]}, key {shown[1]}: weight {w}"


def centre(page, query, key):
    """Where a cell is in the window; query and key from 1, and 0 for the labels."""
    corner = "(({ x, y }, c) => [c.left + x, c.top + y])"
    x, y = page.ask(f"{corner}(matrix.place({query - 1}, {key - 1}), matrix.canvas.getBoundingClientRect())")
    half = page.ask("matrix.cell / 2")
    return x + half, y + half


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("layer", "head", "query", "key"), [(1, 1, 1, 1), (2, 3, 5, 2), (3, 4, 12, 12)])
def test_an_address_leads_to_a_weight(page, tmp_path, causal, layer, head, query, key):
    """#layer=2&head=3&query=5&key=2 shows the weight of the 2nd key for the 5th query, to four digits."""
    arrays = weights(3, 4, len(TOKENS), causal)
    (tmp_path / "page.html").write_text(attention_page([whole(TOKENS, arrays)]), encoding="utf-8")

    page.open(tmp_path / "page.html", f"#layer={layer}&head={head}&query={query}&key={key}")

    text, _, number = page.text("#reading").rpartition(" ")
    assert reading(TOKENS, "", query, key) == text + " "
    assert float(f"{arrays[layer - 1][head - 1, query - 1, key - 1]:.3e}") == float(number)
    assert page.text("#path") == f"10.6[l={layer}]/5.2[h={head}]/4.6:softmax"


@pytest.mark.parametrize(
    "fragment", ["", "#layer=9&head=0&query=99&key=-1&scale=x", "#query=%3Cb%3E", "#layer", "#query=1.5"]
)
def test_an_address_that_leads_nowhere(page, path, fragment):
    """Numbers that the page does not have leave it at its beginning."""
    page.open(path, fragment)

    assert page.text("#path") == "10.6[l=1]/5.2[h=1]/4.6:softmax"


def test_nothing_is_fetched(page, path):
    """The page is one file: opening and using it asks for nothing else."""
    page.open(path)
    page.ask("choose({ layer: 1 })")

    assert [path.as_uri()] == page.requests()


def test_tokens_are_shown_literally(page, tmp_path):
    """Whatever a token spells, in the title too, it stays text: in the prompt, the list, the reading and the tip."""
    ell = len(HOSTILE)
    document = attention_page([whole(HOSTILE, weights(1, 2, ell))], "".join(HOSTILE))
    (tmp_path / "page.html").write_text(document, encoding="utf-8")

    page.open(tmp_path / "page.html", f"#query={ell}&key=3")

    shown = [visible(token) for token in HOSTILE]
    assert shown == page.texts("#tokens bdi")
    assert set(page.texts("#top .token")) < set(shown)
    assert [shown[-1], "</script>"] == page.texts("#tip .token")
    assert "</script>" in page.text("h1")
    assert "hacked" not in page.ask("document.title.replace(/title='hacked'/, '')")
    assert 0 == page.ask("document.querySelectorAll('img').length")
    assert 4 + 2 == page.ask("document.scripts.length")


def test_codes_mean_the_same_to_the_page(page, path):
    """The page reads each of the 65,536 codes as weights.py wrote it."""
    page.open(path)

    numbers = page.ask("Array.from({ length: 63003 }, (_, code) => valueOf(code))")
    texts = page.ask("Array.from({ length: 63003 }, (_, code) => textOf(code))")

    assert [value(code) or 0 for code in range(63003)] == numbers
    assert ["0", "< 1e-7", "1.000e-7", "1.001e-7"] == texts[:4]
    assert numbers[2:] == [float(text) for text in texts[2:]]


def test_pointing_at_a_weight(page, path):
    """The mouse over a cell shows query, key and weight; away from the matrix it shows nothing."""
    page.open(path)

    page.mouse("mouseMoved", *centre(page, 7, 3))
    tip = page.texts("#tip b, #tip .token")
    page.mouse("mouseMoved", 2, 2)

    assert [f"{WEIGHTS[0][0, 6, 2]:.4g}", "␣pie", "␣makes"] == [f"{float(tip[0]):.4g}", *tip[1:]]
    assert page.ask("document.getElementById('tip').hidden")


def test_a_later_key_is_masked(page, path):
    """Above the diagonal of causal weights the page says why there is no weight."""
    page.open(path)

    page.mouse("mouseMoved", *centre(page, 3, 7))

    assert reading(TOKENS, "0 (a later token: masked)", 3, 7) == page.text("#reading")


def test_touching_a_weight(browser, path):
    """A tap shows what the mouse shows, on a phone, which is nowhere wider than its screen."""
    page = Page(browser, width=390, height=844, touch=True)
    page.open(path)
    page.ask("scrollTo(0, document.getElementById('matrix').offsetTop - 50)")

    page.tap(*centre(page, 12, 2))

    assert page.text("#reading").startswith(reading(TOKENS, "", 12, 2))
    assert 390 == page.ask("document.documentElement.scrollWidth")
    assert [] == page.complaints()
    page.close()


@pytest.mark.parametrize("how", ["prompt", "label", "cell"])
def test_clicking_a_token_pins_it(page, path, how):
    """A click on a query lists its strongest keys in order, and it stays while the mouse goes elsewhere."""
    page.open(path)
    places = {
        "prompt": page.ask("((r) => [r.left + 5, r.top + 5])(byId('t4').getBoundingClientRect())"),
        "label": centre(page, 5, 0),
        "cell": centre(page, 5, 3),
    }

    page.click(*places[how])
    page.mouse("mouseMoved", *centre(page, 9, 9))

    row = WEIGHTS[0][0, 4]
    order = np.argsort(-row)[:5]
    assert "5 ␣bestasks (pinned)" == page.text("#asks")
    assert [visible(TOKENS[key]) for key in order] == page.texts("#top .token")
    assert [float(f"{row[key]:.3e}") for key in order] == [float(t) for t in page.texts("#top span")]
    assert "query=5" in page.ask("location.hash")


def test_keys_alone_reach_everything(page, path):
    """Arrow keys walk over weights, with Shift over layers and heads; Enter pins, Escape lets go."""
    page.open(path)
    page.ask("document.getElementById('matrix').focus()")

    seen = []
    for key, shift in [("ArrowRight", 0), ("ArrowRight", 0), ("ArrowUp", 0), ("End", 0), ("Enter", 0), ("Escape", 0)]:
        page.press(key, bool(shift))
        seen.append((page.text("#reading").partition(": ")[0], page.text("#asks").endswith("(pinned)")))
    page.press("ArrowDown", shift=True)
    page.press("ArrowLeft", shift=True)
    page.ask("choose({})")

    cells = [(12, 1), (12, 2), (11, 2), (11, 11), (11, 11), (11, 11)]
    expected = [reading(TOKENS, "", *cell).partition(": ")[0] for cell in cells]
    assert list(zip(expected, [False] * 4 + [True, False], strict=True)) == seen
    assert "10.6[l=2]/5.2[h=4]/4.6:softmax" == page.text("#path")


def test_walking_keeps_its_cell_in_view(page, tmp_path):
    """In an enlarged matrix the cell that the arrow keys reach is scrolled to, and the tip goes with it."""
    (tmp_path / "page.html").write_text(attention_page([whole(["a"] * 300, weights(1, 1, 300))]), encoding="utf-8")
    page.open(tmp_path / "page.html", "#query=10&key=5")
    page.ask("matrix.magnify(64, 9, 4), byId('matrix').focus()")

    for _ in range(40):
        page.press("ArrowDown")
    page.settle()

    row = page.ask("matrix.place(49, 4).y")
    tip, top = (
        page.ask("byId('tip').getBoundingClientRect().top"),
        page.ask("matrix.canvas.getBoundingClientRect().top"),
    )
    assert page.text("#reading").startswith("Query 50 a, key 5 a")
    assert page.ask("matrix.gutter") <= row <= page.ask("matrix.height - matrix.cell")
    assert abs(tip - top - row) < 150


def test_layer_and_head_can_be_chosen(page, path):
    """Lists, buttons and thumbnails lead to every head."""
    page.open(path)

    page.ask("document.querySelector('[data-step=\"layer 1\"]').click()")
    after_button = page.ask("choose({}).then(() => byId('path').textContent)")
    page.ask("((e) => { e.value = 2; e.dispatchEvent(new Event('change')); })(document.getElementById('head'))")
    after_list = page.ask("choose({}).then(() => byId('path').textContent)")
    page.ask("document.getElementById('h11').click()")
    after_thumbnail = page.ask("choose({}).then(() => byId('path').textContent)")

    paths = [f"10.6[l={l}]/5.2[h={h}]/4.6:softmax" for l, h in [(2, 1), (2, 3), (3, 4)]]
    assert paths == [after_button, after_list, after_thumbnail]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scale", ["linear", "root", "log"])
def test_more_weight_is_farther_from_the_page(page, path, scheme, scale):
    """On light and dark pages and every scale, weight 1 contrasts with the page and 0 does not."""
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.open(path, f"#scale={scale}")

    grey = page.ask("[2, 30000, 54002, 58502, 63002].map((c) => (colours.table[c] >> 8) & 255)")

    sign = 1 if scheme == "dark" else -1
    assert all(sign * (b - a) >= 0 for a, b in pairwise(grey))
    assert sign * (grey[-1] - grey[0]) > 150


def test_the_picture_has_the_colours_of_the_weights(page, path):
    """A cell is drawn in the colour of its weight; nothing is drawn where the mask forbids."""
    page.open(path, "#layer=2&head=2")

    page.ask("matrix.mark({})")
    pixels = "matrix.pen.getImageData(x, y + 5, matrix.cell * matrix.columns.length, 1).data"
    row = page.ask(f"(({{ x, y }}) => Array.from({pixels}))(matrix.place(6, 0))")
    cell = page.ask("matrix.cell")
    drawn = [row[4 * int((key + 0.5) * cell) :][:4] for key in range(len(TOKENS))]

    rgba = "[0, 8, 16, 24].map((shift) => (colours.table[head.at(6, key)] >>> shift) & 255)"
    assert page.ask(f"keys.map((_, key) => {rgba})") == drawn
    assert [[0, 0, 0, 0]] * 5 == drawn[7:]


@pytest.mark.parametrize("causal", [True, False])
def test_the_largest_weight_of_a_pixel_is_drawn(page, tmp_path, causal):
    """Where queries 3 to 7 share a pixel with some keys, the largest of their codes decides."""
    arrays, edges = weights(1, 1, 12, causal), [0, 2, 2, 5, 11, 12]
    (tmp_path / "page.html").write_text(attention_page([whole(TOKENS, arrays)]), encoding="utf-8")
    page.open(tmp_path / "page.html")

    codes = page.ask(f"((out) => (head.largest(2, 7, {edges}, out), Array.from(out)))(new Uint16Array(5))")

    expected = encode(arrays[0][0, 2:7])
    assert [int(expected[:, a:b].max(initial=0)) for a, b in pairwise(edges)] == codes


@pytest.mark.parametrize("zoom", [1, 2, 64])
def test_a_thousand_tokens(page, tmp_path, zoom):
    """A thousand tokens open; each weight can be reached at any zoom, and the largest of a pixel is drawn."""
    tokens, arrays = [f" {t}" for t in range(1000)], weights(1, 2, 1000)
    arrays[0][1, 700] = 0
    arrays[0][1, 700, 123] = 1
    (tmp_path / "page.html").write_text(attention_page([whole(tokens, arrays)]), encoding="utf-8")

    page.open(tmp_path / "page.html", "#head=2&query=701&key=124&scale=linear")
    page.ask(f"matrix.magnify({zoom}, 700, 123)")
    page.settle()

    pixel = "((p) => Array.from(matrix.pen.getImageData(p.x + matrix.cell / 2, p.y + matrix.cell / 2, 1, 1).data))"
    page.ask("matrix.mark({})")
    assert page.text("#reading").endswith("weight 1.000")
    assert page.ask("Array.from(colours.palette.slice(-3))") == page.ask(f"{pixel}(matrix.place(700, 123))")[:3]


def test_one_token(page, tmp_path):
    """The shortest prompt has a page too."""
    (tmp_path / "page.html").write_text(attention_page([whole(["a"], [np.ones((1, 1, 1))])]), encoding="utf-8")

    page.open(tmp_path / "page.html", "#query=1&key=1")

    assert "Query 1 a, key 1 a: weight 1.000" == page.text("#reading")


def test_a_query_that_may_attend_to_nothing(page, tmp_path):
    """A row of zeros is shown as what it is."""
    arrays = [np.array([[[0.0, 0.0], [0.5, 0.5]]])]
    (tmp_path / "page.html").write_text(attention_page([whole(["a", "b"], arrays)]), encoding="utf-8")

    page.open(tmp_path / "page.html", "#query=1")

    assert ("This query may attend to nothing.", []) == (page.text("#rest"), page.texts("#top li"))


def test_a_notebook_shows_the_page(page, tmp_path):
    """In a notebook the page runs in a frame that may run scripts and nothing else."""
    view = Attention([replace(whole(TOKENS, WEIGHTS), layers=[2, 3, 5])], "In a notebook")
    (tmp_path / "notebook.html").write_text(f"<!doctype html>{view._repr_html_()}", encoding="utf-8")
    page.send("Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True)

    page.send("Page.navigate", url=(tmp_path / "notebook.html").as_uri())
    page.ask("new Promise((done) => (document.readyState === 'complete' ? done() : (onload = done)))")
    frames = [e for e in page.events("Target.attachedToTarget") if e["targetInfo"]["type"] == "iframe"]

    assert [True] == [page.ask(READY, frame["sessionId"]) for frame in frames]
    path = page.ask("document.getElementById('path').textContent", frames[0]["sessionId"])
    assert "10.6[l=2]/5.2[h=1]/4.6:softmax" == path


def test_one_kind_needs_no_list(page, path):
    """Where there is one kind of attention nothing is said of kinds."""
    page.open(path)

    assert False is page.ask("document.querySelector('#kind').checkVisibility()")
    assert "#layer=1&head=1&scale=root" == page.ask("location.hash")

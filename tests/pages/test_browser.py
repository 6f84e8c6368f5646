"""The site in a browser: light, dark, on a phone, by keyboard and finger; the search."""

import json

import pytest
from website import search
from website.build import contents

import needs
from pages.made import ALL, SOME
from pseudocode.test_browser import LOADED
from view.chromium import Chromium, Page

#: What sticks out of the window, and cannot be scrolled in its own box.
TOO_WIDE = """Array.from(document.querySelectorAll("#main *"))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".wide, pre"))
  .map((e) => e.outerHTML.slice(0, 120))"""
BRIGHTNESS = (
    """((e) => getComputedStyle(e).backgroundColor.match(/\\d+/g).reduce((a, b) => a + +b, 0))(document.body)"""
)
FOUND = """new Promise((done) => { const look = () => {
  const rows = Array.from(document.querySelectorAll("#found a"), (a) => [a.getAttribute("href"), a.textContent]);
  rows.length ? done(rows) : setTimeout(look, 10); }; look(); })"""

TOLD = """new Promise((done) => { const look = () => {
  const list = document.getElementById("found");
  list.textContent ? done(list.textContent) : setTimeout(look, 10); }; look(); })"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Chromium(needs.chromium(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def opened(browser, site, address, width=1200, scheme="light", touch=False):
    """A tab with a page of the site."""
    page = Page(browser, width, touch=touch)
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.send("Page.navigate", url=(site / address[1:]).as_uri())
    assert page.ask(LOADED)
    return page


def where(page, selector):
    """The middle of an element on the screen."""
    middle = "[r.left + r.width / 2, r.top + r.height / 2]"
    return page.ask(f"((r) => {middle})(document.querySelector('{selector}').getBoundingClientRect())")


def test_fits_a_phone(browser, site):
    """At 390 pixels no page is wider than the window; nothing but the site's own files is asked for; no complaints."""
    for file in sorted(site.rglob("*.html")) if ALL else [site / address[1:] for address in SOME]:
        page = opened(browser, site, f"/{file.relative_to(site).as_posix()}", width=390)

        assert ([], 390) == (page.ask(TOO_WIDE), page.ask("document.documentElement.scrollWidth")), file.name
        assert ([], []) == (page.complaints(), [url for url in page.requests() if not url.startswith(site.as_uri())])
        page.close()


def test_light_and_dark(browser, site):
    """Paper is bright or dark as the system is."""
    seen = {}
    for scheme in ("light", "dark"):
        page = opened(browser, site, SOME[0], scheme=scheme)
        seen[scheme] = page.ask(BRIGHTNESS)
        page.close()

    assert (seen["light"] > 700, seen["dark"] < 150) == (True, True)


@pytest.mark.parametrize("words", ["softmax", "attention", "softm atten", "d_attn", "gpt-neo"])
def test_search(words, browser, site):
    """Words, or their beginnings, find the page of attention; Enter goes to the first."""
    page = opened(browser, site, SOME[1])
    page.ask("document.getElementById('search').focus()")
    page.send("Input.insertText", text=words)

    found = page.ask(FOUND)
    page.press("Enter")
    assert any(href.startswith("algorithms/4.html") for href, _ in found)
    assert all("".join(words.split()[0][:5]).lower() in text.lower() for _, text in found[:1])
    page.ask("new Promise((done) => setTimeout(done, 300))")
    assert page.ask("location.href").endswith(found[0][0])
    page.close()


#: Pages among which the search looks in the tests below: these algorithms, and all guides.
SOUGHT = tuple(f"/algorithms/{number}.html" for number in ("4", "4r", "5", "6r", "10", "13d", "13e", "13u", "14"))


@pytest.fixture(scope="module")
def index():
    """Rows of an index in which many pages speak of the same things."""
    pages = [p for title, group in contents().items() for p in group if title == "Guides" or p.address in SOUGHT]
    return [row for p in pages for row in search.entries(p.address, p.title, p.body())]


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("GQA", {"5"}),
        ("grouped-query", {"5"}),
        ("RoPE", {"4r"}),
        ("rotary embedding", {"4r"}),
        ("RMSNorm", {"6r"}),
        ("AdamW", {"13d", "13u"}),
        ("weight decay", {"13u"}),
        ("warmup", {"13e"}),
        ("nucleus", {"14"}),
        ("SwiGLU", {"10"}),
        ("AdamW zzzqqq", {"13d", "13u"}),
    ],
)
def test_people_s_words(words, first, index, browser, site):
    """What people call a thing finds its algorithm first, among words that are nowhere too."""
    page = opened(browser, site, SOME[1])
    page.ask("document.getElementById('search').focus()")
    page.ask("new Promise((done) => { const look = () => entries ? done(1) : setTimeout(look, 10); look(); })")
    page.ask(f"searchIndex({json.dumps(index)})")
    page.send("Input.insertText", text=words)

    found = page.ask(FOUND)
    page.close()

    leading = {href.removeprefix("algorithms/").removesuffix(".html") for href, _ in found[: len(first)]}
    assert leading == first


@pytest.mark.parametrize("words", ["GPT-2", "W_mlp1", "softmax("])
def test_search_for_words_with_signs(words, browser, site):
    """They are found as they are spelled: a sign is no pattern, and no error."""
    page = opened(browser, site, SOME[1])
    page.ask("document.getElementById('search').focus()")
    page.send("Input.insertText", text=words)

    found = page.ask(FOUND)
    assert found and words.lower() in found[0][1].lower()
    page.close()


def test_search_for_nothing(browser, site):
    """What is nowhere is said to be nowhere."""
    page = opened(browser, site, SOME[0])
    page.ask("document.getElementById('search').focus()")
    page.send("Input.insertText", text="zzzqqq")

    told = page.ask(TOLD)
    assert told == "Nothing found."
    page.close()


def test_a_symbol_of_a_model_explains_itself(browser, site):
    """On the page of a model as well, where v is the variance inside Algorithm 6, and elsewhere something else."""
    page = opened(browser, site, SOME[2])
    told = {}
    for name, place in {"W_s": "#algorithm-9", "v": "#algorithm-6", "gamma_x": ".sides"}.items():
        page.ask(f"document.querySelector('{place} [data-symbol={name}]').scrollIntoView({{block: 'center'}})")
        page.mouse("mouseMoved", *where(page, f"{place} [data-symbol={name}]"))
        told[name] = page.text("#tip")
    page.close()

    assert "segment embedding" in told["W_s"]
    assert "variance of the elements of one vector" in told["v"]
    assert "scale of the norm of the primary sequence's embedding" in told["gamma_x"]


def test_a_symbol_explains_itself(browser, site):
    """By pointer, by finger, and by keyboard, where the arrows go from symbol to symbol."""
    page = opened(browser, site, SOME[0])
    first = "#main figure [data-symbol=W_qkv]"
    page.mouse("mouseMoved", *where(page, first))
    by_pointer = page.text("#tip")
    page.ask("document.querySelector('#main figure [data-symbol]').focus()")
    by_keyboard = page.text("#tip")
    page.press("ArrowRight")
    next_one = page.text("#tip")
    page.press("Escape")
    hidden = page.ask("document.getElementById('tip').hidden")
    page.close()
    phone = opened(browser, site, SOME[0], width=390, touch=True)
    phone.tap(*where(phone, first))
    by_finger = phone.text("#tip")
    phone.close()

    assert "the six parameters of one head" in by_pointer
    assert by_pointer == by_finger
    assert by_keyboard.startswith("V~V_tilde") or "what attention returns" in by_keyboard
    assert next_one not in ("", by_keyboard)
    assert hidden

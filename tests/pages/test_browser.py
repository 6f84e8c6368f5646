"""The site in a browser: light, dark, on a phone, by keyboard and finger; the search."""

import pytest

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


@pytest.mark.parametrize("words", ["softmax", "attention", "softm atten", "d_attn", "single-head"])
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


def test_search_for_nothing(browser, site):
    """What is nowhere is said to be nowhere."""
    page = opened(browser, site, SOME[0])
    page.ask("document.getElementById('search').focus()")
    page.send("Input.insertText", text="zzzqqq")

    told = page.ask(TOLD)
    assert told == "Nothing found."
    page.close()


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

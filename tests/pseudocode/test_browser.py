"""The HTML of algorithms in a browser: light, dark, and as narrow as a phone."""

import json

import pytest

import needs
from pseudocode.published import CONFIGS
from transformulary.pseudocode import describe, diff, numbers, render
from view.chromium import Chromium, Page

LOADED = """new Promise((done) =>
  document.readyState === "complete" ? done(true) : addEventListener("load", () => done(true)))"""
#: What sticks out of the window, or out of its own box.
TOO_WIDE = """Array.from(document.querySelectorAll("p, .words, figcaption, math"))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1 && e.clientWidth)
  .map((e) => e.textContent)"""
#: What is drawn within 2 pixels of the upper or lower edge of its row, or beyond it.
CRAMPED = """Array.from(document.querySelectorAll("math > *"), (e) =>
  [e.textContent, e.getBoundingClientRect(), e.closest("p, figcaption").getBoundingClientRect()])
  .filter(([_, e, row]) => e.height && (e.top < row.top + 2 || e.bottom > row.bottom - 2)).map(([text]) => text)"""
COLOURS = """(() => { const of = (e) => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor];
  return of(document.querySelector(".pseudocode")); })()"""
#: Pixels between the letter V or Y of a symbol, without what moves its neighbours away, and what stands above or right.
GAPS = """Array.from(document.querySelectorAll("[data-symbol=V], [data-symbol=V_tilde], [data-symbol=Y]"), (e) => {
  const first = (n) => n.firstElementChild ? first(n.firstElementChild) : n, letter = first(e);
  const next = e.tagName === "msup" ? e.lastElementChild : e.nextElementSibling;
  const right = letter.getBoundingClientRect().right - parseFloat(getComputedStyle(letter).paddingRight);
  return next && [e.textContent + next.textContent, first(next).getBoundingClientRect().left - right];
  }).filter((e) => e)"""
PAGES = {
    "all algorithms": lambda: render(numbers(), format="html"),
    "Llama, yarn": lambda: describe(CONFIGS["Llama, yarn"], format="html"),
    "sparse": lambda: describe(CONFIGS["sparse"], numbers=True, format="html"),
    "a gate in each stack": lambda: describe(CONFIGS["a gate in each stack"], numbers=True, format="html"),
    "a diff": lambda: diff(CONFIGS["paper 8"], CONFIGS["Marian"], format="html"),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Chromium(needs.chromium(), tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def opened(browser, source, folder, width=1200, scheme="light"):
    """A tab with a page."""
    (folder / "page.html").write_text(source, encoding="utf-8")
    page = Page(browser, width)
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    page.send("Page.navigate", url=(folder / "page.html").as_uri())
    assert page.ask(LOADED)
    return page


@pytest.mark.parametrize("name", PAGES)
def test_fits_a_phone(name, browser, tmp_path):
    """In a window of 390 pixels nothing sticks out: lines are broken.  Nothing else is loaded."""
    page = opened(browser, PAGES[name](), tmp_path, width=390)

    assert ([], 390) == (page.ask(TOO_WIDE), page.ask("document.documentElement.scrollWidth"))
    assert ([], 1) == (page.complaints(), len(page.requests()))
    page.close()


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", PAGES)
def test_rows_are_higher_than_their_formulas(name, width, browser, tmp_path):
    """Fractions and sums keep clear of the rows above and below, which may be coloured."""
    page = opened(browser, PAGES[name](), tmp_path, width)

    assert [] == page.ask(CRAMPED)
    page.close()


def test_letters_that_lean_have_room(browser, tmp_path):
    """A slanted V or Y reaches beyond its box: an index above it and a relation beside it stand clear of its arm."""
    page = opened(browser, render([4, 5], format="html"), tmp_path)

    gaps = page.ask(GAPS)
    page.close()

    assert {"𝒀hh", "𝑽←"} <= {shown for shown, _ in gaps}
    assert [] == [(shown, gap) for shown, gap in gaps if gap < (6 if shown[-1] in "←∈=+" else 2.5)]


def test_light_and_dark(browser, tmp_path):
    """Ink and paper exchange light and dark as the system does."""
    seen = {}
    for scheme in ("light", "dark"):
        page = opened(browser, render(10, format="html"), tmp_path, scheme=scheme)
        ink, paper = ([int(x) for x in colour[4:-1].split(", ")] for colour in page.ask(COLOURS))
        seen[scheme] = sum(paper) - sum(ink)
        page.close()

    assert seen["light"] > 500
    assert seen["dark"] < -500


@pytest.mark.parametrize(("width", "columns"), [(1200, 2), (390, 1)])
def test_sides_of_a_diff(width, columns, browser, tmp_path):
    """Two models stand side by side, one above the other on a phone, where equal lines stand once."""
    page = opened(browser, PAGES["a diff"](), tmp_path, width)
    count = "(s) => Array.from(document.querySelectorAll(s)).filter((e) => e.offsetParent !== null).length"

    template = page.ask('getComputedStyle(document.querySelector("div.sides")).gridTemplateColumns')
    same, gone = (page.ask(f"({count})({json.dumps(s)})") for s in (".numbered.same", ".numbered.gone"))
    page.close()

    assert columns == len(template.split())
    assert gone > 5
    assert same % columns == 0 and same >= 4 * columns

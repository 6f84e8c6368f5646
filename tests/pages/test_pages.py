"""The pages of the site: links, values, programs."""

import os
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from website import ROOT
from website.build import contents

from pages.made import ALL, SOME
from transformulary.oracle import numbers as as_array
from transformulary.oracle.theta import Theta


class Read(HTMLParser):
    """A page: its ids, its links, what it loads, its values by path, its <pre>s, and those of a value's own."""

    def __init__(self, file):
        super().__init__()
        self.ids, self.links, self.loaded, self.values, self.programs = set(), [], [], {}, []
        self.path, self.inside, self.own = "", [], {}
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.inside.append(tag)
        self.ids |= {given["id"]} if "id" in given else set()
        loads = tag not in ("a", "wbr")
        (self.loaded if loads else self.links).extend(
            given[key] for key in ("href", "src", "data-index") if key in given
        )
        if "data-path" in given:
            self.path = given["data-path"]
            self.values[self.path] = []
        if tag == "table" and self.path:
            self.values[self.path].append([])
        if tag == "tr" and self.path:
            self.values[self.path][-1].append([])
        if tag == "pre":
            self.programs.append("")

    def handle_endtag(self, tag):
        self.path = "" if tag == "figure" else self.path
        if tag in self.inside:
            while self.inside.pop() != tag:
                pass

    def handle_data(self, data):
        if "pre" in self.inside:
            self.programs[-1] += data
            if self.path:
                self.own[self.path] = self.programs[-1]
        if self.path and "td" in self.inside:
            self.values[self.path][-1][-1].append(float(data.replace("−", "-").replace("∞", "inf")))


@pytest.fixture(scope="session")
def pages(site):
    """Address -> page as read."""
    return {f"/{file.relative_to(site).as_posix()}": Read(file) for file in sorted(site.rglob("*.html"))}


def declared():
    """The addresses of all pages of the site, made or not."""
    return {page.address for group in contents().values() for page in group}


def target(address, href):
    """(address, fragment) of a relative link."""
    path, _, fragment = href.partition("#")
    whole = os.path.normpath(os.path.join(os.path.dirname(address), path)) if path else address
    return whole, fragment


def test_every_page_is_made(pages):
    """All pages that the contents list are there."""
    assert (declared() if ALL else set(SOME)) <= set(pages)


def test_links_lead_somewhere(pages):
    """A link leads to a page of the site, and to a place that this page has."""
    inner = [(here, *target(here, link)) for here, page in pages.items() for link in page.links if "://" not in link]
    known = set(pages) | declared()

    assert [(here, to) for here, to, _ in inner if to not in known] == []
    assert [(here, to, at) for here, to, at in inner if at and to in pages and at not in pages[to].ids] == []


def test_nothing_is_loaded_from_elsewhere(site, pages):
    """Pages load their own style, script and index, and the style loads nothing."""
    loaded = {target(address, link)[0] for address, page in pages.items() for link in page.loaded}

    assert loaded == {"/site.css", "/site.js", "/search.js"}
    assert re.findall(r"url\(|@import", (site / "site.css").read_text(encoding="utf-8")) == []


def test_values_are_those_of_the_printed_program(pages):
    """What a reader gets who runs the program of a page is what the page shows, to three places."""
    for address, page in pages.items():
        if address.startswith("/algorithms/"):
            usual = next(p for p in page.programs if "values = oracle.record(" in p and p not in page.own.values())
            runs = {program: executed(program) for program in (usual, *page.own.values())}
            shown = {path: tables for path, tables in page.values.items() if tables}

            assert shown
            for path, tables in shown.items():
                expected = matrices(runs[page.own.get(path, usual)][path])
                assert len(tables) == len(expected), f"{address} {path}"
                for table, matrix in zip(tables, expected, strict=True):
                    np.testing.assert_allclose(np.array(table), matrix, rtol=0, atol=5.001e-4, err_msg=path)


def executed(program):
    """The values that a printed program records."""
    scope = {}
    exec(program, scope)
    return scope["values"]


def matrices(value):
    """A value as the matrices that show it: of parameters the first vector, of a vector a column, of ids a row."""
    if isinstance(value, Theta):
        first = [v[0] if isinstance(v, list) else v for v in vars(value).values()]
        return [next(v for v in first if isinstance(v, np.ndarray) and v.ndim == 1)[None]]
    if isinstance(value, list | tuple) and any(isinstance(part, list | tuple | Theta) for part in value):
        return [matrix for part in value for matrix in matrices(part)]
    if isinstance(value, tuple):
        return [np.array([value])]
    if isinstance(value, set) or (isinstance(value, list) and isinstance(value[0], int)):
        return [np.array([sorted(value) if isinstance(value, set) else value])]
    array = as_array(value)
    return [array[:, None]] if array.ndim == 1 else list(array) if array.ndim == 3 else [np.atleast_2d(array)]


def test_every_document_has_a_page():
    """Whatever stands in docs/ is found in the contents."""
    files = [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]
    addresses = {f"/{str(f.relative_to(ROOT)).removeprefix('docs/').lower().replace('.md', '.html')}" for f in files}

    assert addresses - {"/readme.html"} <= declared()


def test_folder_is_ignored():
    """What `make docs` writes is never committed."""
    assert "build/" in Path(ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_titles_are_no_markdown():
    """In the list of pages code is set as code; in the search and the browser's tab titles are plain."""
    pages = [page for group in contents().values() for page in group]

    assert "What <code>conform</code> finds" in [page.label for page in pages]
    assert not any("`" in page.title + page.label for page in pages)

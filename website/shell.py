"""What surrounds every page: the head, the list of all pages, the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape

from transformulary.pseudocode.credits import ADDRESS, AUTHORS, PAPER, PRINTED_BY, TITLE


@dataclass(frozen=True)
class Page:
    """One page of the site, whose body is made when it is asked for; links in it begin at the site's root: /10.html.

    address  "/algorithms/10.html"
    title    for the browser and the search
    label    in the list of pages; "" keeps it out of there
    wide     code stands side by side
    """

    address: str
    title: str
    body: Callable[[], str]
    label: str = ""
    wide: bool = False


#: Title of a group -> its pages, in the order of the list.
Contents = Mapping[str, Iterable[Page]]


def document(page: Page, body: str, contents: Contents) -> str:
    """The whole HTML file of a page."""
    kind = ' class="broad"' if page.wide else ""
    text = f"""<!doctype html>
<html lang="en" id="top">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)} · Transformulary</title>
<link rel="stylesheet" href="/site.css">
<script src="/site.js" data-index="/search.js" defer></script>
<a class="skip" href="#main">Skip to the text</a>
<header>
<a class="home" href="/index.html">Transformulary</a>
<search><input id="search" type="search" placeholder="Search" aria-label="Search" autocomplete="off" spellcheck="false"
 role="combobox" aria-controls="found" aria-expanded="false" aria-autocomplete="list"><ul id="found" role="listbox"
 aria-label="Pages found" hidden></ul></search>
<a class="menu" href="#contents">Contents</a>
</header>
<div class="columns">
<main id="main"{kind}>
{body}
</main>
<nav id="contents" aria-label="Contents">
{"".join(_group(title, pages, page) for title, pages in contents.items())}
</nav>
</div>
<footer><p>{PRINTED_BY} [PH22] {AUTHORS}: <cite>{TITLE}</cite>, <a href="{ADDRESS}">{PAPER}</a>, 2022. This project is
independent of its authors.</p></footer>
</html>
"""
    return relative(text, page.address)


def _group(title: str, pages: Iterable[Page], here: Page) -> str:
    items = "".join(f"<li>{_item(page, page.address == here.address)}</li>" for page in pages if page.label)
    return f"<h2>{escape(title)}</h2>\n<ul>{items}</ul>\n"


def _item(page: Page, current: bool) -> str:
    mark = ' aria-current="page"' if current else ""
    return f'<a href="{page.address}"{mark}>{page.label}</a>'


def relative(text: str, address: str) -> str:
    """Links from the root as links from this page, so that the site works from a file and from any folder."""
    up = "../" * (address.count("/") - 1)
    return re.sub(r"""\b(href|src|data-index)=(["'])/""", lambda m: f"{m[1]}={m[2]}{up}", text)

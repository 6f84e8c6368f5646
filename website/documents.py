"""The repository's Markdown documents as pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from posixpath import normpath

from markdown_it import MarkdownIt
from markdown_it.token import Token

from transformulary.oracle.source import FILES, read
from website import ROOT, source


def address(file: Path) -> str:
    """Where a document stands on the site: docs/conform.md is /conform.html, README.md is /overview.html."""
    path = file.relative_to(ROOT).with_suffix(".html").as_posix().removeprefix("docs/").lower()
    return f"/{path.replace('readme', 'overview')}"


def title(file: Path) -> str:
    """Its first heading, without a date before it."""
    found = re.search(r"^# (?:\d{4}-\d\d-\d\d: )?(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{file} has no heading"
    return "Overview" if file.name == "README.md" else found[1][:1].upper() + found[1][1:]


def page(file: Path) -> str:
    """A document: headings have anchors, links lead to pages, code has its colours."""
    tokens = _parser().parse(file.read_text(encoding="utf-8"))
    _anchor(tokens)
    for token in tokens:
        children = token.children or []
        for child, text in pairwise(children):
            if child.type == "link_open":
                child.attrs["href"] = _target(str(child.attrs["href"]), text.content, file)
    body = _parser().renderer.render(tokens, _parser().options, {})
    body = re.sub(
        r"<table>.*?</table>", lambda found: f'<div class="wide">{_referring(found[0])}</div>', body, flags=re.DOTALL
    )
    return re.sub(r"<tr>\n<td>(E\d+)</td>", r'<tr id="\1">\n<td>\1</td>', body)


def _referring(table: str) -> str:
    """A table with a column "line" or "where": its cells of lines and errata, "10.5, E9", lead to them."""
    if not re.search("<th>(line|where)</th>", table):
        return table
    return re.sub(
        r"<td>((?:\d+[a-z]?\.\d+[a-z]?|E\d+|, )+)</td>", lambda cell: f"<td>{_references(cell[1])}</td>", table
    )


def _references(text: str) -> str:
    text = re.sub(r"\bE\d+", r'<a href="/errata.html#\g<0>">\g<0></a>', text)
    return re.sub(r"\b(\d+[a-z]?)\.(\d+[a-z]?)", r'<a href="/algorithms/\1.html#line-\2">\g<0></a>', text)


def inline(text: str) -> str:
    """A phrase of Markdown."""
    return str(_parser().renderInline(text))


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"highlight": lambda text, language, _: source.highlighted(text, language)}).enable(
        "table"
    )


def _anchor(tokens: Sequence[Token]) -> None:
    """Give every heading an id, made of its words; the second of one name gets a number."""
    seen: dict[str, int] = {}
    for heading, words in pairwise(tokens):
        if heading.type == "heading_open" and heading.tag != "h1":
            slug = re.sub(r"[^a-z0-9]+", "-", words.content.lower()).strip("-")
            seen[slug] = seen.get(slug, 0) + 1
            heading.attrs["id"] = slug if seen[slug] == 1 else f"{slug}-{seen[slug]}"


def _target(href: str, text: str, file: Path) -> str:
    """A link of a document, from the site's root: to a page, or to the text of any other file.

    What leads to the oracle and names an algorithm or a line ("Algorithm 9", "10.2", "DTransformer") leads to its page.
    """
    path, mark, fragment = href.partition("#")
    if "://" in href or not path:
        return href
    target = ROOT / normpath((file.parent / path).relative_to(ROOT).as_posix())
    if target.suffix == ".md":
        return address(target) + mark + fragment
    if target in FILES and (found := re.fullmatch(r"(?:Algorithm )?(\d+[a-z]?)(?:\.(\w+))?", text)):
        return f"/algorithms/{found[1]}.html" + (f"#line-{found[2]}" if found[2] else "")
    if target in FILES and text in read().numbers:
        return f"/algorithms/{read().numbers[text]}.html"
    return source.address(target) + mark + fragment

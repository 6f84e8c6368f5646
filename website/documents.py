"""The repository's Markdown documents as pages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from posixpath import normpath

from markdown_it import MarkdownIt
from markdown_it.token import Token

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
        for child in token.children or ():
            if child.type == "link_open":
                child.attrs["href"] = _target(str(child.attrs["href"]), file)
    body = _parser().renderer.render(tokens, _parser().options, {})
    body = re.sub(r"(<table>.*?</table>)", r'<div class="wide">\1</div>', body, flags=re.DOTALL)
    return re.sub(r"<tr>\n<td>(E\d+)</td>", r'<tr id="\1">\n<td>\1</td>', body)


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
    for heading, words in zip(tokens, tokens[1:], strict=False):
        if heading.type == "heading_open" and heading.tag != "h1":
            slug = re.sub(r"[^a-z0-9]+", "-", words.content.lower()).strip("-")
            seen[slug] = seen.get(slug, 0) + 1
            heading.attrs["id"] = slug if seen[slug] == 1 else f"{slug}-{seen[slug]}"


def _target(href: str, file: Path) -> str:
    """A link of a document, from the site's root: to a page, or to the text of any other file."""
    if "://" in href:
        return href
    path, mark, fragment = href.partition("#")
    if not path:
        return href
    target = ROOT / normpath((file.parent / path).relative_to(ROOT).as_posix())
    return (address(target) if target.suffix == ".md" else source.address(target)) + mark + fragment

"""Algorithms as HTML: one page that needs nothing else, light or dark as the reader's system is, narrow or wide."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from html import escape

from transformulary.pseudocode.credits import ADDRESS, AUTHORS, BIBTEX, PAPER, PRINTED_BY, TITLE
from transformulary.pseudocode.diff import Diff, Difference, Pair
from transformulary.pseudocode.mathml import mathml
from transformulary.pseudocode.nodes import KEYWORDS, REMARK, Box, Code, Document, Head, Line, Part

STYLE = """\
.pseudocode { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --faint: #6a737d; --rule: #1b1f24;
  --gone: #ffebe9; --come: #dafbe1; color: var(--ink); background: var(--paper);
  font: 1rem/1.6 "Latin Modern Roman", "STIX Two Text", Georgia, "Times New Roman", serif;
  max-width: 60rem; margin: 0 auto; padding: .5rem 1rem; box-sizing: border-box; }
@media (prefers-color-scheme: dark) {
  .pseudocode { --ink: #dfe3e8; --paper: #14171b; --faint: #8f98a3; --rule: #8f98a3;
    --gone: #4b1d1f; --come: #143d22; } }
.pseudocode figure { margin: 1.5rem 0; border: solid var(--rule); border-width: 2px 0 1px; padding-bottom: .2rem; }
.pseudocode figcaption { border-bottom: 1px solid var(--rule); padding: .2rem 0; }
.pseudocode h2 { font-size: 1.3rem; margin: 1rem 0 .5rem; }
.pseudocode p.says { padding: 0 0 .3rem; text-indent: 0; overflow-wrap: anywhere; }
.pseudocode table { border-collapse: collapse; }
.pseudocode td, .pseudocode th { padding: 0 1em 0 0; text-align: right; border: 0; font-weight: normal; }
.pseudocode td { white-space: nowrap; }
.pseudocode td:first-child { text-align: left; }
.pseudocode .head { padding: .2rem 0; }
.pseudocode p { margin: 0; padding-left: calc(2em + var(--depth, 0) * 1.5em); text-indent: -2em; }
.pseudocode p.numbered { display: flex; align-items: baseline; padding-left: 0; text-indent: 0; }
.pseudocode .number { flex: none; width: 2em; padding-right: .8em; text-align: right; color: var(--faint);
  font-size: .8em; user-select: none; }
.pseudocode .words { padding-left: calc(2em + var(--depth, 0) * 1.5em); text-indent: -2em; min-width: 0; }
.pseudocode math { font-family: "Latin Modern Math", "STIX Two Math", "Cambria Math", math;
  math-style: normal; text-indent: 0; padding-block: .2em; }
math .leans { padding-right: .2em; }
math .leans-less { padding-right: .1em; }
math mrow.leans { padding: 0 0 0 .28em; }
math mrow.leans-less { padding: 0 0 0 .14em; }
.pseudocode .credit, .pseudocode footer, .pseudocode i { color: var(--faint); }
.pseudocode a { color: inherit; }
.pseudocode pre { white-space: pre-wrap; font-size: .8rem; }
.pseudocode .sides { display: grid; grid-template-columns: 1fr 1fr; column-gap: 1.5rem; }
.pseudocode .sides > * { min-width: 0; padding-right: .3rem; }
.pseudocode .gone { background: var(--gone); }
.pseudocode .come { background: var(--come); }
.pseudocode .more { grid-column: 1 / -1; color: var(--faint); }
@media (max-width: 45rem) {
  .pseudocode { font-size: .95rem; padding: .5rem; }
  .pseudocode .sides { grid-template-columns: 1fr; }
  .pseudocode .sides .same + .same, .pseudocode .sides .nothing { display: none; } }
"""
#: What is the first model's alone, and the second's.
KINDS = ("gone", "come")


def line(row: Line) -> str:
    """The words and formulas of a line."""
    return "".join(space + _part(part) for space, part in row.spaced())


def sentence(row: Line) -> str:
    """A sentence, in which no word governs a line."""
    return "".join(space + _said(part) for space, part in row.spaced())


def _said(part: Part) -> str:
    if isinstance(part, Code):
        return f"<code>{escape(part.text)}</code>"
    return escape(part) if isinstance(part, str) else mathml(part)


def _part(part: Part) -> str:
    if not isinstance(part, str):
        return _said(part)
    if part.startswith(REMARK):
        return f"<i>{escape(part)}</i>"
    return " ".join(f"<b>{word}</b>" if word in KEYWORDS else escape(word) for word in part.split(" "))


def numbered(row: Line, kind: str = "") -> str:
    """A line with its number; what is too long hangs."""
    words = f'<span class="words"{_depth(row.depth)}>{line(row)}</span>'
    return f'<p class="{f"numbered {kind}".strip()}"><span class="number">{row.label}</span>{words}</p>'


def _depth(depth: int) -> str:
    return f' style="--depth: {depth}"' if depth else ""


def box(b: Box) -> str:
    """An algorithm: its title, what goes in and comes out, and its numbered lines."""
    head = (row for heading, rows in b.head for row in _section(heading, rows))
    credit = f'<span class="credit">{b.credit} [<a href="{ADDRESS}">PH22</a>]</span>'
    caption = f"<figcaption><b>Algorithm {b.number}:</b> {mathml(b.title)}, {credit}</figcaption>"
    inside = [caption, '<div class="head">', *head, "</div>", *map(numbered, b.lines)]
    part = f"-{b.part}" * bool(b.part)
    return "\n".join([f'<figure id="algorithm-{b.number}{part}" data-algorithm="{b.number}">', *inside, "</figure>"])


def _section(heading: str, rows: tuple[Line, ...]) -> Iterator[str]:
    if len(rows) == 1:
        yield f"<p><b>{heading}:</b> {line(rows[0])}</p>"
        return
    yield f"<p><b>{heading}:</b></p>"
    yield from (f"<p{_depth(row.depth + 1)}>{line(row)}</p>" for row in rows)


def fragment(what: Document | Diff) -> str:
    """What a notebook shows: the inside of a page, with its style."""
    parts = _differences(what) if isinstance(what, Diff) else _boxes(what)
    cites = isinstance(what, Document) or not what.same
    return "\n".join([f"<style>\n{STYLE}</style>", '<div class="pseudocode">', *parts, _footer(cites), "</div>"])


def _boxes(d: Document) -> Iterator[str]:
    if d.head:
        yield head(d.head)
    yield from map(box, d.boxes)
    yield from _where(d.where)
    yield from (_paragraph(row) for row in d.notes)


def _where(definitions: tuple[Line, ...]) -> Iterator[str]:
    if definitions:
        yield "<p>where</p>"
        yield from (f"<p{_depth(1)}>{sentence(row)}</p>" for row in definitions)


def _paragraph(row: Line) -> str:
    return f'<p class="says">{sentence(row)}</p>'


def head(h: Head) -> str:
    """What is said of a model: its title, paragraphs, and a table."""
    rows = (
        ["<table>", *(_row(row, "td" if i else "th") for i, row in enumerate(h.table)), "</table>"] if h.table else []
    )
    return "\n".join(["<header>", f"<h2>{escape(h.title)}</h2>", *map(_paragraph, h.says), *rows, "</header>"])


def _row(cells: tuple[str, ...], kind: str) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(cell)}</{kind}>' for cell in cells)}</tr>"


def _footer(cites: bool) -> str:
    if not cites:
        return f"<footer>\n<p>{PRINTED_BY}</p>\n</footer>"
    cited = f'[PH22] {AUTHORS}: <cite>{TITLE}</cite>. <a href="{ADDRESS}">{PAPER}</a>, 2022.'
    entry = f"<details><summary>BibTeX</summary><pre>{BIBTEX}</pre></details>"
    return f"<footer>\n<p>{PRINTED_BY}</p>\n<p>{cited}</p>\n{entry}\n</footer>"


def document(d: Document) -> str:
    """A page of algorithms."""
    return _page(d, d.head.title if d.head else ", ".join(f"Algorithm {b.number}" for b in d.boxes))


def diff(d: Diff) -> str:
    """A page of what differs: two models side by side, one above the other where there is no room."""
    return _page(d, " and ".join(d.names))


def _page(what: Document | Diff, title: str) -> str:
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{escape(title)}</title>",
            "<style>body { margin: 0; } @media (prefers-color-scheme: dark) { body { background: #14171b; } }</style>",
            fragment(what),
            "</html>",
        ]
    )


def _differences(d: Diff) -> Iterator[str]:
    if d.same:
        yield head(d.same)
        return
    names = "".join(f'<b class="{kind}">{escape(name)}</b>' for name, kind in zip(d.names, KINDS, strict=True))
    yield f'<div class="sides">{names}</div>'
    yield from map(_difference, d.differences)
    yield from _where(d.where)


def _difference(x: Difference) -> str:
    more = '<p class="more">⋮</p>'
    runs = f"\n{more}\n".join("\n".join(_sides(run, numbered)) for run in x.runs)
    titles = "\n".join(_sides([x.titles], lambda title, kind: f'<p class="{kind}"><b>{line(title)}</b></p>'))
    caption = f'<figcaption class="sides">\n{titles}\n</figcaption>'
    return f'<figure data-algorithm="{x.number}">\n{caption}\n<div class="sides">\n{runs}\n</div>\n</figure>'


def _sides(pairs: Iterable[Pair], shown: Callable[[Line, str], str]) -> Iterator[str]:
    """Both sides of every pair, left and right in turn."""
    for before, after in pairs:
        kinds = ("same", "same") if before == after else KINDS
        for row, kind in zip((before, after), kinds, strict=True):
            yield shown(row, kind) if row else '<p class="nothing"></p>'

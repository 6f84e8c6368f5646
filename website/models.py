"""What published models change: each line of each algorithm as the presets execute it, beside the paper's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from html import escape

from transformulary.paper.presets import Family, families, preset, presets
from transformulary.pseudocode import html
from transformulary.pseudocode.boxes import box, papers_lines
from transformulary.pseudocode.describe import describe, diff
from transformulary.pseudocode.diff import Diff
from transformulary.pseudocode.nodes import Box, Document, Line
from transformulary.pseudocode.specialise import ROOTS, Program
from website import symbols

#: The families that are the paper's own architectures.
PAPERS = {"8": "paper-8", "9": "paper-9", "10": "paper"}


def published() -> list[Family]:
    """All families but the paper's own."""
    return [family for family in families().values() if family.name not in PAPERS.values()]


@cache
def executed() -> dict[str, dict[str, Box]]:
    """Preset -> number -> the algorithm as that model executes it, in the paper's symbols."""
    found = {}
    for name, one in presets().items():
        if one.family.name not in PAPERS.values():
            program = Program(one.config).in_symbols
            found[name] = {b.number: b for b in (box(program, function) for function in program.executed)}
    return found


def users(number: str) -> list[str]:
    """The presets that execute an algorithm."""
    return [name for name, boxes in executed().items() if number in boxes]


def changes(number: str, name: str) -> dict[str, dict[Line, list[str]]]:
    """Label -> another form of that line -> the presets that have it so.  No model leaves a line of the paper out."""
    papers = {line.label: line for line in papers_lines(name)}
    found: dict[str, dict[Line, list[str]]] = defaultdict(lambda: defaultdict(list))
    for user in users(number):
        for line in executed()[user][number].lines:
            if line.label and line != papers.get(line.label):
                found[line.label][line].append(user)
    return found


def names(these: Iterable[str]) -> str:
    """Presets as links to their families, by the family's name where all its sizes are among them."""
    chosen, links = set(these), []
    for family in published():
        sizes = [p.name for p in family.presets()]
        mine = [size for size in sizes if size in chosen]
        said = [family.name] if mine == sizes else mine
        links += [f'<a href="/models/{family.name}.html">{escape(name)}</a>' for name in said]
    return ", ".join(links)


def title(family: Family) -> str:
    """What people call it, as a heading."""
    return family.title[:1].upper() + family.title[1:]


def page(family: Family) -> str:
    """One family: what it changes, its pseudocode, its sizes."""
    config = preset(family.name).config
    paper = PAPERS[ROOTS[type(config)]]
    changed = diff(preset(paper).config, config, names=(paper, family.name)).what
    whole = describe(config, name=next(family.presets()).name).what
    assert isinstance(changed, Diff)
    assert isinstance(whole, Document)
    parts = [*((x.number, x) for x in (*whole.boxes, *changed.differences)), ("", (whole.where, changed.where))]
    notes = [family.note, *(f"{size}: {note}" for size, note in family.notes.items())]
    sizes = ", ".join(f"<code>{p.name}</code>" for p in family.presets())
    return f"""<h1>{escape(title(family))}</h1>
<p>{escape(family.source)}. {escape(" ".join(filter(None, notes)))}</p>
<p>Sizes: {sizes} (<a href="/models.html">their numbers</a>). What stands here is computed from the config, as by
<code>transformulary describe {family.name}</code> and <code>transformulary diff {paper} {family.name}</code>.</p>
<h2 id="changes">What it changes</h2>
<p>Beside the paper's Algorithm {ROOTS[type(config)]}; sizes do not count.</p>
{html.fragment(changed)}
<h2 id="pseudocode">The whole</h2>
{html.fragment(whole)}
<details class="symbols" open><summary><h2 id="symbols">Symbols</h2></summary>
{symbols.legend_of(parts)}</details>"""

"""All pages, and the writing of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from html import escape
from pathlib import Path

from transformulary.files import write_atomically
from transformulary.paper.presets import Family
from transformulary.pseudocode.html import STYLE
from website import ROOT, algorithms, documents, models, search, source, symbols
from website.shell import Contents, Page, document

HERE = Path(__file__).parent
#: The guides in the order in which they are read; other documents in docs/ follow them.
GUIDES = ("tutorials", "reading", "variant", "values", "conform", "worked-examples", "porting", "trace")
REFERENCE = ("models", "errata", "faults")
PROJECT = ("docs/architecture", "CONTRIBUTING", "CHANGELOG")


def contents() -> Contents:
    """Every page but those of source files."""
    docs = {file.stem: file for file in sorted((ROOT / "docs").glob("*.md"))}
    chosen = [*GUIDES, *REFERENCE, "architecture"]
    guides = [name for name in GUIDES if name in docs] + [name for name in docs if name not in chosen]
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    return {
        "Start": [Page("/index.html", "The executable edition", home, "Home"), _document(ROOT / "README.md")],
        **{title: [_algorithm(n) for n in numbers] for title, numbers in algorithms.groups().items()},
        "Guides": [_document(docs[name]) for name in guides],
        "Reference": [
            Page("/symbols.html", "Symbols", symbols.page, "Symbols"),
            *(_document(docs[name]) for name in REFERENCE),
        ],
        "Published models": list(map(_family, models.published())),
        "Project": [*(_document(ROOT / f"{name}.md") for name in PROJECT), *map(_document, decisions)],
    }


def _algorithm(number: str) -> Page:
    label = f"<span>{number}</span> {algorithms.name(number)}"
    title = algorithms.title(number)
    return Page(f"/algorithms/{number}.html", title, partial(algorithms.page, number), label, wide=True)


def _document(file: Path) -> Page:
    title = documents.title(file)
    name, label = title.replace("`", ""), documents.inline(title)
    return Page(documents.address(file), name, partial(documents.page, file), label, file.stem == "models")


def _family(family: Family) -> Page:
    title = models.title(family)
    return Page(f"/models/{family.name}.html", title, partial(models.page, family), escape(title), wide=True)


def home() -> str:
    """The first page: what this is, the algorithms, the guides."""
    lists = "".join(f"<h2>{title}</h2>{_cards(numbers)}" for title, numbers in algorithms.groups().items())
    guides = "".join(f'<li><a href="{p.address}">{p.label}</a></li>' for p in contents()["Guides"])
    return f"""<h1>Formal Algorithms for Transformers,<br>the executable edition</h1>
<p class="lead">The paper of Phuong and Hutter writes transformers down as fifteen numbered algorithms. Here each of
them is a program: on its page every line stands beside the statement that computes it, the fast model's, its value in a
tiny example, and what published models have there instead. All of it is made from the code that ran.</p>
<p class="ways"><a href="/overview.html">What it does, and how to start</a>
<a href="/tutorials.html">From the tutorial to the precise form</a> <a href="/reading.html">Read a paper's model</a></p>
{lists}
<h2>Guides</h2>
<ul>{guides}</ul>"""


def _cards(numbers: list[str]) -> str:
    """The algorithms of one group; a number with a letter is what published models add."""
    return f'<ul class="cards">{"".join(map(_card, numbers))}</ul>'


def _card(number: str) -> str:
    name, what = algorithms.name(number), algorithms.prose(algorithms.summary(number))
    return f'<li><a href="/algorithms/{number}.html"><span>{number}</span> <b>{name}</b></a><p>{what}</p></li>'


def build(folder: Path, wanted: Callable[[Page], bool] = lambda page: True) -> list[Path]:
    """Write the pages, those of the files that they link to, and what all of them use; returns what was written."""
    listed = contents()
    pages = [page for group in listed.values() for page in group if wanted(page)]
    bodies = {page: page.body() for page in pages}
    index = [entry for page, body in bodies.items() for entry in search.entries(page.address, page.title, body)]
    bodies |= {page: page.body() for page in _sources(bodies.values())}
    files = {page.address: document(page, body, listed) for page, body in bodies.items()}
    files |= {"/site.css": style(), "/site.js": (HERE / "site.js").read_text(encoding="utf-8")}
    files["/search.js"] = search.script(index)
    for address, text in files.items():
        (folder / address[1:]).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / address[1:], text)
    return [folder / address[1:] for address in files]


def _sources(bodies: Iterable[str]) -> Iterator[Page]:
    """Pages of the files of the repository that the pages link to."""
    found = {path for body in bodies for path in re.findall(r'href="/source/([^"#]+)\.html', body)}
    for path in sorted(found):
        yield Page(f"/source/{path}.html", path, partial(source.page, ROOT / path), wide=True)


def style() -> str:
    """The style of pseudocode, of code and of the site."""
    return "\n".join([STYLE, source.styles(), (HERE / "site.css").read_text(encoding="utf-8")])

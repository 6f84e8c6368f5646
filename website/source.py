"""Pieces of the source: the oracle's text cut at its line numbers, the fast model's statements, whole files."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from textwrap import dedent

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
from pygments.util import ClassNotFound

from transformulary.oracle.source import places, read
from website import PACKAGE, ROOT

FAST = Path(__file__).with_name("fast.txt")


@dataclass(frozen=True)
class Piece:
    """Neighbouring lines of a file; `line` is the number of the first, from 1."""

    file: Path
    line: int
    text: str

    @property
    def place(self) -> str:
        """What it is called: transformers.py:157."""
        return f"{self.file.name}:{self.line}"

    @property
    def address(self) -> str:
        """Where it stands on the site."""
        return f"{address(self.file)}#L{self.line}"


def address(file: Path) -> str:
    """The page of a file of the repository."""
    return f"/source/{file.relative_to(ROOT).as_posix()}.html"


def oracle(number: str) -> dict[str, list[Piece]]:
    """Label -> its pieces of the oracle's text.  Every line of the function's body belongs to one label: a line without
    a number to the next that has one, the last to the one before."""
    source = read()
    name = source.name(number)
    assert name
    function, file = source.functions[name], source.files[name]
    first = function.body[0]
    start = (first.end_lineno or 0) + 1 if ast.get_docstring(function) else first.lineno
    text, label = file.read_text(encoding="utf-8").splitlines(), ""
    runs: list[tuple[str, int, int]] = []
    for line in range(function.end_lineno or 0, start - 1, -1):
        place = places().get((str(file), line))
        label = place.label if place else label
        if runs and (runs[-1][0] == label or not runs[-1][0]):
            runs[-1] = (label, line, runs[-1][2])
        else:
            runs.append((label, line, line))
    pieces = defaultdict(list)
    for label, start, end in reversed(runs):
        if body := _plain(dedent("\n".join(text[start - 1 : end]))).strip("\n"):
            pieces[label].append(Piece(file, start, body))
    return dict(pieces)


@cache
def fast() -> dict[str, list[Piece]]:
    """ALGORITHM.LINE -> where the fast model computes it, from fast.txt.

    Raises ValueError for a row that does not name one line of its file.
    """
    pieces = defaultdict(list)
    for row in FAST.read_text(encoding="utf-8").splitlines():
        if row and not row.startswith("#"):
            lines, file, beginning = row.split(maxsplit=2)
            for line in lines.split(","):
                pieces[line].append(_statement(PACKAGE / file, beginning))
    return dict(pieces)


def _plain(text: str) -> str:
    """Without what is said to the type checker alone."""
    return re.sub(r"\s*# type: ignore.*", "", text)


def _statement(file: Path, beginning: str) -> Piece:
    """The statement that begins so; of a loop its head; or the one line, where no statement begins with it."""
    text = file.read_text(encoding="utf-8")
    rows = text.splitlines()
    found = [n for n, row in enumerate(rows, 1) if row.strip().startswith(beginning)]
    if len(found) != 1:
        raise ValueError(f"{FAST.name}: {len(found)} lines of {file.relative_to(ROOT)} begin with {beginning!r}")
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt) and n.lineno == found[0]]
    match nodes[:1]:
        case [ast.For(body=body) | ast.While(body=body)]:
            end = body[0].lineno - 1
        case [statement]:
            end = statement.end_lineno or found[0]
        case _:
            end = found[0]
    return Piece(file, found[0], _plain(dedent("\n".join(rows[found[0] - 1 : end]))))


def highlighted(text: str, language: str) -> str:
    """Code with its parts marked, to stand in <pre>."""
    try:
        lexer = get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return escape(text)
    return str(highlight(text, lexer, HtmlFormatter(nowrap=True)))


def page(file: Path) -> str:
    """A whole file, with a place to link to on every line."""
    text = file.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(file.name, stripnl=False)
    except ClassNotFound:
        lexer = get_lexer_by_name("text", stripnl=False)
    rows = highlight(text, lexer, HtmlFormatter(nowrap=True)).splitlines()
    lines = "\n".join(
        f'<span class="row" id="L{n}"><a href="#L{n}">{n}</a>{row}</span>' for n, row in enumerate(rows, 1)
    )
    return f'<h1>{escape(file.relative_to(ROOT).as_posix())}</h1>\n<pre class="file">{lines}</pre>'


def styles() -> str:
    """The colours of code, light and dark."""
    light, dark = (HtmlFormatter(style=style).get_style_defs("pre") for style in ("default", "github-dark"))
    kept = ["\n".join(row for row in css.splitlines() if row.startswith("pre .")) for css in (light, dark)]
    return f"{kept[0]}\n@media (prefers-color-scheme: dark) {{\n{kept[1]}\n}}"

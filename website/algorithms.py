"""The page of one algorithm: its box, its symbols, and each line with its two programs, its value and its variants."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np

from transformulary.oracle.rulings import DOMAINS
from transformulary.oracle.source import read
from transformulary.paper.practice import Inference, Practice, Training
from transformulary.pseudocode import html, numbers, render
from transformulary.pseudocode.nodes import Box, Line, Sym
from website import ROOT, documents, models, source, symbols, values
from website.example import CHOICES, Example, example

#: File of the oracle -> what its algorithms are.
GROUPS = {
    "components": "Components",
    "transformers": "Architectures",
    "procedures": "Training and inference",
    "learning": "Practice",
}


#: Practice that has all the lines which it adds to Algorithms 11 to 15.
PRACTISED = Practice(
    training=Training(N_steps=2, N_acc=2, loss="tokens", optimiser="adamw", masking="bert"),
    inference=Inference(top_k=3, top_p=0.5, stop=(7,)),
)


def name(number: str) -> str:
    """The name of Algorithm `number`, as the paper has it."""
    found = read().name(number)
    assert found
    return found


def summary(number: str) -> str:
    """What it does, in a few words: the first line of the oracle's docstring, without the formula."""
    first = (ast.get_docstring(read().functions[name(number)]) or "").splitlines()[0]
    what = re.sub(r"^[^:]+ <- .*?: |^\S+: ", "", first).rstrip(".")
    return what[:1].upper() + what[1:]


def groups() -> dict[str, list[str]]:
    """What they are -> the numbers of those algorithms, in order."""
    of = {number: GROUPS[read().files[name(number)].stem] for number in numbers()}
    return {title: [number for number in numbers() if of[number] == title] for title in GROUPS.values()}


def title(number: str) -> str:
    """What its page is called."""
    return f"Algorithm {number}: {name(number)}"


def page(number: str) -> str:
    """The whole page."""
    box: Box = render(number).what.boxes[0]  # type: ignore[union-attr]
    run = example(number)
    changed = models.changes(number, name(number))
    shown = {line.label: line for line in (*practised(number), *box.lines) if line.label}
    labels = sorted(read().lines(number), key=_order)
    lines = [_line(number, label, shown.get(label), changed.get(label, {}), run) for label in labels]
    marked = tuple(Sym(name) for name in re.findall(r'data-symbol="(\w+)"', "".join(lines)))
    parts = [
        f'<h1>{title(number)}</h1><p class="lead">{prose(summary(number))}.</p>',
        f'<div class="pseudocode">{_linked(html.box(box), labels)}</div>',
        _users(number),
        f'<details class="symbols" open><summary><h2 id="symbols">Symbols</h2></summary>'
        f"{symbols.legend(number, box, marked)}</details>",
        f'<h2 id="lines">Line by line</h2>{_introduction(number)}',
        *lines,
        f"""<h2 id="example">The example</h2>
<p>The values above are what this program computes. Ids, and the indices in arrays, count from 0; a path counts from 1
(<a href="/values.html">any value of any line</a>).</p>"""
        f"<pre>{source.highlighted(run.program, 'python')}</pre>",
        *_rulings(number),
    ]
    return "\n".join(parts)


def practised(number: str) -> list[Line]:
    """The lines that practice adds to one of the paper's algorithms."""
    if not number.isdigit():
        return []
    box: Box = render(number, practice=PRACTISED).what.boxes[0]  # type: ignore[union-attr]
    return [line for line in box.lines if line.label and not line.label.isdigit()]


def prose(text: str) -> str:
    """Words of a docstring, where v~ is the letter with a tilde."""
    return re.sub(r"(\w)~", lambda m: m[1] + "\u0303", escape(text))


def _order(label: str) -> tuple[int, str]:
    return int(re.match(r"\d+", label)[0]), label  # type: ignore[index]


def _linked(box: str, labels: list[str]) -> str:
    """The box with its line numbers as links to what is said of them."""
    number = r'<span class="number">(\w+)</span>'
    return re.sub(
        number, lambda m: f'<a class="number" href="#line-{m[1]}">{m[1]}</a>' if m[1] in labels else m[0], box
    )


def _users(number: str) -> str:
    if not (users := models.users(number)):
        return ""
    return f'<p class="users">Executed by {models.names(users)}.</p>'


def _introduction(number: str) -> str:
    oracle = source.Piece(read().files[name(number)], read().functions[name(number)].lineno, "")
    where = f'<a href="{oracle.address}">the oracle</a>'
    if not any(line.partition(".")[0] == number for line in source.fast()):
        return f"<p>Each line is a statement of {where}. Only the oracle has this algorithm so far.</p>"
    return f"""<p>Left, {where}: NumPy, one column per token. Right, the fast model: PyTorch, one row per token and
batches of sequences; it was written without the other. Below, what the line computes in <a href="#example">a tiny
example</a>, and what published models have there instead.</p>"""


def _line(number: str, label: str, line: Line | None, changed: dict[Line, list[str]], run: Example) -> str:
    drawn, added = html.numbered(_flat(line) if line else Line(label, 0, ())), ""
    if number.isdigit() and not label.isdigit():
        who = "practice adds" if line else "published models, or how they are run, add"
        added = f'<p class="added">Not in the paper: {who} it.</p>'
    codes = [
        _code("Oracle", source.oracle(number).get(label, [])),
        _code("Fast model", source.fast().get(f"{number}.{label}", [])),
    ]
    pair = f'<div class="pair">{"".join(codes)}</div>' if any(codes) else ""
    return f"""<section class="line" id="line-{label}" data-title="Line {label}">
<div class="pseudocode">{drawn}</div>{added}
{_calls(line, *changed)}{pair}<div class="pair">{_values(number, label, run)}{_changes(changed, line)}</div>
</section>"""


def _calls(*forms: Line | None) -> str:
    """The algorithms that a line names, in any of its forms."""
    known = read().numbers
    called = dict.fromkeys(known[word] for form in forms for word in symbols.words(form) if word in known)
    links = (f'<a href="/algorithms/{number}.html">{title(number)}</a>' for number in called)
    return f'<p class="calls">Inside: {", ".join(links)}</p>' if called else ""


def _flat(line: Line) -> Line:
    return Line(line.label, 0, line.parts)


def _code(who: str, pieces: list[source.Piece]) -> str:
    if not pieces:
        return ""
    return f'<div class="code"><h3>{who}</h3>{"".join(map(_piece, pieces))}</div>'


def _piece(piece: source.Piece) -> str:
    link = f'<a class="place" href="{piece.address}">{piece.place}</a>'
    return f"<div>{link}<pre>{source.highlighted(piece.text, 'python')}</pre></div>"


def _values(number: str, label: str, run: Example) -> str:
    """The value of a line in the example, or in one whose choices bring the line in."""
    program = ""
    if choices := CHOICES.get((number, label)):
        run = example(number, choices)
        listing = f"<pre>{source.highlighted(run.program, 'python')}</pre>"
        program = f"<details><summary>with <code>{escape(choices)}</code></summary>{listing}</details>"
    found = list(run.of(number, label).items())
    if not found:
        return ""
    (path, value), *others = found
    inside = "" if program else "".join(values.shown(*other) for other in others if not _same(other[1], value))
    rest = f'<details><summary>Inside this line</summary><div class="row">{inside}</div></details>' if inside else ""
    return f"<div>{values.shown(path, value, program)}{rest}</div>"


def _same(a: object, b: object) -> bool:
    return isinstance(a, np.ndarray | float | int) and np.array_equal(a, b)  # type: ignore[arg-type]


def _changes(changed: dict[Line, list[str]], line: Line | None) -> str:
    if not changed:
        return ""
    forms = "".join(
        f'<li><p class="pseudocode">{html.line(form)}</p><span>{models.names(users)}</span></li>'
        for form, users in changed.items()
    )
    heading = "In published models" if line else "In these models"
    return f'<div class="changes"><h3>{heading}</h3><ul>{forms}</ul></div>'


def _rulings(number: str) -> Iterator[str]:
    """What the paper leaves open here, and what is refused."""
    domain = DOMAINS.get(number)
    text = inspect.getsource(domain) if domain else ""
    mentioned = set(re.findall(r"\bE\d+\b", (ast.get_docstring(read().functions[name(number)]) or "") + text))
    pattern = re.compile(rf"Algorithms? (?:\d+, )*{number}\b")
    if rows := [row for row in errata() if row[0] in mentioned or pattern.search(row[1])]:
        yield '<h2 id="errata">Errata</h2><div class="wide"><table>'
        yield "<thead><tr><th></th><th>the paper</th><th>here</th></tr></thead><tbody>"
        for erratum, paper, ours in rows:
            link = f'<a href="/errata.html#{erratum}">{erratum}</a>'
            yield f"<tr><td>{link}</td><td>{documents.inline(paper)}</td><td>{documents.inline(ours)}</td></tr>"
        yield "</tbody></table></div>"
    if domain:
        yield '<h2 id="refused">What is refused</h2><p>Outside its domain an algorithm is an error that says where.</p>'
        piece = source.Piece(Path(inspect.getfile(domain)), inspect.getsourcelines(domain)[1], text)
        yield f'<div class="code">{_piece(piece)}</div>'


def errata() -> list[tuple[str, str, str]]:
    """Every row of docs/errata.md: number, what the paper has, what we have."""
    text = (ROOT / "docs/errata.md").read_text(encoding="utf-8")
    return re.findall(r"^\| (E\d+) \| (.*?) \| (.*?) \|$", text, re.MULTILINE)

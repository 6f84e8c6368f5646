r"""Algorithms as a LaTeX document: boxes to be copied into a paper, each with its caption.

A document compiles as it is, with what a small TeX has (amsmath, amssymb, float).  It begins with what the author of an
article must know who wants one box of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from transformulary.pseudocode.credits import AUTHORS, BIBTEX, PAPER, PRINTED_BY, TITLE
from transformulary.pseudocode.diff import Diff, Difference, Pair
from transformulary.pseudocode.grouping import grouped
from transformulary.pseudocode.nodes import (
    KEYWORDS,
    REMARK,
    Apply,
    Big,
    Box,
    Code,
    Document,
    Entry,
    Fence,
    Frac,
    Head,
    Infix,
    Line,
    Node,
    Num,
    Part,
    Power,
    Prefix,
    Root,
    Sym,
    Words,
)
from transformulary.pseudocode.notation import Letters, letters

FENCES = {
    "[]": ("[", "]"),
    "{}": (r"\{", r"\}"),
    "[[]]": (r"[\![", r"]\!]"),
    "ceiling": (r"\lceil ", r"\rceil "),
    "floor": (r"\lfloor ", r"\rfloor "),
    "()": ("(", ")"),
    "[)": ("[", ")"),
    "norm": (r"\lVert ", r"\rVert "),
}
OPERATORS = {
    "": r"\,",
    ":": "{:}",
    "−": "-",
    "×": r" \times ",
    "·": r" \cdot ",
    "⊙": r" \odot ",
    "mod": r" \bmod ",
    "such that": " : ",
    "←": r" \leftarrow ",
    "≡": r" \equiv ",
    "≠": r" \neq ",
    "≤": r" \leq ",
    "≥": r" \geq ",
    "∈": r" \in ",
    "∝": r" \propto ",
    "∧": r" \land ",
    "∨": r" \lor ",
}
PREFIXES = {"−": "-", "¬": r"\lnot ", "∇": r"\nabla ", "log": r"\log "}
#: Letters that are not called as we call them.
CALLED = {"inf": r"\infty", "naturals": r"\mathbb{N}", "reals": r"\mathbb{R}", "integers": r"\mathbb{Z}"}
ACCENTS = {"tilde": r"\tilde{%s}", "hat": r"\hat{%s}", "prime": "%s'", "": "%s"}
STYLES = {"bold": r"\boldsymbol{%s}", "calligraphic": r"\boldsymbol{\mathcal{%s}}", "upright": r"\mathrm{%s}", "": "%s"}
WORDS = {"…": r"\dots", "T": r"\top", "*": "*"}
ESCAPED = {
    **{c: "\\" + c for c in "_&%$#{}"}, "…": r"\dots{}", "^": r"\^{}", "~": r"\~{}", "\\": r"\textbackslash{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}  # fmt: skip
#: What somebody else wrote, outside formulas: also what a text font of TeX has elsewhere than ASCII.
SPOKEN = {'"': r"{\ttfamily\char34}", "`": r"{\char18}", "$": r"{\char36}"}
#: Letters below a symbol that are a word only by accident: the queries', the keys' and the values'.
ITALIC = {"qkv"}

PREAMBLE = r"""% For an article of yours: copy what stands between the two dashed lines into its preamble, a box from
% \begin{algorithm} to \end{algorithm} to where it shall stand, and \bibitem{PH22}, or its entry for BibTeX at the end.
% Two columns: \begin{algorithm*}[t] and \end{algorithm*} set a box across both.  A box taller than a page is split by
% writing between two of its lines \end{algorithm} \begin{algorithm}[H] and its \renewcommand and \caption once more.
\documentclass{article}
\usepackage[a4paper,margin=25mm]{geometry}
% -----
\usepackage{amsmath,amssymb,float}
\ifdefined\algorithm\else % some package or class may have made it
\floatstyle{ruled}
\newfloat{algorithm}{tbp}{loa}
\floatname{algorithm}{Algorithm}
\fi
% A line of an algorithm, and one of its head: number, how deep it stands, words.  What is too long hangs.
\newcommand{\algline}[3]{{\raggedright\noindent\strut\hangafter=1\hangindent=\dimexpr4.6em+1.4em*#2\relax
  \makebox[1.8em][r]{\footnotesize#1}\hspace{\dimexpr.8em+1.4em*#2\relax}#3\par}}
\newcommand{\alghead}[2]{{\raggedright\noindent\strut\hangafter=1\hangindent=\dimexpr2.8em+1.4em*#1\relax
  \hspace*{\dimexpr1.4em*#1\relax}#2\par}}
% -----
\begin{document}
"""


def latex(node: Node) -> str:
    """A formula, without the dollars."""
    return _latex(grouped(node, flat=False))


def _latex(node: Node) -> str:
    match node:
        case Sym(name, low, high, plain):
            return _symbol(letters(name, plain), low, high)
        case Num(value):
            return str(value)
        case Words(words):
            return WORDS.get(words) or rf"\mathrm{{{escaped(words)}}}"
        case Infix(op, left, right):
            return _latex(left) + OPERATORS.get(op, f" {op} ") + _latex(right)
        case Prefix(op, body):
            return PREFIXES[op] + _latex(body)
        case Root(body):
            return rf"\sqrt{{{_latex(body)}}}"
        case Power(Num(1), Words("T")):
            return r"\boldsymbol{1}^{\top}"
        case Power(base, exponent):
            return rf"{_latex(base)}^{{{_latex(exponent)}}}"
        case Frac(above, below, built):
            parts = _latex(above), _latex(below)
            return _built_up(*parts) if built else "/".join(parts)
        case Big(where, up, body):
            return rf"\sum_{{{_latex(where)}}}{f'^{{{_latex(up)}}}' if up else ''} {_latex(body)}"
        case Apply(function, given, parameters):
            shown = r" \mid ".join(_listed(part) for part in (given, parameters) if part)
            return _latex(function) + _fenced("()", shown)
        case Entry(base, at):
            return f"{_latex(base)}{{[{','.join('{:}' if i is None else _latex(i) for i in at)}]}}"
        case Fence(kind, items, separator):
            return _fenced(kind, _listed(items, separator))


def _built_up(above: str, below: str) -> str:
    """A fraction, as large as the line; those inside it are smaller."""
    above, below = (part.replace("dfrac", "frac").replace(r"\bigg", r"\big") for part in (above, below))
    return rf"\dfrac{{{above}}}{{{below}}}"


def _fenced(kind: str, inside: str) -> str:
    """Brackets, tall ones around what is tall."""
    opening, closing = FENCES[kind]
    return rf"\biggl{opening}{inside}\biggr{closing}" if r"\dfrac" in inside else opening + inside + closing


def _listed(items: tuple[Node, ...], separator: str = ", ") -> str:
    r"""Items; a line may end after a comma."""
    return rf"{separator}\allowbreak ".join(map(_latex, items))


def _symbol(own: Letters, low: tuple[Node, ...], high: tuple[Node, ...]) -> str:
    name = own.letter if len(own.letter) == 1 else CALLED.get(own.letter, rf"\{own.letter}")
    base = STYLES[own.style] % (escaped(own.letter) if own.style == "upright" else name)
    below = ",".join(filter(None, (_word(own.low), *map(_latex, low))))
    above = ",".join(filter(None, (_word(own.high), *map(_latex, high))))
    return ACCENTS[own.accent] % base + (f"_{{{below}}}" if below else "") + (f"^{{{above}}}" if above else "")


def _word(mark: str) -> str:
    """What is below or above a letter: upright if it is a word."""
    if mark == "max":
        return r"\max"
    return mark if len(mark) < 2 or mark in ITALIC else rf"\mathrm{{{mark}}}"


def escaped(words: str) -> str:
    """Words outside formulas."""
    return "".join(ESCAPED.get(c, c) for c in words)


def line(row: Line) -> str:
    """A line without its number: words and formulas."""
    return "".join(space + _part(part) for space, part in row.spaced())


def _part(part: Part) -> str:
    if not isinstance(part, str):
        return _said(part)
    if part.startswith(REMARK):
        return rf"\textit{{{escaped(part)}}}"
    return {"∀": r"$\forall$"}.get(part) or re.sub(r"\w+", _bold, escaped(part))


def sentence(row: Line, depth: int = 0) -> str:
    """A sentence, in which no word governs a line."""
    return rf"\alghead{{{depth}}}{{{''.join(space + _said(part) for space, part in row.spaced())}}}"


def _said(part: Part) -> str:
    if isinstance(part, Code):
        return rf"\texttt{{{spoken(part.text)}}}"
    return spoken(part) if isinstance(part, str) else f"${latex(part)}$"


def _bold(word: re.Match[str]) -> str:
    return rf"\textbf{{{word[0]}}}" if word[0] in KEYWORDS else word[0]


def numbered(row: Line) -> str:
    r"""\algline{6}{1}{...}"""
    return rf"\algline{{{row.label}}}{{{row.depth}}}{{{line(row)}}}"


def box(b: Box) -> str:
    """An algorithm as a float that stays where it is."""
    head = (row for heading, rows in b.head for row in _section(heading, rows))
    return "\n".join(
        [
            r"\begin{algorithm}[H]",
            rf"\renewcommand{{\thealgorithm}}{{{b.number}}}% the paper's number; without this line, yours",
            rf"\caption{{${latex(b.title)}$, {b.credit} \cite{{PH22}}}}",
            *head,
            r"\smallskip",
            *map(numbered, b.lines),
            r"\end{algorithm}",
        ]
    )


def _section(heading: str, rows: tuple[Line, ...]) -> Iterator[str]:
    if len(rows) == 1:
        yield rf"\alghead{{0}}{{\textbf{{{heading}:}} {line(rows[0])}}}"
        return
    yield rf"\alghead{{0}}{{\textbf{{{heading}:}}}}"
    for row in rows:
        yield rf"\alghead{{{row.depth + 1}}}{{{line(row)}}}"


def document(d: Document) -> str:
    """Algorithms, the functions that their lines name, notes, and what they are cited as."""
    above = [head(d.head)] if d.head else []
    notes = [r"\medskip", *map(sentence, d.notes)] if d.notes else []
    return _whole([*above, *map(box, d.boxes), *_where(d.where), *notes])


def _where(definitions: tuple[Line, ...]) -> list[str]:
    return [r"\noindent where", *(sentence(row, 1) for row in definitions)] if definitions else []


def head(h: Head) -> str:
    """What is said of a model: its title, paragraphs, and a table."""
    rows = (" & ".join(map(spoken, row)) + r" \\" for row in h.table)
    columns = f"l{'r' * (len(h.table[0]) - 1)}" if h.table else ""
    tabular = rf"{{\smallskip\small\tabcolsep=.5em\noindent\begin{{tabular}}{{@{{}}{columns}@{{}}}}"
    table = [tabular, *rows, r"\end{tabular}}"] if h.table else []
    return "\n".join([rf"\section*{{\raggedright {spoken(h.title)}}}", *map(sentence, h.says), *table])


def spoken(words: str) -> str:
    r"""Words of any alphabet, which only ASCII's letters print; a line may end after a slash, and in a fingerprint."""
    shown = "".join(SPOKEN.get(c) or escaped(c) for c in words.encode("ascii", "backslashreplace").decode())
    shown = re.sub("-(?=-)", "-{}", shown)
    return re.sub(r"/|[0-9a-f]{16}(?=[0-9a-f])", r"\g<0>\\allowbreak{}", shown)


def diff(d: Diff) -> str:
    """What differs, in the form of a unified diff."""
    heading = rf"\noindent$-$ {spoken(d.names[0])}, $+$ {spoken(d.names[1])}"
    if d.same:
        return _whole([head(d.same)], cites=False)
    return _whole([heading, *map(_difference, d.differences), *_where(d.where)])


def _difference(x: Difference) -> str:
    title, before, after = (t and line(t) for t in (x.titles[1] or x.titles[0], *x.titles))
    heading = [rf"\alghead{{0}}{{\textbf{{{title}}}}}"] if not before or not after or before == after else []
    changed = [] if heading else [rf"\alghead{{0}}{{$-$ {before}}}", rf"\alghead{{0}}{{$+$ {after}}}"]
    return "\n".join([*heading, *changed, *(row for run in x.runs for row in _unified(run))])


def _unified(run: tuple[Pair, ...]) -> Iterator[str]:
    for same, pairs in groupby(run, lambda pair: pair[0] == pair[1]):
        before, after = zip(*pairs, strict=True)
        for sign, rows in (("", before),) if same else (("$-$ ", before), ("$+$ ", after)):
            yield from (numbered(replace(row, label=sign + row.label)) for row in rows if row)


def _whole(parts: list[str], cites: bool = True) -> str:
    printed = rf"\bigskip\noindent {PRINTED_BY}"
    entry = rf"\bibitem[PH22]{{PH22}} {AUTHORS}. \emph{{{TITLE}}}. {PAPER}, 2022."
    cited = ["\n".join([r"\begin{thebibliography}{PH22}", entry, r"\end{thebibliography}"])] * cites
    after = [f"For BibTeX:\n{BIBTEX}"] * cites
    return "\n\n".join([PREAMBLE + "\n\n".join([*parts, printed, *cited]), r"\end{document}", *after])

"""What a reader sees on a page of each format, written down as the page in text: LaTeX and HTML read back.

A fraction that is built up becomes ((above)/(below)), what a root covers √(…): nothing else is needed in one line.
This knows nothing of the code that prints.
"""

import re
import unicodedata
from html.parser import HTMLParser

RAISED = str.maketrans("0123456789−", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
ACCENTS = {"tilde": "\u0303", "hat": "\u0302", "~": "\u0303", "^": "\u0302"}


def pages(form, document):
    """The algorithms of a document in one of the formats, as text, each like `Algorithm 10: …`."""
    return READERS[form](document)


def of_text(document):
    return [page for page in document.split("\n\n") if page.startswith("Algorithm")]


def of_markdown(document):
    found = re.findall(r"### (Algorithm \w+: )`([^`]*)`\n\n([^\n]*)\n\n```text\n(.*?)\n```", document, re.DOTALL)
    return [f"{number}{title}, {credit}\n{body}" for number, title, credit, body in found]


# LaTeX


def of_latex(document):
    """Every algorithm: its caption, its \\alghead and \\algline, one a line of the file."""
    body = document.partition("\\begin{document}")[2].partition("\\end{document}")[0]
    found = re.findall(r"\\begin\{algorithm\}\[H\]\n(.*?)\\end\{algorithm\}", body, re.DOTALL)
    return ["\n".join(filter(None, map(_latex_row, page.splitlines()))) for page in found]


def _latex_row(row):
    if found := re.fullmatch(r"\\renewcommand\{\\thealgorithm\}\{(\w+)\}%.*", row):
        _latex_row.number = found[1]
        return ""
    if found := re.fullmatch(r"\\caption\{(.*) \\cite\{PH22\}\}", row):
        return f"Algorithm {_latex_row.number}: {_latex_words(found[1])} [PH22]"
    if found := re.fullmatch(r"\\algline\{(\w*)\}\{(\d)\}\{(.*)\}", row):
        return f"{found[1]:>4}  {'    ' * int(found[2])}{_latex_words(found[3])}"
    if found := re.fullmatch(r"\\alghead\{(\d)\}\{(.*)\}", row):
        return f"    {'    ' * int(found[1])}{_latex_words(found[2])}"
    assert row == r"\smallskip", row
    return ""


def _latex_words(words):
    """Words and formulas in dollars."""
    parts = words.split("$")
    parts[::2] = [re.sub(r"\\text(?:bf|it)\{([^}]*)\}", r"\1", part).replace("\\_", "_") for part in parts[::2]]
    parts[1::2] = [Latex(part).formula() for part in parts[1::2]]
    assert not any("\\" in part for part in parts), parts
    return "".join(parts)


COMMANDS = {
    "leftarrow": " ← ", "odot": " ⊙ ", "equiv": " ≡ ", "neq": " ≠ ", "leq": " ≤ ", "geq": " ≥ ", "in": " ∈ ",
    "land": " ∧ ", "lor": " ∨ ", "propto": " ∝ ", "cdot": " · ", "bmod": " mod ", "mid": " | ",
    "times": "×", "lnot": "¬", "nabla": "∇", "log": "log ", "dots": "…", "forall": "∀", "top": "ᵀ", "infty": "∞",
    "lceil": "⌈", "rceil": "⌉", "lfloor": "⌊", "rfloor": "⌋",
    "lVert": "‖", "rVert": "‖", "ell": "ℓ", "max": "max", "allowbreak": "",
    **{name: unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}") for name in (
        "alpha", "beta", "gamma", "delta", "epsilon", "eta", "theta", "tau", "omega", "pi"
    )},
    "Phi": "Φ", "Delta": "Δ", ",": " ", "!": "", "{": "{", "}": "}", "_": "_",
    **dict.fromkeys(("bigl", "bigr", "biggl", "biggr"), ""),
}  # fmt: skip


class Latex:
    """A formula of LaTeX as text."""

    def __init__(self, source):
        self.tokens = re.findall(r"\\[A-Za-z]+|\\.|[a-zA-Z]|\d+(?:\.\d+)?|\S| +", source)
        self.at = 0

    def formula(self):
        """Everything up to the end of the group, as text."""
        out = ""
        while self.at < len(self.tokens) and self.tokens[self.at] != "}":
            out += self.one()
        return re.sub(" +", " ", out).strip()

    def group(self):
        assert self.tokens[self.at] == "{", self.tokens[self.at :]
        self.at += 1
        inside = self.formula()
        self.at += 1
        return inside

    def one(self):
        token = self.tokens[self.at]
        if token == "{":
            return self.braced()
        self.at += 1
        match token:
            case "_":
                return f"_{grouped(tight(self.group()))}"
            case "^":
                return raised(self.group())
            case "'":
                return "′"
            case "-":
                return " − " if self.is_binary() else "−"
            case "+" | "=" | "<" | ">" | "/":
                return token if token == "/" else f" {token} "
            case r"\boldsymbol" | r"\mathrm":
                return self.group()
            case r"\mathcal":
                return {"W": "𝓦"}[self.group()]
            case r"\mathbb":
                return {"R": "ℝ", "N": "ℕ", "Z": "ℤ"}[self.group()]
            case r"\tilde" | r"\hat":
                return unicodedata.normalize("NFC", self.group() + ACCENTS[token[1:]])
            case r"\dfrac" | r"\frac":
                return f"(({self.group()})/({self.group()}))"
            case r"\sqrt":
                return f"√({self.group()})"
            case r"\sum":
                return self.sum()
        return COMMANDS[token[1:]] if token[0] == "\\" else token

    def is_binary(self):
        before = "".join(self.tokens[: self.at - 1]).rstrip()
        return bool(before) and not re.search(r"(\\leftarrow|\\[a-z]*eq|[(\[{,+=<:]|\\bigg?l\(|\\in)$", before)

    def braced(self):
        """{:} between the ends of a range or for all; {[…]} is an index."""
        inside = self.group()
        return inside if inside == ":" else tight(inside)

    def sum(self):
        self.at += 1
        low, up = tight(self.group()), ""
        if self.tokens[self.at] == "^":
            self.at += 1
            up = f"..{tight(self.group())}"
        return f"Σ_{{{low}{up}}} "


# HTML


class Html(HTMLParser):
    """A page as a tree: [tag, {attribute: value}, children], children being trees and texts."""

    VOID = frozenset({"meta", "wbr"})

    def __init__(self, page):
        super().__init__()
        self.open = [["page", {}, []]]
        self.feed(page)
        self.root = self.open[0]

    def handle_starttag(self, tag, attributes):
        node = [tag, dict(attributes), []]
        self.open[-1][2].append(node)
        if tag not in self.VOID:
            self.open.append(node)

    def handle_endtag(self, tag):
        assert self.open[-1][0] == tag, f"</{tag}> closes <{self.open[-1][0]}>"
        self.open.pop()

    def handle_data(self, data):
        self.open[-1][2].append(data)


def found(node, tag):
    """Every element of this tag below a node, in order."""
    for child in node[2]:
        if isinstance(child, list):
            if child[0] == tag:
                yield child
            yield from found(child, tag)


def of_html(document):
    """Every figure: its caption and its paragraphs."""
    return ["\n".join(_figure(figure)) for figure in found(Html(document).root, "figure")]


def _figure(figure):
    caption = next(found(figure, "figcaption"))
    yield _html_words(caption)
    for row in found(figure, "p"):
        depth = "    " * int(re.sub(r"\D", "", row[1].get("style", "0")))
        if "class" not in row[1]:
            yield f"    {depth}{_html_words(row)}"
        else:
            assert row[1]["class"] == "numbered"
            number, words = row[2]
            depth = "    " * int(re.sub(r"\D", "", words[1].get("style", "0")))
            yield f"{''.join(number[2]):>4}  {depth}{_html_words(words)}"


def _html_words(node):
    out = ""
    for child in node[2]:
        out += child if isinstance(child, str) else as_words(child) if child[0] == "math" else _html_words(child)
    return re.sub(" +", " ", out)


def as_words(node):
    """An element of MathML as text."""
    if isinstance(node, str):
        return "".join(unicodedata.normalize("NFKC", c) if "𝐀" <= c <= "𝟿" and c != "𝓦" else c for c in node)
    tag, attributes, children = node
    parts = [as_words(child) for child in children]
    match tag:
        case "mo":
            return _operator("".join(parts), attributes)
        case "mspace":
            return " "
        case "mfrac":
            return "(({})/({}))".format(*parts)
        case "msqrt":
            return f"√({''.join(parts)})"
        case "mover":
            return unicodedata.normalize("NFC", parts[0] + ACCENTS[parts[1]])
        case "msub" | "msubsup" if parts[0] == "∑":
            return f"Σ_{{{tight('..'.join(parts[1:]))}}}"
        case "msub":
            return f"{parts[0]}_{grouped(tight(parts[1]))}"
        case "msup":
            return parts[0] + raised(parts[1])
        case "msubsup":
            return f"{parts[0]}_{grouped(tight(parts[1]))}{raised(parts[2])}"
    assert tag in ("math", "mrow", "mi", "mn"), tag
    return "".join(parts)


def _operator(sign, attributes):
    sign = {"⟦": "[[", "⟧": "]]"}.get(sign, sign)
    if sign in (",", ";"):
        return sign if "lspace" in attributes else f"{sign} "
    close = attributes.get("lspace") == "0" or (sign in ("×", ":") and "lspace" in attributes)
    return f" {sign} " if attributes.get("form") == "infix" and not close else sign


# both


def tight(words):
    """As between brackets, where sums have no spaces."""
    return re.sub(r" ?([+−=∈:×,]) ?", r"\1", words)


def grouped(words):
    return words if re.fullmatch(r"[^\W_]+", words) else f"{{{words}}}"


def raised(words):
    """A superscript."""
    if words in ("⊤", "ᵀ"):
        return "ᵀ"
    if words in ("*", "′"):
        return words
    words = tight(words) if "(" not in words else words
    return words.translate(RAISED) if re.fullmatch(r"[−\d]+", words) else f"^{grouped(words)}"


READERS = {"text": of_text, "markdown": of_markdown, "latex": of_latex, "html": of_html}

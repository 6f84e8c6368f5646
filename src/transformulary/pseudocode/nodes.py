"""The tree between the oracle's source and a page: what a formula and a line are made of.

A printer (`text`, `latex`, `mathml`) is one function over these kinds.  Where parentheses go follows from
`level`, a rule that every printer shares (`grouping`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transformulary.tables import printable


@dataclass(frozen=True)
class Sym:
    """A symbol by the paper's name ("W_mlp1"), and its indices below (e_t) or above (Y^h).

    plain   whether it is a number, an index or a token here, or an array; None is what the letter usually is
    """

    name: str
    low: tuple[Node, ...] = ()
    high: tuple[Node, ...] = ()
    plain: bool | None = None


@dataclass(frozen=True)
class Num:
    """A number."""

    value: int | float


@dataclass(frozen=True)
class Words:
    """The name of a function, or words: upright in print."""

    text: str


@dataclass(frozen=True)
class Infix:
    """left op right; the operator "" is the product of matrices or with a number, which shows as nothing."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Prefix:
    """An operator before its operand: minus, not, log, gradient."""

    op: str
    body: Node


@dataclass(frozen=True)
class Root:
    """A square root."""

    body: Node


@dataclass(frozen=True)
class Power:
    """base^exponent; the exponent Words("T") is the transpose."""

    base: Node
    exponent: Node


@dataclass(frozen=True)
class Frac:
    """above / below; `grouping` says which are built up."""

    above: Node
    below: Node
    built: bool = False


@dataclass(frozen=True)
class Big:
    """The sum of `body` where `where` holds ("t = 1", "t in T"), up to `up`."""

    where: Node
    up: Node | None
    body: Node


@dataclass(frozen=True)
class Apply:
    """function(given | parameters), or function(given)."""

    function: Node
    given: tuple[Node, ...]
    parameters: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Entry:
    """base[at, at]; an index that is None is the whole range."""

    base: Node
    at: tuple[Node | None, ...]


@dataclass(frozen=True)
class Fence:
    """Items between a pair of brackets: "[]", "{}", "[[ ]]", ceiling, floor, set."""

    kind: str
    items: tuple[Node, ...]
    separator: str = ", "


Node = Sym | Num | Words | Infix | Prefix | Root | Power | Frac | Big | Apply | Entry | Fence


@dataclass(frozen=True)
class Code:
    """What is typed, or the name of a file, among words."""

    text: str


#: What a line or a sentence is made of: words, formulas, and what is typed.
Part = Node | Code | str

#: How tightly an operator binds.  Equal levels group from the left.
LEVELS = {
    "such that": 0,
    "∨": 1,
    "∧": 2,
    **dict.fromkeys(("←", "=", "≡", "≠", "≤", "≥", "<", ">", "∈", "∝", ":"), 3),
    "+": 4,
    "−": 4,
    "⊙": 5,
    "×": 7,
    "mod": 7,
    **dict.fromkeys(("", "·"), 8),
}
RELATION, BIG, FRACTION, PRODUCT, POWER, ATOM = 3, 6, 7, 8, 9, 10


def level(node: Node) -> int:
    """How tightly the outermost operation of a formula binds; a loose one inside a tight one needs parentheses."""
    match node:
        case Infix(op):
            return LEVELS[op]
        case Prefix("−"):
            return LEVELS["−"]
        case Prefix("log"):
            return PRODUCT
        case Big():
            return BIG
        case Frac(built=built):
            return POWER if built else FRACTION
        case Power() | Root() | Prefix():
            return POWER
        case Num(value) if value < 0:
            return LEVELS["−"]
    return ATOM


#: Words that govern a line, set in bold where there is bold.
KEYWORDS = frozenset({"for", "do", "while", "end", "if", "then", "else", "return"})
#: How remarks begin: what follows is no line of the algorithm.
REMARK = "-- "


@dataclass(frozen=True)
class Line:
    """One printed line: the paper's number ("" for a remark), its depth, and words (str) and formulas in turn.

    A sentence is a line without number at depth 0 (`prose`).
    """

    label: str
    depth: int
    parts: tuple[Part, ...]

    def spaced(self) -> Iterator[tuple[str, Part]]:
        """Each part after the space before it: none before punctuation, at the beginning or after "for all" and "("."""
        before: Part = "∀"
        for part in self.parts:
            opened = isinstance(before, str) and before[-1] in "∀("
            yield "" if opened or (isinstance(part, str) and part[0] in ",:;.)") else " ", part
            before = part


@dataclass(frozen=True)
class Box:
    """One algorithm as the paper prints it.

    number   "10", "4r"
    title    what computes what: P <- DTransformer(x | theta)
    credit   what it owes to the paper: "from", "corrected from", "adapted from", "added to"
    head     (heading, lines of it): Input, Output, Hyperparameters, Parameters; a line's label is empty
    lines    the numbered lines
    part     which one, where a page has several of the same number, from 1
    """

    number: str
    title: Node
    credit: str
    head: tuple[tuple[str, tuple[Line, ...]], ...]
    lines: tuple[Line, ...]
    part: int = 0


@dataclass(frozen=True)
class Head:
    """What is said of a model above its algorithms.

    title  what it is called
    says   paragraphs
    table  rows of cells; the first row and the first column name the others

    Names are printable here, and each format escapes what means something to it.
    """

    title: str
    says: tuple[Line, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", printable(self.title))
        object.__setattr__(self, "table", tuple(tuple(map(printable, row)) for row in self.table))


@dataclass(frozen=True)
class Document:
    """Algorithms, the functions that their lines name, one definition a line, and notes; of a model, its head."""

    boxes: tuple[Box, ...]
    where: tuple[Line, ...] = ()
    head: Head | None = None
    notes: tuple[Line, ...] = ()

"""Where parentheses go: one rule for every printer.

A formula in which a loose operation stands inside a tight one gets its parentheses as brackets in the tree, so
that a printer needs to know nothing of precedence.
"""

from __future__ import annotations

from transformulary.pseudocode.nodes import (
    ATOM,
    BIG,
    FRACTION,
    LEVELS,
    POWER,
    PRODUCT,
    RELATION,
    Apply,
    Big,
    Entry,
    Fence,
    Frac,
    Infix,
    Node,
    Num,
    Power,
    Prefix,
    Root,
    Sym,
    level,
)


def grouped(node: Node, flat: bool = True) -> Node:
    """The formula with the parentheses that a reader needs.

    flat   in one line of text; otherwise the bar of a root groups what is below it, and a fraction is built up
           wherever its slash would need parentheses
    """
    return _Grouping(flat)(node)


class _Grouping:
    def __init__(self, flat: bool) -> None:
        self.flat = flat

    def __call__(self, node: Node, least: int = 0) -> Node:
        """A formula; in parentheses if it binds less tightly than `least`."""
        new = self.parts(node)
        if level(new) >= least:
            return new
        if isinstance(node, Frac) and not self.flat and least < ATOM:
            return self.built_up(node)
        return _parentheses(new)

    def parts(self, node: Node) -> Node:
        match node:
            case Infix(op, left, right):
                inside = self if LEVELS[op] <= RELATION else self.operand
                return Infix(op, self.first(left, LEVELS[op]), inside(right, LEVELS[op] + 1))
            case Prefix("log", body):
                return Prefix("log", self(body, ATOM))
            case Prefix(op, body):
                return Prefix(op, self.operand(body, BIG))
            case Root(body):
                return Root(self(body, ATOM if self.flat else 0))
            case Power(base, exponent):
                return Power(self(base, ATOM), self(exponent))
            case Frac(above, below):
                slashed = Frac(self(above, PRODUCT), self(below, BIG if isinstance(below, Big) else POWER))
                simple = slashed == self.built_up(node, False) and not isinstance(below, Big)
                return slashed if self.flat or simple else self.built_up(node)
            case Big(where, up, body):
                return Big(self(where), up and self(up), self.operand(body, FRACTION))
            case Apply(function, given, parameters):
                return Apply(self(function), tuple(map(self, given)), tuple(map(self, parameters)))
            case Entry(base, at):
                return Entry(self(base, ATOM), tuple(i and self(i) for i in at))
            case Fence(kind, items, separator):
                return Fence(kind, tuple(map(self, items)), separator)
            case Sym(name, low, high, plain):
                return Sym(name, tuple(map(self, low)), tuple(map(self, high)), plain)
        return node

    def built_up(self, fraction: Frac, built: bool = True) -> Frac:
        return Frac(self(fraction.above), self(fraction.below), built)

    def operand(self, node: Node, least: int) -> Node:
        """An operand that is not the first: one that begins with a minus needs parentheses."""
        new = self(node, least)
        return _parentheses(new) if _begins_with_minus(new) else new

    def first(self, node: Node, least: int) -> Node:
        """The left operand; a number below 0 may begin a sum or a product without parentheses."""
        return self(node, 0 if isinstance(node, Num) else least)


def _parentheses(node: Node) -> Fence:
    return Fence("()", (node,))


def _begins_with_minus(node: Node) -> bool:
    match node:
        case Num(value):
            return value < 0
        case Prefix(op):
            return op == "−"
        case Infix(_, first) | Frac(first, _, False):
            return _begins_with_minus(first)
    return False

"""Which layers have a mask, in as few signs as say it: l odd, l mod 3 = 1, l ≤ 70, l ∈ {1, 4, 5}."""

from __future__ import annotations

from itertools import count, groupby

from transformulary.paper.masks import Mask
from transformulary.pseudocode.nodes import Fence, Infix, Node, Num, Part, Sym, Words


def layers(masks: tuple[Mask, ...], L: int) -> dict[Mask, tuple[Part, ...]]:
    """Each mask of a cycle that `L` layers go through, and its condition on l: remainders if it comes round twice."""
    period, l = len(masks), Sym("l")
    of: dict[Mask, list[int]] = {}
    if period == 2:
        return {masks[0]: (l, "odd"), masks[1]: (l, "even")}
    if L >= 2 * period:
        for number, mask in enumerate(masks, 1):
            of.setdefault(mask, []).append(number % period)
        return {mask: (_among(Infix("mod", l, Num(period)), sorted(found)),) for mask, found in of.items()}
    for number in range(1, L + 1):
        of.setdefault(masks[(number - 1) % period], []).append(number)
    return {mask: (_where(l, found, L),) for mask, found in of.items()}


def _where(l: Node, found: list[int], L: int) -> Node:
    """The first layers, the last ones, or those of a set."""
    if 1 < len(found) == found[-1]:
        return Infix("≤", l, Num(found[-1]))
    if 1 < len(found) == L + 1 - found[0]:
        return Infix(">", l, Num(found[0] - 1))
    return _among(l, found)


def _among(what: Node, numbers: list[int]) -> Node:
    """what = 3, or what ∈ {1, 4, …, 9}: of more than three numbers that follow each other, the first and the last."""
    if len(numbers) == 1:
        return Infix("=", what, Num(numbers[0]))
    steps = count()
    shown: list[Node] = []
    for _, run in groupby(numbers, lambda n: n - next(steps)):
        each = list(map(Num, run))
        shown += each if len(each) <= 3 else (each[0], Words("…"), each[-1])
    return Infix("∈", what, Fence("{}", tuple(shown)))

"""Tensors that stand in each other's place: their numbers say which parameters they are, their names where they stand.

What a pattern of names means is what most of its tensors are; where words say otherwise, of two patterns whose
parameters could be exchanged, it is what they say.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.names import Kind, Place, kinds, place, told, words
from transformulary.conform.weights import Match
from transformulary.paper import Config
from transformulary.paper.parameters import split

Array = NDArray[Any]
#: What a pattern of names means, which parameter.
Meant = dict[str, Kind]
STACKS = {"L_enc": "the encoder", "L_dec": "the decoder"}
#: So many exchanges of one kind are named one by one.
NAMED = 4


@dataclass(frozen=True)
class Held:
    """What may be held in place of some of our parameters: what it is, and their numbers, as `reference_tensors`."""

    says: str
    tensors: Mapping[str, Array]


@dataclass(frozen=True)
class _Named:
    """A tensor: the parameter that it is by its numbers, in which layer (0: in none), and where it stands."""

    kind: Kind
    layer: int
    place: Place


#: Tensors that stand in each other's place: at the first's, the second; ...; at the last's, the first.
Cycle = tuple[tuple[Kind, int], ...]


def exchanged(matches: Iterable[Match], ours: Mapping[str, Array], c: Config) -> Iterator[Held]:
    """What stands in each other's place if names mean what they say.

    Args:
        matches: of tensors that are ours by their numbers.
        ours: by their names in a layer, also q, k and v as one.
    """
    named = _named([m for m in matches if m.name in ours], ours, c)
    found: dict[str, Held] = {}
    for meant in _meanings(named, ours):
        for says, cycles in _said([*_cycles(named, meant, ours)], {n.kind.name: n.kind for n in named}):
            moved = {kind.at(l): ours[of.at(m)] for cycle in cycles for (kind, l), (of, m) in _steps(cycle)}
            found.setdefault(says, Held(says, moved))
    yield from found.values()


def _steps(cycle: Cycle) -> Iterator[tuple[tuple[Kind, int], tuple[Kind, int]]]:
    return zip(cycle, (*cycle[1:], cycle[0]), strict=True)


def _named(matches: Sequence[Match], ours: Mapping[str, Array], c: Config) -> list[_Named]:
    """Those whose numbers no other of our parameters has."""
    often = Counter(_print(value) for value in ours.values())
    alone = [m for m in matches if often[_print(ours[m.name])] == 1]
    known = kinds({split(m.name)[0] for m in alone}, c)
    return [
        _Named(known[name], int(layer or 0), place(m.theirs, bool(layer)))
        for m in alone for name, layer in [split(m.name)] if bool(layer) == bool(known[name].stack)
    ]  # fmt: skip


def _print(value: Array) -> tuple[Any, ...]:
    """What equal tensors have in common, and hardly any others."""
    return value.shape, float(value.sum()), float(np.abs(value).sum())


# what names mean


def _meanings(named: Sequence[_Named], ours: Mapping[str, Array]) -> Iterator[Meant]:
    """Pattern -> parameter; then the same with two exchanged for which as much speaks."""
    counts = Counter((n.place.pattern, n.kind) for n in named)
    said = words({n.place.pattern for n in named})
    shapes = {n.kind.name: ours[n.kind.at(n.layer)].shape for n in named}
    meant: Meant = {}
    for pattern, kind in sorted(counts, key=lambda pair: (-counts[pair], -told(said[pair[0]], pair[1]))):
        if pattern not in meant and kind not in meant.values():
            meant[pattern] = kind

    def gain(one: str, other: str) -> int:
        """How many more marks are mentioned if two are exchanged."""
        a, b = meant[one], meant[other]
        now, then = ((one, a), (other, b)), ((one, b), (other, a))
        return sum(told(said[p], k) for p, k in then) - sum(told(said[p], k) for p, k in now)

    pairs = [(one, other) for one, other in combinations(meant, 2) if _alike(meant[one], meant[other], shapes)]
    while better := next((pair for pair in pairs if gain(*pair) > 0), None):
        meant = _swapped(meant, *better)
    yield meant
    for one, other in pairs:
        often = counts[one, meant[one]], counts[other, meant[other]]
        if often == (counts[one, meant[other]], counts[other, meant[one]]) and not gain(one, other):
            yield _swapped(meant, one, other)


def _alike(one: Kind, other: Kind, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    return shapes[one.name] == shapes[other.name] and bool(one.stack) == bool(other.stack)


def _swapped(meant: Meant, one: str, other: str) -> Meant:
    return meant | {one: meant[other], other: meant[one]}


# what stands where


def _cycles(named: Sequence[_Named], meant: Meant, ours: Mapping[str, Array]) -> Iterator[Cycle]:
    numbers: dict[str, set[int]] = defaultdict(set)
    for n in named:
        numbers[n.place.stack].add(n.place.layer)
    moves = {}
    for n in (n for n in named if n.place.pattern in meant):
        kind = meant[n.place.pattern]
        at = kind, sorted(numbers[n.place.stack]).index(n.place.layer) + 1 if kind.stack else 0
        if at != (n.kind, n.layer):
            moves[at] = n.kind, n.layer
    while moves:
        first, then = moves.popitem()
        cycle = [first]
        while then in moves:
            cycle.append(then)
            then = moves.pop(then)
        if then == first and len({ours[kind.at(l)].shape for kind, l in cycle if kind.at(l) in ours}) == 1:
            yield tuple(cycle)


# how it is said


def _said(cycles: Sequence[Cycle], known: Mapping[str, Kind]) -> Iterator[tuple[str, list[Cycle]]]:
    """(what is said, of which)."""
    order = list(known)

    def first(cycle: Cycle) -> tuple[int, int]:
        return order.index(cycle[0][0].name), cycle[0][1]

    turned = sorted((min(_turns(cycle), key=first) for cycle in cycles), key=first)
    within = [cycle for cycle in turned if len({kind for kind, _ in cycle}) == 1]
    yield from _layers(within, known)
    across: dict[tuple[Kind, ...], list[Cycle]] = defaultdict(list)
    for cycle in turned:
        if cycle not in within:
            across[tuple(kind for kind, _ in cycle)].append(cycle)
    groups: dict[Any, dict[tuple[Kind, ...], list[Cycle]]] = defaultdict(dict)
    for some, of in across.items():
        groups[_how(some), tuple(sorted({tuple(l for _, l in cycle) for cycle in of}))][some] = of
    for (how, layers), group in groups.items():
        yield _exchange(how, group, known) + _in_layers(layers), [cycle for of in group.values() for cycle in of]


def _turns(cycle: Cycle) -> Iterator[Cycle]:
    return (cycle[k:] + cycle[:k] for k in range(len(cycle)))


def _layers(cycles: Sequence[Cycle], known: Mapping[str, Kind]) -> Iterator[tuple[str, list[Cycle]]]:
    """Layers that stand in another order than their numbers'."""
    by_kind: dict[Kind, list[Cycle]] = defaultdict(list)
    for cycle in cycles:
        by_kind[cycle[0][0]].append(cycle)
    orders: dict[Any, list[Kind]] = defaultdict(list)
    for kind, some in by_kind.items():
        orders[kind.stack, frozenset(tuple(l for _, l in cycle) for cycle in some)].append(kind)
    for (stack, numbers), moved in orders.items():
        layers = ", ".join(map(str, sorted(l for some in numbers for l in some)))
        of = f" of {STACKS[stack]}" if stack in STACKS else ""
        if len(moved) < sum(kind.stack == stack for kind in known.values()):
            of = f" of {listed([kind.name for kind in moved])}"
        says = f"layers {layers}{of} stand in each other's place, as their names count them"
        yield says, [cycle for kind in moved for cycle in by_kind[kind]]


def _how(some: Sequence[Kind]) -> tuple[str, ...]:
    """In what several parameters differ: the stack, the bundle, or their names' last part."""
    suffixes = [kind.name.rpartition(".")[2].partition("_")[2] for kind in some]
    ways = ([kind.stack for kind in some], [kind.bundle for kind in some], suffixes, [kind.name for kind in some])
    return next(tuple(differing) for differing in ways if len({*differing}) > 1)


def _exchange(how: Sequence[str], group: Iterable[tuple[Kind, ...]], known: Mapping[str, Kind]) -> str:
    """Parameters, or all of a stack's or a bundle's."""
    some = list(group)
    for of in ("stack", "bundle"):
        all_of = [sum(getattr(kind, of) == name for kind in known.values()) for name in how]
        if all(all_of) and len(some) == min(all_of):
            return _and([STACKS.get(name, name) for name in how])
    return listed([_and([kind.name for kind in kinds]) for kinds in some])


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def listed(names: Sequence[str]) -> str:
    """The names, or the first few and how many more."""
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


def _in_layers(layers: Sequence[tuple[int, ...]]) -> str:
    """ " are exchanged in layer 2"."""
    if any(len({*some}) > 1 for some in layers):
        return f" are exchanged: layers {', '.join(' and '.join(map(str, some)) for some in layers)}"
    numbers = [some[0] for some in layers if some[0]]
    where = f" in layer{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}" if numbers else ""
    return f" are exchanged{where}"

"""What a candidate holds in place of the reference's parameters, and what follows for its lines.

Its tensors say where they are wrong; its names, where two that are right may stand in each other's place.  Each of
these is put into the oracle: what then agrees was this mistake, and the lines are judged beside the oracle that has it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.candidates.candidate import Candidate
from transformulary.conform.diagnosis import Finding, Lockstep
from transformulary.conform.faults import Fault
from transformulary.conform.reference import Reference
from transformulary.conform.weights import Match, reference_tensors, sentences
from transformulary.paper import Config, DTransformerConfig, Read

Array = NDArray[Any]
#: How programs call what the paper tells apart by a last letter.
WORDS = {"q": {"q", "wq", "query"}, "k": {"k", "wk", "key"}, "v": {"v", "wv", "value"}}
#: The number of a layer in a name: blocks.3.ln_1.weight.
LAYER = re.compile(r"(?:^|(?<=\.))\d+(?=\.)")


@dataclass(frozen=True)
class Held:
    """What may be held in place of some of our parameters: what it is, and their numbers, as `reference_tensors`."""

    says: str
    tensors: Mapping[str, Array]


class _Errors(Lockstep):
    """What differs, without a search for what explains it."""

    def _explain(self, path: str, ours: Array, theirs: Array, error: float, inside: bool) -> Finding:
        return Finding(path, error, self.allowed(path))


def adopted(
    c: Candidate, matches: Sequence[Match], ref: Reference, x: Read, allowed: Callable[[str], float]
) -> tuple[Reference, list[Fault], dict[str, float]]:
    """(the reference with what the candidate holds instead, as its lines prove; what that is; the errors without)."""
    found = list(held(matches, {**c.buffers, **c.weights}, ref)) if isinstance(ref.config, DTransformerConfig) else []
    if not found:
        return ref, [], {}

    def run(of: Reference) -> _Errors:
        return _Errors(c.seen, of.config, x, of.theta, allowed)

    first, with_them = run(ref), ref
    kept, wrong = list[Held](), len(first.findings)
    for some in [*([each] for each in found), found]:
        if len(some) == 1 or not kept:
            other = holding(with_them, some)
            if (less := len(run(other).findings)) < wrong:
                with_them, wrong, kept = other, less, [*kept, *some]
    errors = [error for path, error in first.errors.items() if error > allowed(path)]
    faults = [Fault("weights", "Weights", "", each.says, max(errors), 0.0, ()) for each in kept]
    return with_them, faults, first.errors if kept else {}


def held(matches: Sequence[Match], theirs: Mapping[str, Array], ref: Reference) -> Iterator[Held]:
    """What their tensors, by their numbers and by their names, may hold in place of ours."""
    ours = dict(reference_tensors(ref.theta, ref.config))
    for says, group in sentences(matches):
        tensors = {m.name: _laid(ours[m.name], theirs[m.theirs]) for m in group if _placed(m, ours)}
        if tensors:
            yield Held(says, tensors)
    yield from _outputs(matches, theirs, ours, ref.config)
    yield from _exchanged([m for m in matches if m.name and m.theirs and m.status != "differs"], ours)


def _placed(m: Match, ours: Mapping[str, Array]) -> bool:
    return m.status == "differs" and bool(m.theirs) and m.name in ours


def _laid(ours: Array, theirs: Array) -> Array:
    """Their numbers in our shape; a square matrix the way it is nearer."""
    value = np.asarray(theirs, np.float64)
    turned = [each for each in (value, value.T) if each.shape == ours.shape]
    return min(turned, key=lambda each: float(np.linalg.norm(each - ours)), default=value.reshape(ours.shape))


def _outputs(
    matches: Sequence[Match], theirs: Mapping[str, Array], ours: Mapping[str, Array], c: Config
) -> Iterator[Held]:
    """An unembedding that is another matrix, a bias that the model lacks."""
    for m in matches:
        value = theirs.get(m.theirs, np.zeros(0))
        if not m.name and m.status == "differs":
            yield Held(f"{m.theirs} {m.how}", {"W_u": _laid(ours["W_e"], value)})
        if m.status == "stray" and "b_u" not in ours and value.shape == (c.N_V,) and value.any():
            yield Held(f"{m.theirs} is a bias b_u, and this model has none", {"b_u": np.asarray(value, np.float64)})
        if m.name == "W_u" and not m.theirs:
            yield Held("the unembedding is W_e transposed, and this model has a W_u of its own", {"W_u": ours["W_e"]})


# what names say


@dataclass(frozen=True)
class _Named:
    """A tensor of a layer: which parameter it is by its numbers, and where it stands by its name."""

    kind: str
    layer: int
    name: str
    place: int
    words: tuple[str, ...]


def _exchanged(matches: Iterable[Match], ours: Mapping[str, Array]) -> Iterator[Held]:
    """Layers, and tensors of one layer, that stand in each other's place if names mean what they say."""
    named = list(_named(matches))
    yield from _layers(named, ours)
    mixed = {frozenset((a.kind, b.kind)) for a, b in combinations(named, 2) if a.name == b.name and a.kind != b.kind}
    crossed: dict[tuple[str, str], list[int]] = defaultdict(list)
    for a, b in combinations(named, 2):
        if (
            a.layer != b.layer
            or a.kind == b.kind
            or not _differ(ours.get(f"{a.kind}[{a.layer}]"), ours.get(f"{b.kind}[{b.layer}]"))
        ):
            continue
        if _crossed(a, b):
            crossed[a.kind, b.kind].append(a.layer)
        elif frozenset((a.kind, b.kind)) in mixed:
            yield _exchange(a.kind, b.kind, [a.layer], ours)
    yield from (_exchange(*kinds, layers, ours) for kinds, layers in crossed.items())


def _differ(one: Array | None, other: Array | None) -> bool:
    """Whether two tensors could stand in each other's place, which would change something."""
    return one is not None and other is not None and one.shape == other.shape and not np.array_equal(one, other)


def _exchange(one: str, other: str, layers: Sequence[int], ours: Mapping[str, Array]) -> Held:
    both = ((one, other), (other, one))
    tensors = {f"{at}[{l}]": ours[f"{held}[{l}]"] for l in layers for at, held in both}
    where = f"layer{'s' if layers[1:] else ''} {', '.join(map(str, layers))}"
    return Held(f"{one} and {other} are exchanged in {where}", tensors)


def _named(matches: Iterable[Match]) -> Iterator[_Named]:
    layered = [(m, found) for m in matches if "[" in m.name and (found := LAYER.search(m.theirs))]
    places = {n: p for p, n in enumerate(sorted({int(found[0]) for _, found in layered}), 1)}
    for m, found in layered:
        kind, _, layer = m.name.rstrip("]").partition("[")
        name = LAYER.sub("{l}", m.theirs, count=1)
        yield _Named(kind, int(layer), name, places[int(found[0])], tuple(re.split(r"[._]", name)))


def _crossed(a: _Named, b: _Named) -> bool:
    """Whether each of two names is that of the other: W_q is in attn.k and W_k in attn.q, gamma_1 in ln_2..."""
    if a.kind[:-1] != b.kind[:-1] or a.place != b.place or len(a.words) != len(b.words):
        return False
    differing = [words for words in zip(a.words, b.words, strict=True) if words[0] != words[1]]
    if len(differing) != 1:
        return False
    of_a, of_b = differing[0]
    return _means(of_a, b.kind) and _means(of_b, a.kind) and not _means(of_a, a.kind)


def _means(word: str, kind: str) -> bool:
    last = kind[-1]
    return word.lower() in WORDS[last] if last in WORDS else word.endswith(last)


def _layers(named: Sequence[_Named], ours: Mapping[str, Array]) -> Iterator[Held]:
    """Tensors whose layers stand in another order than their numbers'."""
    orders: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for kind in dict.fromkeys(n.kind for n in named):
        layer_at = {n.place: n.layer for n in named if n.kind == kind}
        order = tuple(layer_at[place] for place in sorted(layer_at))
        if order != tuple(sorted(order)) and sorted(order) == sorted(layer_at):
            orders[order].append(kind)
    for order, kinds in orders.items():
        tensors = {
            part: value
            for kind in kinds for place, layer in enumerate(order, 1) if place != layer
            for part, value in _parts(kind, place, layer, ours)
        }  # fmt: skip
        if all(np.array_equal(value, ours[name]) for name, value in tensors.items()):
            continue
        moved = ", ".join(f"{place}" for place, layer in enumerate(order, 1) if place != layer)
        of = "" if len(kinds) == len({n.kind for n in named}) else f" of {', '.join(kinds)}"
        yield Held(f"layers {moved}{of} stand in each other's place, as their names count them", tensors)


def _parts(kind: str, place: int, layer: int, ours: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    for part in [kind.replace("qkv", q) for q in "qkv"] if kind.endswith("_qkv") else [kind]:
        yield f"{part}[{place}]", ours[f"{part}[{layer}]"]


def holding(ref: Reference, some: Iterable[Held]) -> Reference:
    """The reference with other tensors, by the names and in the shapes of `reference_tensors`."""
    theta, c = ref.theta.map(lambda a: a), ref.config
    for name, value in (pair for each in some for pair in each.tensors.items()):
        kind, _, layer = name.rstrip("]").partition("[")
        if not layer:
            vars(theta)[kind] = value.T if kind in ("W_e", "W_p") else value
            c = replace(c, tied=c.tied and kind != "W_u", absent=c.absent - {kind})
            continue
        bundle = vars(theta.W[int(layer) - 1])
        if kind not in bundle:
            vars(theta)[kind][int(layer) - 1] = value
        else:
            bundle[kind] = np.split(value, len(bundle[kind])) if isinstance(bundle[kind], list) else value
    return replace(ref, theta=theta, config=c)

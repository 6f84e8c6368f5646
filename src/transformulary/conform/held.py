"""What a candidate holds in place of the reference's parameters, and what follows for its lines.

Its tensors say where they are wrong; its names, where two that are right may stand in each other's place.  Each of
these is put into the oracle: what then agrees was this mistake, and the lines are judged beside the oracle that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.candidates.candidate import Candidate
from transformulary.conform.diagnosis import Lockstep
from transformulary.conform.faults import Fault
from transformulary.conform.finding import Finding
from transformulary.conform.reference import Reference
from transformulary.conform.standing import Held, exchanged, listed
from transformulary.conform.weights import COLUMNS, Match, as_one, parts_of, reference_tensors, sentences
from transformulary.oracle import Theta
from transformulary.paper import Config, Read
from transformulary.paper.config import TwoStacks
from transformulary.paper.parameters import split

Array = NDArray[Any]
#: Tables that a model may share, and what reads each of them.
SHARED = (("W_e", "W_e_z", "W_u"), ("W_p", "W_p_z"))
READS = {
    "W_e": "the embedding", "W_e_z": "the embedding of z", "W_u": "the unembedding",
    "W_p": "the table of positions", "W_p_z": "the table of positions of z",
}  # fmt: skip


class _Errors(Lockstep):
    """What differs, without a search for what explains it."""

    def _explain(self, path: str, ours: Array, theirs: Array, error: float, inside: bool) -> Finding:
        return Finding(path, error, self.allowed(path))


def adopted(
    c: Candidate, matches: Sequence[Match], ref: Reference, x: Read, allowed: Callable[[str], float]
) -> tuple[Reference, list[Fault], dict[str, float]]:
    """(the reference with what the candidate holds instead, as its lines prove; what that is; the errors without).

    Where most weights are others, nothing is held but all of them, if everything then agrees.
    """

    def run(of: Reference) -> _Errors:
        return _Errors(c.seen, of.config, x, of.theta, allowed)

    found = list(held(matches, {**c.buffers, **c.weights}, ref))
    first = run(ref) if found else None
    if not first or not first.findings:
        return ref, [], {}
    few = sum(m.status in ("differs", "not seen") for m in matches) <= len(matches) / 2  # else these are other weights
    with_them, kept, wrong = ref, list[Held](), len(first.findings) if few else 1
    for some in [*([each] for each in found if few), found]:
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
    ours |= dict(as_one(ours))
    for found in _found(matches, theirs, ours, ref.config):
        yield Held(found.says, dict(pair for each in found.tensors.items() for pair in _apart(*each, ours)))


def _found(
    matches: Sequence[Match], theirs: Mapping[str, Array], ours: Mapping[str, Array], c: Config
) -> Iterator[Held]:
    for says, group in sentences(matches):
        tensors = {m.name: _laid(ours[m.name], theirs[m.theirs]) for m in group if _placed(m, ours)}
        if tensors:
            yield Held(says, tensors)
    yield from _tables(matches, theirs, ours, c)
    yield from _bias(matches, theirs, ours, c)
    yield from _of_other_layers(matches, ours)
    yield from exchanged([m for m in matches if m.theirs and m.status != "differs"], ours, c)


def _apart(name: str, value: Array, ours: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """Q, K and V, of a tensor that is all three."""
    names = parts_of(name) or [name]
    ends = np.cumsum([len(ours[part]) for part in names[:-1]])
    return zip(names, np.split(value, ends) if names[1:] else [value], strict=True)


def _placed(m: Match, ours: Mapping[str, Array]) -> bool:
    return m.status == "differs" and bool(m.theirs) and m.name in ours


def _laid(ours: Array, theirs: Array) -> Array:
    """Their numbers in our shape; a square matrix the way it is nearer."""
    value = np.asarray(theirs, np.float64)
    turned = [each for each in (value, value.T) if each.shape == ours.shape]
    return min(turned, key=lambda each: float(np.linalg.norm(each - ours)), default=value.reshape(ours.shape))


def _tables(
    matches: Sequence[Match], theirs: Mapping[str, Array], ours: Mapping[str, Array], c: Config
) -> Iterator[Held]:
    """A table that is shared where the model has another one, or another one where the model shares it."""
    there = {m.name for m in matches if m.theirs}
    stray = [m.theirs for m in matches if not m.name]
    for names in SHARED:
        own = [name for name in names if name in ours]
        for name, other in permutations(own, 2):
            if name not in there and other in there and ours[name].shape == ours[other].shape:
                turned = " transposed" if "W_u" in (name, other) else ""
                says = f"{READS[name]} is {other}{turned}, and this model has a {name} of its own"
                yield Held(says, {name: ours[other]})
        shared = [name for name in names if name not in ours and (isinstance(c, TwoStacks) or not name.endswith("_z"))]
        for name, other in product(shared, stray if own else ()):
            if sorted(theirs[other].shape) == sorted(ours[own[0]].shape):
                yield Held(
                    f"{other} is not {own[0]}, and this model ties them", {name: _laid(ours[own[0]], theirs[other])}
                )


def _bias(
    matches: Sequence[Match], theirs: Mapping[str, Array], ours: Mapping[str, Array], c: Config
) -> Iterator[Held]:
    """A bias that the model lacks."""
    for m in (m for m in matches if m.status == "stray" and "b_u" not in ours):
        value = np.asarray(theirs[m.theirs], np.float64)
        if value.shape == (c.N_V,) and value.any():
            yield Held(f"{m.theirs} is a bias b_u, and this model has none", {"b_u": value})


def _of_other_layers(matches: Sequence[Match], ours: Mapping[str, Array]) -> Iterator[Held]:
    """What they do not hold of a layer, where the same of the first layer, or of one beside it, stands in its place."""
    missing: dict[int, list[str]] = {}
    for kind, number in (split(m.name) for m in matches if m.status == "not seen"):
        if number:
            missing.setdefault(int(number), []).append(kind)
    for layer, kinds in missing.items():
        for other in {1, layer - 1, layer + 1} - {layer}:
            if all(f"{kind}[{other}]" in ours for kind in kinds):
                tensors = {f"{kind}[{layer}]": ours[f"{kind}[{other}]"] for kind in kinds}
                yield Held(f"layer {layer} computes with {listed(kinds)} of layer {other}", tensors)


def holding(ref: Reference, some: Iterable[Held]) -> Reference:
    """The reference with other tensors, by the names and in the shapes of `reference_tensors`."""
    theta, c = ref.theta.map(lambda a: a), ref.config
    for name, value in (pair for each in some for pair in each.tensors.items()):
        _put(theta, name, np.asarray(value, np.float64))
        c = replace(c, tied=c.tied and name != "W_u", absent=c.absent - {name})
        if isinstance(c, TwoStacks) and name.endswith("_z") and name in READS:
            c = replace(c, separate=c.separate | {name.removesuffix("_z")})
    return replace(ref, theta=theta, config=c)


def _put(theta: Theta, name: str, value: Array) -> None:
    """Hold a tensor; of one that is of all heads, each head's part."""
    kind, layer = split(name)
    bundle, _, base = kind.rpartition(".")
    at, key = vars(theta), kind
    if bundle or (layer and kind not in at):
        at, key, layer = vars(at[bundle or "W"][int(layer) - 1]), base, ""
    if layer:
        at[key][int(layer) - 1] = value
    elif isinstance(old := at.get(key), list):
        at[key] = [part.reshape(np.shape(one)) for one, part in zip(old, np.split(value, len(old)), strict=True)]
    else:
        at[key] = value.T if key in COLUMNS else value

"""The weights, tensor by tensor: which of theirs is which of ours, by the numbers in them, whatever they are called.

Sorted, the numbers of a tensor say which it is even where it is transposed or its rows are in another order;
then the known orders are tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.conform.notes import AGREES, DIFFERS, NOTE, UNSEEN, Note
from transformulary.oracle import Theta
from transformulary.oracle.precision import rounded
from transformulary.oracle.theta import Zero
from transformulary.paper import Config

Array = NDArray[Any]

#: The precisions to which a tensor may have been rounded, one after the other: PyTorch makes 16 bits of 64 via 32.
STORED = (
    ("float64",), ("float32",), ("float16",), ("bfloat16",), ("float32", "float16"), ("float32", "bfloat16"),
)  # fmt: skip
#: Tables with a column for each token or place, which programs hold in rows.
COLUMNS = ("W_e", "W_p", "W_s", "W_e_z", "W_p_z")

#: What is said of one -> of several.
SEVERAL = {"it is ": "they are ", "it differs": "they differ", "its ": "their ", "it changes": "they change"}
SEVERAL |= {"is none": "are none", "is not": "are not", "as a bias": "as biases"}


@dataclass(frozen=True)
class Match:
    """What became of one of the reference's parameters, or of a tensor that is none of them.

    name    the paper's: W_q[2]: all heads of layer 2; "" if there is none
    theirs  their tensor, "" if there is none
    how     "equal", "transposed", "rounded to float16"..., "its heads are in another order"...
    status  "agrees"; "arranged": the same numbers in another order, which is right if their code reads them so;
            "differs"; "not seen"; "stray": it has no name, and may be used or not
    """

    name: str
    theirs: str
    how: str
    status: str


def weight_notes(matches: Sequence[Match]) -> list[Note]:
    """What `compare_weights` finds, in a few sentences: one for all tensors of which the same is to be said."""
    good, known = (sum(m.status in states for m in matches) for states in (["agrees"], STATES.keys() - {"stray"}))
    notes = [Note("weights", AGREES, f"{good} of {known} tensors are the same")] if good else []
    return notes + [Note("weights", STATES[group[0].status], says) for says, group in sentences(matches)]


def sentences(matches: Iterable[Match]) -> Iterator[tuple[str, list[Match]]]:
    """(what is said, of which) of all but plain agreement."""
    grouped: dict[tuple[str, str, str], list[Match]] = {}
    for m in matches:
        if m.status != "agrees":
            grouped.setdefault((m.status, ": " if m.name else " ", m.how), []).append(m)
    for (_, between, how), group in grouped.items():
        names = [m.name or m.theirs for m in group]
        some = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        for one, several in SEVERAL.items() if len(names) > 1 else ():
            how = re.sub(rf"\b{one}", several, how)
        yield f"{some}{between}{how}", group


STATES = {"agrees": AGREES, "differs": DIFFERS, "not seen": UNSEEN, "arranged": NOTE, "stray": NOTE}


def compare_weights(
    theirs: Mapping[str, Array], theta: Theta, config: Config, buffers: Mapping[str, Array] | None = None
) -> list[Match]:
    """Every parameter of the reference and which of their tensors it is; then what else they have.

    Args:
        theirs: by their names, in any layout; q, k and v apart or as one.
        buffers: tensors that may be parameters, and need not.
    """
    ours = dict(reference_tensors(theta, config))
    joint = dict(as_one(ours))
    everything = {**(buffers or {}), **theirs}
    left = dict(everything)
    size = {name: float(np.linalg.norm(np.asarray(value, np.float64))) for name, value in left.items()}
    matches: list[Match] = []
    done: set[str] = set()
    for name, value in sorted({**joint, **ours}.items(), key=lambda pair: -pair[1].size):
        if name in done:
            continue
        for other in _alike(value, {n: size[n] for n, v in left.items() if v.size == value.size}):
            if how := arrangement(value, left[other], name, config):
                matches.append(Match(name, other, *how))
                done |= {name, *parts_of(name)}
                del left[other]
                break
    for m in _below(ours, done, left, config):
        matches.append(m)
        done.add(m.name)
        del left[m.theirs]
    found = [(size[m.theirs], everything[m.theirs]) for m in matches]
    for n, v in everything.items():
        tied = arrangement(ours["W_e"], v, "W_e", config) if config.tied else None
        if n in left and (
            (tied and tied[1] != "differs")
            or any(norm == size[n] and np.array_equal(v, again) for norm, again in found)
        ):
            del left[n]
    missing = _as_they_hold(ours, joint, done, left)
    matches += [_missing(name, value, left, theirs) for name, value in missing.items()]
    order = [*ours, *joint]
    matches = _one_layout(sorted(matches, key=lambda match: order.index(match.name)), {**joint, **ours})
    sizes = {value.size for value in missing.values()}  # one of these may stand for what is missing
    return matches + [_stray(n, v, ours, config) for n, v in left.items() if n in theirs and v.size not in sizes]


def _below(ours: Mapping[str, Array], done: set[str], left: Mapping[str, Array], config: Config) -> list[Match]:
    """Tables of positions that have further rows first, which no token reads."""
    found = {}
    for name in (name for name in ("W_p", "W_p_z") if name in ours and name not in done):
        value = ours[name]
        for other, theirs in ((n, v) for n, v in left.items() if v.ndim == 2 and n not in found):
            more = len(theirs) - len(value)
            alike = more > 0 and theirs.shape[1:] == value.shape[1:]
            if how := arrangement(value, theirs[more:], name, config) if alike else None:
                found[other] = Match(name, other, f"{how[0]}, below {more} other rows", how[1])
                break
    return list(found.values())


def _as_they_hold(
    ours: Mapping[str, Array], joint: Mapping[str, Array], done: set[str], left: Mapping[str, Array]
) -> dict[str, Array]:
    """What is missing: q, k and v as one where they have a tensor of that size and none of the parts'."""
    sizes = {value.size for value in left.values()}
    whole = {
        name: value
        for name, value in joint.items()
        if value.size in sizes and not any(part in done or ours[part].size in sizes for part in parts_of(name))
    }
    parts = {part for name in whole for part in parts_of(name)}
    return whole | {name: value for name, value in ours.items() if name not in done | parts}


def _stray(name: str, value: Array, ours: Mapping[str, Array], config: Config) -> Match:
    """What is said of a tensor of theirs that is none of ours."""
    if config.tied and sorted(value.shape) == sorted(ours["W_e"].shape):
        return Match("", name, "is not W_e, and this model ties them", "differs")
    harmless = "" if value.any() else "; it is all 0: as a bias it changes nothing"
    return Match("", name, f"is none of this model's parameters{harmless}", "stray")


def _one_layout(matches: list[Match], ours: Mapping[str, Array]) -> list[Match]:
    """Square matrices of the layers lie as the others do; one that lies otherwise is remarked on."""
    oblong = [m for m in matches if ours[m.name].ndim == 2 and len(set(ours[m.name].shape)) == 2 and "mlp" in m.name]
    if not any(m.how.startswith("transposed") for m in oblong):
        return matches
    return [
        m if "[" not in m.name else
        replace(m, status="agrees") if m.how.startswith("transposed") else
        replace(m, status="arranged", how="it is not transposed, and other matrices are")
        if m.how.startswith("equal") and _square(ours[m.name]) else m
        for m in matches
    ]  # fmt: skip


def _square(value: Array) -> bool:
    return value.ndim == 2 and value.shape[0] == value.shape[1]


def arrangement(ours: Array, theirs: Array, name: str, config: Config) -> tuple[str, str] | None:
    """(how, status) if two tensors hold the same numbers; None if they do not."""
    if ours.size == theirs.size and 1 in (ours.ndim, theirs.ndim):  # a row, or a matrix row by row
        theirs = theirs.reshape(ours.shape)
    if np.array_equal(ours, theirs):
        return "equal", "agrees"
    if theirs.ndim == 2 and np.array_equal(ours, theirs.T):
        return "transposed", _when_transposed(ours)
    stored = _same_numbers(ours, theirs)
    if stored is None:
        return None
    rounding = "" if stored == ("float64",) else f", rounded to {stored[-1]}"
    flat = theirs.reshape(theirs.shape[0], -1) if theirs.ndim > 2 else theirs
    for turned, candidate in (("", flat), ("transposed", flat.T)):
        if flat.ndim < 2 and turned:
            continue
        if _close(ours, candidate, stored):
            return (turned or "equal") + rounding, _when_transposed(ours) if turned else "agrees"
        for says, order in _orders(name, ours, config):
            if _close(ours[order], candidate, stored):
                return says + (", and it is transposed" if turned else "") + rounding, "arranged"
    return "the same numbers in an order that nobody knows" + rounding, "differs"


def _when_transposed(ours: Array) -> str:
    """A square matrix that is transposed may be a mistake; another one could not be used otherwise."""
    return "arranged" if _square(ours) else "agrees"


def reference_tensors(theta: Theta, c: Config) -> Iterator[tuple[str, Array]]:
    """(name, array): the heads of one layer one below the other, as programs hold them."""
    for name, value in vars(theta).items():
        if isinstance(value, list) and isinstance(value[0], Theta):
            for l, W in enumerate(value, 1):
                yield from _bundle("" if name == "W" else f"{name}.", W, l)
        elif name in ("B_enc", "B_dec"):
            yield name, np.stack(value)
        elif isinstance(value, list):
            yield from ((f"{name}[{l}]", member) for l, member in enumerate(value, 1) if not isinstance(member, Zero))
        elif not isinstance(value, Zero) and not (c.tied and name == "W_u"):
            yield name, value.T if name in COLUMNS else value


def _bundle(prefix: str, W: Theta, l: int) -> Iterator[tuple[str, Array]]:
    for name, value in vars(W).items():
        if isinstance(value, list) and value and not isinstance(value[0], Zero):
            yield f"{prefix}{name}[{l}]", np.stack(value) if name == "B" else _stacked(value)
        elif isinstance(value, np.ndarray):
            yield f"{prefix}{name}[{l}]", value


def as_one(ours: Mapping[str, Array]) -> Iterator[tuple[str, Array]]:
    """W_q, W_k and W_v of a layer, and their biases, as one."""
    for name in ours:
        if found := re.fullmatch(r"(\w*\.)?([Wb])_q(\[\d+\])", name):
            prefix, kind, layer = found.groups("")
            parts = [ours.get(f"{prefix}{kind}_{q}{layer}") for q in "qkv"]
            if all(part is not None for part in parts):
                yield f"{prefix}{kind}_qkv{layer}", _stacked([part for part in parts if part is not None])


def _stacked(parts: Sequence[Array]) -> Array:
    """One below the other, in half the memory where float32 holds the same numbers."""
    whole = np.concatenate(parts)
    with np.errstate(over="ignore"):
        small = whole.astype(np.float32)
    return small if np.array_equal(small, whole) else whole


def parts_of(name: str) -> list[str]:
    """Of what `as_one` gives, the names of the parts; of another tensor none."""
    return [name.replace("qkv", q) for q in "qkv"] if "_qkv" in name else []


def _alike(ours: Array, sizes: Mapping[str, float]) -> Iterator[str]:
    """Which tensors, by their sizes, may hold our numbers, rounded or not: cheap, and true of few others."""
    for precisions in STORED if sizes else ():
        due = float(np.linalg.norm(_stored(ours, precisions)))
        yield from [name for name, size in sizes.items() if abs(size - due) <= 1e-9 * due]


def _same_numbers(ours: Array, theirs: Array) -> tuple[str, ...] | None:
    """The precisions to which the sorted numbers of two tensors are equal; None if they are not."""
    if ours.size != theirs.size:
        return None
    a, b = np.sort(ours, axis=None), np.sort(theirs, axis=None)
    return next((precisions for precisions in STORED if _close(a, b, precisions)), None)


def _close(ours: Array, theirs: Array, precisions: tuple[str, ...]) -> bool:
    """Whether theirs are our numbers, rounded."""
    return ours.shape == theirs.shape and bool(np.array_equal(_stored(ours, precisions), theirs))


def _stored(ours: Array, precisions: tuple[str, ...]) -> Array:
    return np.asarray(reduce(rounded, precisions, np.asarray(ours, np.float64)))


def _orders(name: str, ours: Array, c: Config) -> Iterator[tuple[str, Array]]:
    """(sentence, which of our rows stands in each of theirs)."""
    kind = name.partition("[")[0].rpartition(".")[2]
    n = np.arange(len(ours))
    if kind.endswith("_qkv"):
        yield from _joint_orders(n, c)
        return
    if kind not in ("W_q", "W_k", "W_v", "b_q", "b_k", "b_v"):
        return
    H = c.H if kind.endswith("q") else c.H_kv
    by_head = n.reshape(H, -1)
    yield "its heads are interleaved", by_head.T.ravel()
    yield "its heads are in reverse order", by_head[::-1].ravel()
    if by_head.shape[1] % 2 == 0 and not kind.endswith("v"):
        yield (
            "rows are in the order for a rotation of neighbours (interleaved RoPE)",
            by_head.reshape(H, 2, -1).swapaxes(1, 2).ravel(),
        )
        yield (
            "rows were reordered from neighbours to halves, and they were in halves already",
            by_head.reshape(H, -1, 2).swapaxes(1, 2).ravel(),
        )


def _joint_orders(n: Array, c: Config) -> Iterator[tuple[str, Array]]:
    sizes = [c.H * c.d_attn, c.H_kv * c.d_attn, c.H_kv * c.d_mid]
    q, k, v = np.split(n, np.cumsum(sizes)[:-1])
    blocks = {"Q": q, "K": k, "V": v}
    for order in ("QVK", "KQV", "KVQ", "VKQ", "VQK"):
        yield f"its blocks are in the order {', '.join(order)}", np.concatenate([blocks[name] for name in order])
    if c.H == c.H_kv:
        each = [part.reshape(c.H, -1) for part in (q, k, v)]
        yield "Q, K and V are side by side for every head", np.concatenate(each, 1).ravel()


def _missing(name: str, value: Array, left: Mapping[str, Array], theirs: Mapping[str, Array]) -> Match:
    """A parameter that none of their tensors is: what stands in its place, if that can be told."""
    alike = {n: _distance(value, v) for n, v in left.items() if v.size == value.size}
    nearest = min(alike, key=lambda n: alike[n], default="")
    sole = nearest if all(np.array_equal(left[n], left[nearest]) for n in alike) else ""
    if nearest in theirs and (initial := initialisation(left[nearest])):
        return Match(name, sole, f"it is still as initialised: {initial}", "differs")
    if alike and alike[nearest] < 0.5:
        return Match(name, nearest, f"it differs, by {alike[nearest]:.1e} of its size", "differs")
    if any(n in theirs for n in alike):
        return Match(name, sole, "none of their tensors has these numbers", "differs")
    return Match(name, "", "it is not among their tensors", "not seen")


def _distance(ours: Array, theirs: Array) -> float:
    turned = [theirs, theirs.T] if theirs.ndim == 2 else [theirs]
    size = float(np.linalg.norm(ours)) or 1.0
    return min((float(np.linalg.norm(ours - t)) / size for t in turned if t.shape == ours.shape), default=np.inf)


def initialisation(theirs: Array) -> str:
    """Which usual initialisation numbers look like; "" for none: all 0, all 1, normal of 0.02, uniform of a Linear."""
    if not theirs.any():
        return "all 0"
    if np.all(theirs == 1):
        return "all 1"
    if theirs.size < 100:
        return ""
    deviation, largest = float(theirs.std()), float(np.abs(theirs).max())
    error = 3 / np.sqrt(2 * theirs.size)  # three standard deviations of an estimated deviation
    for usual in (0.02, 1.0):
        if abs(deviation / usual - 1) < error and largest > 2.5 * usual:
            return f"normal numbers of deviation {usual:g}"
    fan_in = 1 / np.sqrt(theirs.shape[-1])
    if theirs.ndim == 2 and largest <= fan_in and abs(deviation * np.sqrt(3) / fan_in - 1) < error:
        return "uniform numbers between -1 and 1 over the root of its width"
    return ""

"""The weights, tensor by tensor: which of theirs is which of ours, by the numbers in them, whatever they are called.

Sorted, the numbers of a tensor say which it is even where it is transposed or its rows are in another order;
then the known orders are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle import Theta
from transformulary.oracle.precision import rounded
from transformulary.oracle.theta import Zero
from transformulary.paper import DTransformerConfig

Array = NDArray[Any]

#: The precisions to which a tensor may have been rounded, one after the other: PyTorch makes 16 bits of 64 via 32.
STORED = (
    ("float64",), ("float32",), ("float16",), ("bfloat16",), ("float32", "float16"), ("float32", "bfloat16"),
)  # fmt: skip


@dataclass(frozen=True)
class Match:
    """What became of one of the reference's parameters.

    name    the paper's: W_q[2]: all heads of layer 2
    theirs  their tensor, "" if there is none
    how     "equal", "transposed", "rounded to float16"..., "its heads are in another order"...
    status  "agrees"; "arranged": the same numbers in another order, which is right if their code reads them so;
            "differs"
    """

    name: str
    theirs: str
    how: str
    status: str


def compare_weights(theirs: Mapping[str, Array], theta: Theta, config: DTransformerConfig) -> list[Match]:
    """Every parameter of the reference and which of their tensors it is.

    Args:
        theirs: by their names, in any layout; q, k and v apart or as one.
    """
    ours = dict(reference_tensors(theta, config))
    joint = dict(_joint(ours, config))
    left = dict(theirs)
    size = {name: float(np.linalg.norm(np.asarray(value, np.float64))) for name, value in left.items()}
    matches: list[Match] = []
    done: set[str] = set()
    for name, value in sorted({**joint, **ours}.items(), key=lambda pair: -pair[1].size):
        if name in done:
            continue
        for other in _alike(value, {n: size[n] for n, v in left.items() if v.size == value.size}):
            if how := arrangement(value, left[other], name, config):
                matches.append(Match(name, other, *how))
                done |= {name, *_parts(name)}
                del left[other]
                break
    if config.tied:
        twins = [n for n, v in left.items() if arrangement(ours["W_e"], v, "W_e", config)]
        for twin in twins:
            del left[twin]
    missing = {name: value for name, value in ours.items() if name not in done}
    matches += [_missing(name, value, left, ours) for name, value in missing.items()]
    order = list(ours) + list(joint)
    return _one_layout(sorted(matches, key=lambda match: order.index(match.name)), {**joint, **ours})


def _one_layout(matches: list[Match], ours: Mapping[str, Array]) -> list[Match]:
    """Square matrices lie as the others do; one that lies otherwise is remarked on."""
    oblong = [m for m in matches if ours[m.name].ndim == 2 and len(set(ours[m.name].shape)) == 2 and "mlp" in m.name]
    if not any(m.how.startswith("transposed") for m in oblong):
        return matches
    return [
        replace(m, status="agrees") if m.how.startswith("transposed") else
        replace(m, status="arranged", how="it is not transposed, and other matrices are")
        if m.how.startswith("equal") and _square(ours[m.name]) else m
        for m in matches
    ]  # fmt: skip


def _square(value: Array) -> bool:
    return value.ndim == 2 and value.shape[0] == value.shape[1]


def arrangement(ours: Array, theirs: Array, name: str, config: DTransformerConfig) -> tuple[str, str] | None:
    """(how, status) if two tensors hold the same numbers; None if they do not."""
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


def reference_tensors(theta: Theta, c: DTransformerConfig) -> Iterator[tuple[str, Array]]:
    """(name, array): the heads of one layer one below the other, as programs hold them."""
    for name, value in vars(theta).items():
        if name == "W":
            for l, W in enumerate(value, 1):
                yield from _bundle(W, l)
        elif isinstance(value, list):
            yield from ((f"{name}[{l}]", member) for l, member in enumerate(value, 1) if not isinstance(member, Zero))
        elif not isinstance(value, Zero) and not (c.tied and name == "W_u"):
            yield name, value.T if name in ("W_e", "W_p") else value


def _bundle(W: Theta, l: int) -> Iterator[tuple[str, Array]]:
    for name, value in vars(W).items():
        if isinstance(value, list) and value and not isinstance(value[0], Zero):
            yield f"{name}[{l}]", np.concatenate(value)
        elif isinstance(value, np.ndarray):
            yield f"{name}[{l}]", value


def _joint(ours: Mapping[str, Array], c: DTransformerConfig) -> Iterator[tuple[str, Array]]:
    """W_q, W_k and W_v of a layer, and their biases, as one."""
    for l in range(1, c.L + 1):
        for kind in "Wb":
            parts = [ours.get(f"{kind}_{q}[{l}]") for q in "qkv"]
            if all(part is not None for part in parts):
                yield f"{kind}_qkv[{l}]", np.concatenate([part for part in parts if part is not None])


def _parts(name: str) -> list[str]:
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


def _orders(name: str, ours: Array, c: DTransformerConfig) -> Iterator[tuple[str, Array]]:
    """(sentence, which of our rows stands in each of theirs)."""
    kind = name.partition("[")[0]
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


def _joint_orders(n: Array, c: DTransformerConfig) -> Iterator[tuple[str, Array]]:
    sizes = [c.H * c.d_attn, c.H_kv * c.d_attn, c.H_kv * c.d_mid]
    q, k, v = np.split(n, np.cumsum(sizes)[:-1])
    blocks = {"Q": q, "K": k, "V": v}
    for order in ("QVK", "KQV", "KVQ", "VKQ", "VQK"):
        yield f"its blocks are in the order {', '.join(order)}", np.concatenate([blocks[name] for name in order])
    if c.H == c.H_kv:
        each = [part.reshape(c.H, -1) for part in (q, k, v)]
        yield "Q, K and V are side by side for every head", np.concatenate(each, 1).ravel()


def _missing(name: str, value: Array, left: Mapping[str, Array], ours: Mapping[str, Array]) -> Match:
    """A parameter that none of their tensors is: what stands in its place, if that can be told."""
    alike = [n for n, v in left.items() if sorted(v.shape) == sorted(value.shape)]
    if not alike:
        return Match(name, "", "it is missing", "differs")
    nearest = min(alike, key=lambda n: _distance(value, left[n]))
    if initial := initialisation(left[nearest]):
        return Match(name, nearest if len(alike) == 1 else "", f"it is still as initialised: {initial}", "differs")
    distance = _distance(value, left[nearest])
    if distance < 0.5:
        return Match(name, nearest, f"it differs, by {distance:.1e} of its size", "differs")
    return Match(name, "", "none of their tensors has these numbers", "differs")


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

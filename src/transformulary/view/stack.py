"""The attention weights of one stack of layers, with the tokens that ask and those that are asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import DataError

Weights = list[NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Stack:
    """Weights of some layers and heads; `whole` makes one of all of a model's.

    queries  the tokens that ask, as text of any kind
    keys     the tokens that are asked
    weights  one array (H, ell_x, ell_z) per layer, rows = queries; 0 where masked
    layers   the numbers of these layers, from 1
    heads    the numbers of these heads, from 1
    kind     which attention it is, where a model has several: "encoder", "decoder" or "cross"
    line     algorithm and line that runs it
    scaled   whether scores are divided by sqrt(d_attn) before their softmax
    """

    queries: Sequence[str]
    keys: Sequence[str]
    weights: Weights
    layers: Sequence[int]
    heads: Sequence[int]
    kind: str
    line: str
    scaled: bool = True

    def only(self, layer: int | None, head: int | None) -> Stack:
        """The same with one layer, one head, or both; None keeps all.  Raises DataError: there is no such."""
        layers, heads = _chosen("layer", layer, self.layers), _chosen("head", head, self.heads)
        columns = [self.heads.index(h) for h in heads]
        weights = [self.weights[self.layers.index(l)][columns] for l in layers]
        return replace(self, weights=weights, layers=layers, heads=heads)


def whole(
    queries: Sequence[str],
    weights: Iterable[Any],
    keys: Sequence[str] | None = None,
    kind: str = "decoder",
    line: str = "10.6",
) -> Stack:
    """A stack with all of its layers and heads; who is asked is who asks unless `keys` are given.

    Raises DataError: shapes that do not fit together, or weights outside [0, 1].
    """
    keys = queries if keys is None else keys
    arrays = checked(len(queries), len(keys), weights)
    return Stack(queries, keys, arrays, range(1, len(arrays) + 1), range(1, len(arrays[0]) + 1), kind, line)


def _chosen(name: str, number: int | None, numbers: Sequence[int]) -> Sequence[int]:
    if number is not None and number not in numbers:
        raise DataError(f"there is no {name} {number}: the {name}s are {numbers[0]} to {numbers[-1]}, counted from 1.")
    return numbers if number is None else [number]


def checked(ell_x: int, ell_z: int, weights: Iterable[Any]) -> Weights:
    """The weights as one array (H, ell_x, ell_z) per layer.

    Raises:
        DataError: no token or no layer; a shape that is not (H, ell_x, ell_z); a weight outside [0, 1].
    """
    layers = [np.asarray(w) for w in weights]
    if not ell_x or not ell_z or not layers:
        raise DataError(f"there is nothing to show: {min(ell_x, ell_z)} tokens, {len(layers)} layers.")
    for l, w in enumerate(layers, 1):
        if w.shape != (len(layers[0]), ell_x, ell_z) or not w.size:
            raise DataError(
                f"layer {l} has weights of shape {w.shape}; {ell_x} tokens that ask {ell_z}, and the heads of layer 1, "
                f"need (H, ell_x, ell_z) = ({len(layers[0])}, {ell_x}, {ell_z}), rows = queries."
            )
        if not (w.min() >= 0 and w.max() <= 1.0005):
            raise DataError(
                f"layer {l} has weights from {w.min():g} to {w.max():g}; what a softmax returns lies in [0, 1]. "
                "Scores before the softmax are not attention weights."
            )
    return layers


def formula(stacks: Sequence[Stack]) -> str:
    """What the weights are, by line 6 of Algorithm 4."""
    return "softmax(S / √d_attn)" if stacks[0].scaled else "softmax(S)"


def sources(stacks: Sequence[Stack]) -> str:
    """Where the weights come from: "line 6 of Algorithm 10", "lines 5, 14, 16 of Algorithm 8"."""
    algorithm = stacks[0].line.partition(".")[0]
    lines = [stack.line.partition(".")[2] for stack in stacks]
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(lines)} of Algorithm {algorithm}"

"""Attention weights in two bytes each, exact to four significant digits.

A weight w in [0, 1] becomes a code in 0..65535, and larger weights have larger codes:

    0               w = 0: the mask forbids this key, or the weight underflowed
    1               0 < w < 1e-7, shown as "< 1e-7"
    2 + 9000 e + m  w = (1000 + m) * 10^(e - 10), where 0 <= m < 9000 and 0 <= e <= 7

So what the page shows is w rounded to four significant digits (relative error at most 5e-4), not a
number of some finer resolution that was never stored.  `codec.js` holds the way back.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import DataError

Codes = NDArray[np.uint16]

#: Where e becomes 1, 2, ..., 7, and what makes four digits of a weight there.
DECADES = np.array([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])
SCALE = np.array([1e10, 1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3])

#: Prompts of more tokens have weights so small that only a logarithmic scale of colours tells them apart.
LONG = 64

#: Side of a thumbnail, in pixels.
THUMBNAIL = 48


def checked(tokens: Sequence[str], weights: Iterable[Any]) -> list[NDArray[np.floating[Any]]]:
    """The weights as one array (H, ell, ell) per layer.

    Raises:
        DataError: no token or no layer; a shape that is not (H, ell, ell); a weight outside [0, 1].
    """
    layers, ell = [np.asarray(w) for w in weights], len(tokens)
    if not ell or not layers:
        raise DataError(f"there is nothing to show: {ell} tokens, {len(layers)} layers.")
    for l, w in enumerate(layers, 1):
        if w.shape != (len(layers[0]), ell, ell) or not w.size:
            raise DataError(
                f"layer {l} has weights of shape {w.shape}; {ell} tokens and the heads of layer 1 need "
                f"(H, ell, ell) = ({len(layers[0])}, {ell}, {ell}), rows = queries."
            )
        if not (w.min() >= 0 and w.max() <= 1.0005):
            raise DataError(
                f"layer {l} has weights from {w.min():g} to {w.max():g}; what a softmax returns lies in [0, 1]. "
                "Scores before the softmax are not attention weights."
            )
    return layers


def is_causal(layers: Sequence[NDArray[Any]]) -> bool:
    """No query uses a later key, in any head of any layer: half of each matrix need not be stored."""
    later = ~np.tri(layers[0].shape[-1], dtype=bool)
    return not any(w[:, later].any() for w in layers)


def encode(weights: NDArray[Any]) -> Codes:
    """The code of each weight, same shape; see the module."""
    w = weights.astype(np.float64)
    e = np.searchsorted(DECADES, w, side="right")
    digits = np.rint(w * SCALE[e])  # 1000..9999; 10000 carries into the next decade by itself
    return np.where(w < 1e-7, w > 0, 2 + 9000 * e + digits - 1000).astype(np.uint16)


def pack(codes: Codes, causal: bool) -> str:
    """The codes (ell, ell) row by row, up to the diagonal if causal: all high bytes, then all low bytes; see `text`."""
    flat = codes[np.tri(len(codes), dtype=bool)] if causal else codes.ravel()
    return text((flat >> 8).astype(np.uint8).tobytes() + (flat & 255).astype(np.uint8).tobytes())


def thumbnail(codes: Codes) -> bytes:
    """High bytes of at most THUMBNAIL x THUMBNAIL codes, each the largest of its patch, row by row."""
    return (largest(codes, min(len(codes), THUMBNAIL)) >> 8).astype(np.uint8).tobytes()


def largest(matrix: NDArray[Any], n: int) -> NDArray[Any]:
    """The matrix (ell, ell) in n x n patches, 1 <= n <= ell: the largest element of each."""
    starts = np.arange(n) * len(matrix) // n
    return np.asarray(np.maximum.reduceat(np.maximum.reduceat(matrix, starts, 0), starts, 1))


def text(data: bytes) -> str:
    """Deflated (zlib) and in base64, which is safe anywhere in HTML."""
    return base64.b64encode(zlib.compress(data, 6)).decode()

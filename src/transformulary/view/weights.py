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
from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint16]

#: Where e becomes 1, 2, ..., 7, and what makes four digits of a weight there.
DECADES = np.array([1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1])
SCALE = np.array([1e10, 1e9, 1e8, 1e7, 1e6, 1e5, 1e4, 1e3])

#: Prompts of more tokens have weights so small that only a logarithmic scale of colours tells them apart.
LONG = 64

#: Side of a thumbnail, in pixels.
THUMBNAIL = 48


def is_causal(layers: Sequence[NDArray[Any]]) -> bool:
    """No query uses a later key, in any head of any layer: half of each matrix need not be stored."""
    if layers[0].shape[1] != layers[0].shape[2]:
        return False
    later = ~np.tri(layers[0].shape[-1], dtype=bool)
    return not any(w[:, later].any() for w in layers)


def encode(weights: NDArray[Any]) -> Codes:
    """The code of each weight, same shape; see the module."""
    w = weights.astype(np.float64)
    e = np.searchsorted(DECADES, w, side="right")
    digits = np.rint(w * SCALE[e])  # 1000..9999; 10000 carries into the next decade by itself
    return np.where(w < 1e-7, w > 0, 2 + 9000 * e + digits - 1000).astype(np.uint16)


def pack(codes: Codes, causal: bool) -> str:
    """The codes row by row, up to the diagonal if causal: all high bytes, then all low bytes; see `text`."""
    flat = codes[np.tri(len(codes), dtype=bool)] if causal else codes.ravel()
    return text((flat >> 8).astype(np.uint8).tobytes() + (flat & 255).astype(np.uint8).tobytes())


def thumbnail(codes: Codes) -> bytes:
    """High bytes of at most THUMBNAIL x THUMBNAIL codes, each the largest of its patch, row by row."""
    return (largest(codes, *sides(codes.shape, THUMBNAIL)) >> 8).astype(np.uint8).tobytes()


def sides(shape: Sequence[int], most: int) -> tuple[int, int]:
    """Rows and columns of a picture of a matrix of that shape, the longer side at most so many pixels."""
    rows, columns = (min(n, ceil(n * most / max(shape))) for n in shape)
    return rows, columns


def largest(matrix: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """The matrix in rows x columns patches, no more than it has elements: the largest element of each."""
    for axis, n in enumerate((rows, columns)):
        matrix = np.maximum.reduceat(matrix, np.arange(n) * matrix.shape[axis] // n, axis)
    return matrix


def text(data: bytes) -> str:
    """Deflated (zlib) and in base64, which is safe anywhere in HTML."""
    return base64.b64encode(zlib.compress(data, 6)).decode()

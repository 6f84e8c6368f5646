"""Attention as one HTML page that needs no network and no other file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from typing import Any

from numpy.typing import NDArray

from transformulary.view.colours import DARK, LIGHT, palette
from transformulary.view.visible import one_line, visible
from transformulary.view.weights import LONG, THUMBNAIL, checked, encode, is_causal, pack, text, thumbnail


def attention_page(
    tokens: Sequence[str],
    weights: Iterable[Any],
    title: str = "Attention",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> str:
    """The weights softmax(S / sqrt(d_attn)) of every layer and head, to be read in a browser.

    Args:
        tokens: the ell tokens of the prompt, as text of any kind; shown literally, never as markup.
        weights: one array (H, ell, ell) per layer, rows = queries; 0 where masked.
        title: heading of the page, plain text.
        layers, heads: the numbers of those layers and heads, from 1; all by default.

    Returns:
        The page, with the weights rounded to four significant digits (see `weights`) at two bytes each,
        deflated; of causal weights only the half that the mask allows.

    Raises:
        DataError: shapes that do not fit together, or weights outside [0, 1].

    Source: Algorithm 4, line 6, in Algorithm 10, line 6.
    """
    arrays = checked(tokens, weights)
    causal = is_causal(arrays)
    packed, thumbnails = [], []
    for w in (head for layer in arrays for head in layer):
        codes = encode(w)
        packed.append(pack(codes, causal))
        thumbnails.append(thumbnail(codes))
    data = {
        "tokens": [visible(token) for token in tokens],
        "layers": list(layers or range(1, len(arrays) + 1)),
        "heads": list(heads or range(1, len(arrays[0]) + 1)),
        "causal": causal,
        "scale": "log" if len(tokens) > LONG else "root",
        "palettes": {"light": palette(LIGHT).ravel().tolist(), "dark": palette(DARK).ravel().tolist()},
        "side": min(len(tokens), THUMBNAIL),
        "thumbnails": text(b"".join(thumbnails)),
    }
    return _fill(title, data, packed, size(arrays, packed))


def size(arrays: Sequence[NDArray[Any]], packed: Sequence[str]) -> str:
    """One sentence: how many weights there are, and the bytes they take as float32 and in the page."""
    (H, ell, _), L = arrays[0].shape, len(arrays)
    dense, stored = 4 * L * H * ell * ell, sum(map(len, packed))
    return (
        f"{L} × {H} × {ell:,} × {ell:,} weights (layers × heads × queries × keys): "
        f"{_bytes(dense)} as float32, {_bytes(stored)} in this file."
    )


def _bytes(n: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1024
    return f"{n:.3g} GiB"


def _fill(title: str, data: dict[str, Any], packed: Sequence[str], size: str) -> str:
    """The template with its parts, in one pass: nothing that was put in is looked at again."""
    folder = files("transformulary.view")
    parts = {name: (folder / f"{name}.js").read_text("utf-8") for name in ("codec", "matrix", "page")}
    parts |= {
        "title": html.escape(one_line(title)),
        "css": (folder / "attention.css").read_text("utf-8"),
        "data": json.dumps(data, separators=(",", ":")).replace("<", r"\u003c"),
        "size": size,
        "weights": "\n".join(f'<script type="text/plain" id="w{n}">{p}</script>' for n, p in enumerate(packed)),
    }
    template = (folder / "attention.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)

"""Attention as one HTML page that needs no network and no other file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from transformulary.view.colours import DARK, LIGHT, palette
from transformulary.view.stack import Stack, formula, sources
from transformulary.view.visible import one_line, visible
from transformulary.view.weights import LONG, THUMBNAIL, encode, is_causal, pack, sides, text, thumbnail


def attention_page(stacks: Sequence[Stack], title: str = "Attention") -> str:
    """The weights, line 6 of Algorithm 4, of every layer and head, to be read in a browser.

    Args:
        stacks: of a model that has several kinds of attention, each; tokens are shown literally, never as markup.
        title: heading of the page, plain text.

    Returns:
        The page, with the weights rounded to four significant digits (see `weights`) at two bytes each,
        deflated; of causal weights only the half that the mask allows.

    Source: Algorithm 4, line 6, in Algorithms 8, 9 and 10.
    """
    kinds: list[dict[str, Any]] = []
    packed: list[str] = []
    for stack in stacks:
        kind, more = _packed(stack)
        kinds.append({"first": len(packed)} | kind)
        packed += more
    data = {
        "kinds": kinds,
        "scale": "log" if max(len(stack.keys) for stack in stacks) > LONG else "root",
        "palettes": {"light": palette(LIGHT).ravel().tolist(), "dark": palette(DARK).ravel().tolist()},
    }
    return _fill(title, data, packed, formula(stacks), sources(stacks), size(stacks, packed))


def _packed(stack: Stack) -> tuple[dict[str, Any], Sequence[str]]:
    """What the page knows of a stack, and the weights of each of its heads."""
    causal = is_causal(stack.weights)
    heads = (encode(w) for layer in stack.weights for w in layer)
    packed, thumbnails = zip(*((pack(codes, causal), thumbnail(codes)) for codes in heads), strict=True)
    kind = {
        "name": stack.kind,
        "line": stack.line,
        "queries": [visible(token) for token in stack.queries],
        "keys": [visible(token) for token in stack.keys],
        "alone": stack.keys is stack.queries,
        "layers": list(stack.layers),
        "heads": list(stack.heads),
        "causal": causal,
        "sides": sides((len(stack.queries), len(stack.keys)), THUMBNAIL),
        "thumbnails": text(b"".join(thumbnails)),
    }
    return kind, packed


def size(stacks: Sequence[Stack], packed: Sequence[str]) -> str:
    """One sentence: how many weights there are, and the bytes they take as float32 and in the page."""
    shapes = [(len(s.layers), len(s.heads), len(s.queries), len(s.keys)) for s in stacks]
    counted = " + ".join(f"{L} × {H} × {ell_x:,} × {ell_z:,}" for L, H, ell_x, ell_z in shapes)
    dense, stored = 4 * sum(L * H * ell_x * ell_z for L, H, ell_x, ell_z in shapes), sum(map(len, packed))
    return (
        f"{counted} weights (layers × heads × queries × keys): "
        f"{_bytes(dense)} as float32, {_bytes(stored)} in this file."
    )


def _bytes(n: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1024
    return f"{n:.3g} GiB"


def _fill(title: str, data: dict[str, Any], packed: Sequence[str], formula: str, source: str, size: str) -> str:
    """The template with its parts, in one pass: nothing that was put in is looked at again."""
    folder = files("transformulary.view")
    parts = {name: (folder / f"{name}.js").read_text("utf-8") for name in ("codec", "matrix", "page")}
    parts |= {
        "title": html.escape(one_line(title)),
        "css": (folder / "attention.css").read_text("utf-8"),
        "data": json.dumps(data, separators=(",", ":")).replace("<", r"\u003c"),
        "formula": formula.replace("d_attn", "d<sub>attn</sub>"),
        "source": source,
        "size": size,
        "weights": "\n".join(f'<script type="text/plain" id="w{n}">{p}</script>' for n, p in enumerate(packed)),
    }
    template = (folder / "attention.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)

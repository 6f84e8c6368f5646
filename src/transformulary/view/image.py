"""Attention as one PNG: one panel per head, a row of panels per layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import require
from transformulary.view.colours import LIGHT, palette
from transformulary.view.visible import escape, one_line, visible
from transformulary.view.weights import LONG, checked, largest

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = "DejaVu Sans Mono"  # comes with matplotlib
#: Text is text: neither '$' nor a user's settings make mathematics or TeX of it.
LITERAL: dict[str, Any] = {"family": FONT, "parse_math": False, "usetex": False}
DPI = 150
LETTERS = 14  # longest label
GAP, NAME, TOP, RIGHT = 0.12, 0.24, 0.6, 1.1  # inches: beside a panel, above it, for the titles, for the colour bar


def attention_png(
    tokens: Sequence[str],
    weights: Iterable[Any],
    title: str = "Attention",
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
) -> bytes:
    """The same as `attention_page`, as the bytes of a PNG: all the heads given, each with its layer and head number.

    Arguments and errors are those of `attention_page`.  Rows are queries.  Where labels would overlap every second,
    third, ... is shown; where several weights share a pixel the largest is.  A character that the font lacks is shown
    by its number.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot", "a PNG of attention")
    arrays = checked(tokens, weights)
    figure = _Sheet(tokens, len(arrays), len(arrays[0])).draw(
        arrays, title, layers or range(1, len(arrays) + 1), heads or range(1, len(arrays[0]) + 1)
    )
    out = BytesIO()
    figure.savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


class _Sheet:
    """Where everything goes, in inches: L x H panels of side `side`; labels in a margin at the left and below."""

    def __init__(self, tokens: Sequence[str], L: int, H: int) -> None:
        from matplotlib.colors import ListedColormap, LogNorm, Normalize, PowerNorm

        self.ell, self.L, self.H = len(tokens), L, H
        self.side = min(max(8.5 / max(L, H), 1.0), max(0.32 * self.ell, 1.0))
        self.size = 9 if L == H == 1 else 6  # of a label, in points
        self.labels = [_shortened(_drawable(visible(token))) for token in tokens]
        self.margin = 0.62 * self.size / 72 * max(len(s) for s in [*self.labels, "queries"]) + 0.45
        self.width = max(self.margin + H * (self.side + GAP) + RIGHT, 6.5)
        self.height = TOP + L * (self.side + NAME) + self.margin
        self.colours = ListedColormap(palette(LIGHT) / 255.0)
        self.norm: Normalize = LogNorm(1e-4, 1, clip=True) if self.ell > LONG else PowerNorm(0.5, 0, 1)

    def draw(self, arrays: Sequence[NDArray[Any]], title: str, layers: Sequence[int], heads: Sequence[int]) -> Figure:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width, self.height), facecolor="white")
        for i, layer in enumerate(arrays):
            for j, weights in enumerate(layer):
                panel = self._panel(figure, i, j, weights)
                panel.set_title(f"layer {layers[i]}, head {heads[j]}", fontsize=self.size, pad=3, **LITERAL)
                self._label(panel, rows=j == 0, columns=i == self.L - 1)
        self._write(figure, title)
        self._colour_bar(figure)
        return figure

    def _axes(self, figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
        W, H = self.width, self.height
        return figure.add_axes((left / W, bottom / H, width / W, height / H), facecolor="white")

    def _panel(self, figure: Figure, i: int, j: int, weights: NDArray[Any]) -> Axes:
        left = self.margin + j * (self.side + GAP)
        bottom = self.margin + (self.L - 1 - i) * (self.side + NAME)
        panel = self._axes(figure, left, bottom, self.side, self.side)
        picture = largest(weights.astype(np.float64), min(self.ell, int(self.side * DPI)))
        panel.imshow(
            np.ma.masked_equal(picture, 0),
            cmap=self.colours,
            norm=self.norm,
            interpolation="nearest",
            aspect="auto",
            extent=(0.5, self.ell + 0.5, self.ell + 0.5, 0.5),  # positions count from 1
        )
        panel.grid(False)
        panel.set(xticks=[], yticks=[])
        for spine in panel.spines.values():
            spine.set(linewidth=0.5, color="0.8")
        return panel

    def _label(self, panel: Axes, rows: bool, columns: bool) -> None:
        every = ceil(1.25 * self.size / 72 / (self.side / self.ell))
        positions = range(1, self.ell + 1, every)
        labels = self.labels[::every]
        panel.tick_params(length=0, pad=2)
        if rows:
            panel.set_yticks(positions, labels, fontsize=self.size, color="0.2", **LITERAL)
        if columns:
            panel.set_xticks(positions, labels, fontsize=self.size, color="0.2", rotation=90, **LITERAL)

    def _write(self, figure: Figure, title: str) -> None:
        def put(x: float, y: float, text: str, size: float, colour: str = "0.35", **how: Any) -> None:
            figure.text(x / self.width, y / self.height, text, fontsize=size, color=colour, **LITERAL, **how)

        heading = _drawable(one_line(title))
        fits = 72 * (self.width - 0.3) / (0.62 * max(1, len(heading)))
        put(0.15, self.height - 0.28, heading, min(12, fits), "black", weight="bold")
        put(0.15, self.height - 0.48, "softmax(S / √d_attn): Algorithm 4, line 6, run by Algorithm 10, line 6", 7)
        put(0.1, self.margin + self.L * (self.side + NAME) / 2, "queries", 7, rotation=90, va="center")
        put(self.margin + self.H * (self.side + GAP) / 2, 0.1, "keys", 7, ha="center")

    def _colour_bar(self, figure: Figure) -> None:
        from matplotlib.cm import ScalarMappable

        height = min(2.5, self.side)
        left = self.margin + self.H * (self.side + GAP) + 0.1
        axes = self._axes(figure, left, self.height - TOP - NAME - height, 0.12, height)
        bar = figure.colorbar(ScalarMappable(self.norm, self.colours), cax=axes)
        ticks = [1e-4, 1e-3, 0.01, 0.1, 1] if self.ell > LONG else [0, 0.01, 0.1, 0.25, 0.5, 1]
        labels = ["≤ 0.0001" if t == 1e-4 else f"{t:g}" for t in ticks]
        bar.set_ticks(ticks, labels=labels, minor=False, fontsize=7, **LITERAL)
        axes.minorticks_off()


def _shortened(label: str) -> str:
    return label if len(label) <= LETTERS else label[: LETTERS - 1] + "…"


def _drawable(text: str) -> str:
    """`text` with each character that the font lacks replaced by its number."""
    from matplotlib.font_manager import findfont, get_font

    known = get_font(findfont(FONT)).get_charmap()
    return "".join(c if ord(c) in known else escape(c) for c in text)

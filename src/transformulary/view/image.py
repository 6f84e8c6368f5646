"""Attention as one PNG: one panel per head, a row of panels per layer."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import require
from transformulary.view.colours import LIGHT, palette
from transformulary.view.stack import Stack, formula, sources
from transformulary.view.visible import escape, one_line, visible
from transformulary.view.weights import LONG, largest, sides

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = "DejaVu Sans Mono"  # comes with matplotlib
#: Text is text: neither '$' nor a user's settings make mathematics or TeX of it.
LITERAL: dict[str, Any] = {"family": FONT, "parse_math": False, "usetex": False}
DPI = 150
LETTERS = 14  # longest label
GAP, NAME, TOP, RIGHT = 0.12, 0.24, 0.6, 1.1  # inches: beside a panel, above it, for the titles, for the colour bar


def attention_png(stacks: Sequence[Stack], title: str = "Attention") -> bytes:
    """The same as `attention_page`, as the bytes of a PNG: all the heads given, each with its layer and head number.

    Arguments are those of `attention_page`.  Rows are queries.  Where labels would overlap every second, third, ... is
    shown; where several weights share a pixel the largest is.  A character that the font lacks is shown by its number.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    require("matplotlib", "plot", "a PNG of attention")
    out = BytesIO()
    draw(stacks, title).savefig(out, format="png", dpi=DPI, metadata={"Software": None})
    return out.getvalue()


def draw(stacks: Sequence[Stack], title: str) -> Figure:
    """The picture: one stack below the other."""
    from matplotlib.figure import Figure

    sheets = [_Sheet(stack) for stack in stacks]
    size = max(sheet.width for sheet in sheets), TOP + sum(sheet.height for sheet in sheets)
    figure = Figure(figsize=size, facecolor="white")
    _head(figure, title, f"{formula(stacks)}: Algorithm 4, line 6, run by {sources(stacks)}")
    bottom = size[1] - TOP
    for sheet in sheets:
        bottom -= sheet.height
        sheet.draw(figure, bottom, f"{sheet.stack.kind}: " if len(stacks) > 1 else "")
    return figure


def _head(figure: Figure, title: str, source: str) -> None:
    width, height = figure.get_size_inches()
    heading = _drawable(one_line(title))
    fits = 72 * (width - 0.3) / (0.62 * max(1, len(heading)))
    _put(figure, 0.15, height - 0.28, heading, min(12, fits), "black", weight="bold")
    _put(figure, 0.15, height - 0.48, source, 7)


def _put(figure: Figure, x: float, y: float, text: str, size: float, colour: str = "0.35", **how: Any) -> None:
    width, height = figure.get_size_inches()
    figure.text(x / width, y / height, text, fontsize=size, color=colour, **LITERAL, **how)


class _Sheet:
    """Where one stack goes, in inches: L x H panels of the shape of their weights; labels at the left and below."""

    def __init__(self, stack: Stack) -> None:
        from matplotlib.colors import ListedColormap, LogNorm, Normalize, PowerNorm

        self.stack, self.L, self.H = stack, len(stack.layers), len(stack.heads)
        self.shape = len(stack.queries), len(stack.keys)
        ell = max(self.shape)
        side = min(max(8.5 / max(self.L, self.H), 1.0), max(0.32 * ell, 1.0))  # of the longer side of a panel
        self.tall, self.wide = (side * n / ell for n in self.shape)
        self.size = 9 if self.L == self.H == 1 else 6  # of a label, in points
        self.queries, self.keys = (
            [_shortened(_drawable(visible(token))) for token in tokens] for tokens in (stack.queries, stack.keys)
        )
        self.left, self.below = (self._margin(labels) for labels in (self.queries, self.keys))
        self.width = max(self.left + self.H * (self.wide + GAP) + RIGHT, 6.5)
        self.height = self.L * (self.tall + NAME) + self.below
        self.colours = ListedColormap(palette(LIGHT) / 255.0)
        self.norm: Normalize = LogNorm(1e-4, 1, clip=True) if self.shape[1] > LONG else PowerNorm(0.5, 0, 1)

    def _margin(self, labels: Sequence[str]) -> float:
        return 0.62 * self.size / 72 * max(len(s) for s in [*labels, "queries"]) + 0.45

    def draw(self, figure: Figure, bottom: float, name: str) -> None:
        """Draw it, its lower edge so far above that of the figure; `name` comes before what its axes are."""
        for i, layer in enumerate(self.stack.weights):
            for j, weights in enumerate(layer):
                panel = self._panel(figure, bottom, i, j, weights)
                title = f"{name}layer {self.stack.layers[i]}, head {self.stack.heads[j]}"
                panel.set_title(title, fontsize=self.size, pad=3, **LITERAL)
                self._label(panel, rows=j == 0, columns=i == self.L - 1)
        middle = bottom + self.below + self.L * (self.tall + NAME) / 2
        _put(figure, 0.1, middle, "queries", 7, rotation=90, va="center")
        _put(figure, self.left + self.H * (self.wide + GAP) / 2, bottom + 0.1, "keys", 7, ha="center")
        self._colour_bar(figure, bottom)

    def _axes(self, figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
        W, H = figure.get_size_inches()
        return figure.add_axes((left / W, bottom / H, width / W, height / H), facecolor="white")

    def _panel(self, figure: Figure, bottom: float, i: int, j: int, weights: NDArray[Any]) -> Axes:
        left = self.left + j * (self.wide + GAP)
        bottom += self.below + (self.L - 1 - i) * (self.tall + NAME)
        panel = self._axes(figure, left, bottom, self.wide, self.tall)
        (ell_x, ell_z), pixels = self.shape, int(max(self.tall, self.wide) * DPI)
        picture = largest(weights.astype(np.float64), *sides(self.shape, min(max(self.shape), pixels)))
        panel.imshow(
            np.ma.masked_equal(picture, 0),
            cmap=self.colours,
            norm=self.norm,
            interpolation="nearest",
            aspect="auto",
            extent=(0.5, ell_z + 0.5, ell_x + 0.5, 0.5),  # positions count from 1
        )
        panel.grid(False)
        panel.set(xticks=[], yticks=[])
        for spine in panel.spines.values():
            spine.set(linewidth=0.5, color="0.8")
        return panel

    def _label(self, panel: Axes, rows: bool, columns: bool) -> None:
        every = ceil(1.25 * self.size / 72 / (self.wide / self.shape[1]))
        panel.tick_params(length=0, pad=2)
        if rows:
            at = range(1, self.shape[0] + 1, every)
            panel.set_yticks(at, self.queries[::every], fontsize=self.size, color="0.2", **LITERAL)
        if columns:
            at = range(1, self.shape[1] + 1, every)
            panel.set_xticks(at, self.keys[::every], fontsize=self.size, color="0.2", rotation=90, **LITERAL)

    def _colour_bar(self, figure: Figure, bottom: float) -> None:
        from matplotlib.cm import ScalarMappable

        height = min(2.5, max(self.tall, 1.0))
        left = self.left + self.H * (self.wide + GAP) + 0.1
        axes = self._axes(figure, left, bottom + self.height - NAME - height, 0.12, height)
        bar = figure.colorbar(ScalarMappable(self.norm, self.colours), cax=axes)
        logarithmic = self.shape[1] > LONG
        ticks = [1e-4, 1e-3, 0.01, 0.1, 1] if logarithmic else [0, 0.01, 0.1, 0.25, 0.5, 1]
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

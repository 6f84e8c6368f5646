"""Values of lines as HTML: small tables whose cells are coloured by what they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from transformulary.oracle import axes, numbers
from transformulary.oracle.theta import Theta
from transformulary.pseudocode.mathml import mathml
from transformulary.pseudocode.nodes import Sym
from website.symbols import product

#: Decimal places that are shown.
DIGITS = 3


def shown(path: str, value: Any, more: str = "") -> str:
    """One value under its path: what it is, its shape, its numbers; and `more`."""
    what, table = _shape(path, value), _table(value)
    head = f'<figcaption><code>{escape(path)}</code> <span class="shape">{what}</span></figcaption>'
    return f'<figure class="value" data-path="{escape(path)}">{head}{table}{more}</figure>'


def number(x: Any) -> str:
    """3, −0.125, ∞: rounded to DIGITS places."""
    if isinstance(x, int | np.integer):
        return f"{x}".replace("-", "−")
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    rounded = f"{x:.{DIGITS}f}"
    return rounded.removeprefix("-") if float(rounded) == 0 else rounded.replace("-", "−")


def _size(value: Any) -> int:
    """How many numbers a tree of parameters has."""
    if isinstance(value, Theta):
        return sum(map(_size, vars(value).values()))
    return sum(map(_size, value)) if isinstance(value, list) else int(np.size(value))


def _shape(path: str, value: Any) -> str:
    """d_e × ℓ = 4 × 3"""
    if isinstance(value, Theta):
        return f"one number for each of the {_size(value)} parameters"
    if isinstance(value, set):
        return "a set of places, from 0"
    if (parts := leaves(value)) != [value]:
        return f"{len(parts)}, one below the other" if len(parts) > 1 else "a list of one"
    if _ids(value):
        return "token ids, from 0"
    if value is None:
        return "no token"
    shape = numbers(value).shape
    try:
        names = axes(path)
    except KeyError:
        names = []
    sizes = " × ".join(map(str, shape)) or "a number"
    return f"{mathml(product(names))} = {sizes}" if shape and len(names) == len(shape) else sizes


def _sample(parameters: Theta) -> tuple[str, Any]:
    """The first vector of a tree of parameters; of those of layers the first layer's."""
    first = {name: value[0] if isinstance(value, list) else value for name, value in vars(parameters).items()}
    return next((name, value) for name, value in first.items() if isinstance(value, np.ndarray) and value.ndim == 1)


def leaves(value: Any) -> list[Any]:
    """What several values in one are made of: the thetas of a pair, the sequences of a list of lists."""
    inner = isinstance(value, list | tuple) and any(isinstance(part, list | tuple | Theta) for part in value)
    return [leaf for part in value for leaf in leaves(part)] if inner else [value]


def _ids(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, int | np.integer) for v in value)


def _table(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list) and not value:
        return "<p>the empty list</p>"
    if (parts := leaves(value)) != [value]:
        return "".join(map(_table, parts))
    if isinstance(value, Theta):
        name, vector = _sample(value)
        return f"<p>of which {mathml(Sym(name))} is</p>{_rows(vector.reshape(1, -1))}"
    if isinstance(value, set):
        return _rows(np.array([sorted(value)])) if value else "<p>the empty set</p>"
    if _ids(value):
        return _rows(np.array([list(value)]))
    array = numbers(value)
    layers = array.reshape(-1, *array.shape[-2:]) if array.ndim > 2 else [array]
    return "".join(_rows(a.reshape(-1, 1) if a.ndim < 2 else a) for a in layers)


def _rows(matrix: Any) -> str:
    finite = np.abs(matrix[np.isfinite(matrix)]) if matrix.dtype.kind == "f" else []
    largest = max(finite, default=0) or 1
    rows = "".join(f"<tr>{''.join(_cells(row, largest))}</tr>" for row in matrix)
    return f'<div class="wide"><table class="numbers">{rows}</table></div>'


def _cells(row: Any, largest: float) -> Iterator[str]:
    for x in row:
        heat = isinstance(x, float) and math.isfinite(x)
        style = f' class="{"warm" if x >= 0 else "cold"}" style="--heat: {abs(x) / largest:.0%}"' if heat else ""
        yield f"<td{style}>{number(x)}</td>"

"""Tables in plain text: columns aligned, numbers to the right."""

from collections.abc import Iterable, Sequence
from unicodedata import combining


def table(rows: Iterable[Sequence[object]], right: Iterable[int] = ()) -> str:
    """Rows with their columns aligned; those numbered in `right` to the right.  Whole numbers get their commas."""
    words = [[f"{cell:,}" if type(cell) is int else str(cell) for cell in row] for row in rows]
    widths = [max(map(_width, column)) for column in zip(*words, strict=True)]
    at = set(right)

    def line(row: Sequence[str]) -> str:
        cells = [_padded(cell, width, k in at) for k, (cell, width) in enumerate(zip(row, widths, strict=True))]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, words))


def _padded(cell: str, width: int, right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if right else cell + space


def _width(cell: str) -> int:
    """Columns of a terminal: accents that combine with a letter take none."""
    return sum(not combining(c) for c in cell)


def printable(words: str) -> str:
    """What is not seen, and what moves a terminal's cursor or turns its text around, as the escape that Python has."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def size(n: int) -> str:
    """So many bytes in three digits, in powers of 1000: 498 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 999.5 or unit == "TB":
            return f"{n:,.0f} {unit}" if unit == "B" or n >= 99.95 else f"{n:#.3g} {unit}"
        n /= 1000  # type: ignore[assignment]
    raise AssertionError

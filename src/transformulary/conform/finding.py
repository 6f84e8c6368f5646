"""One value that differs, and what explains it."""

from __future__ import annotations

from dataclasses import dataclass

from transformulary.conform.search import Mistakes


@dataclass(frozen=True)
class Finding:
    """One value that differs.

    path       where: 10.8[l=2]
    error      largest difference relative to the largest number of the oracle's value
    allowed    the error that counts as agreement there
    mistakes   the known mistakes that explain it, with the layer in which each is (0 = every layer); may be empty
    remaining  the error that is left with them
    alike      other mistakes that explain it as well, as far as was seen
    about      where no known mistake explains it: that, and what the difference looks like
    since      lines that could not be seen and may be where the fault is
    """

    path: str
    error: float
    allowed: float
    mistakes: Mistakes = ()
    remaining: float = float("nan")
    alike: tuple[Mistakes, ...] = ()
    about: str = ""
    since: tuple[str, ...] = ()

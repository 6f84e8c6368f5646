"""Texts longer than a model can see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from transformulary.errors import ConfigError


def chunks(x: Sequence[int], ell_max: int) -> Iterator[Sequence[int]]:
    """The sequence in pieces of `ell_max` tokens, in order; the last may be shorter.  '' has none.

    Raises:
        ConfigError: ell_max is below 1.

    Source: arXiv:2207.09238, the end of the section on tokenization.
    """
    if ell_max < 1:
        raise ConfigError(f"ell_max = {ell_max}: a chunk must have at least 1 token.")
    for t in range(0, len(x), ell_max):
        yield x[t : t + ell_max]

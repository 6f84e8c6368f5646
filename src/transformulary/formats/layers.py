"""Masks by layer: lists with one entry per layer there, the shortest cycle here."""

from __future__ import annotations

from typing import Any

from transformulary.errors import ConfigError
from transformulary.paper import Causal, Local, Mask, parse_mask

#: More layers are no model, and a list with one entry for each would only take memory.
MOST = 10_000


def checked(L: Any) -> int:
    """L, if it is a number of layers that a list can be made for.  Raises ConfigError where it is not."""
    if type(L) is not int or not 1 <= L <= MOST:
        raise ConfigError(f"{L!r} is no number of layers: a whole number from 1 to {MOST}.")
    return L


def cycle(masks: list[Mask]) -> tuple[Mask, ...]:
    """The shortest cycle that gives every layer its mask."""
    kinds = {mask: mask for mask in masks}
    same, n = [kinds[mask] for mask in masks], len(masks)  # equal ones are one object, which compares fast
    return next(tuple(same[:k]) for k in range(1, n + 1) if same[k:] == same[: n - k])


def listed(ours: dict[str, Any]) -> list[Mask]:
    """The mask of every layer of a config, given as `to_dict` gives it."""
    masks = [parse_mask(text) for text in ours["mask"]]
    return [masks[l % len(masks)] for l in range(ours["L"])]


def windowed(width: Any, name: str) -> Mask:
    """The mask of a layer whose tokens see the `width` nearest ones; every earlier one where that is None."""
    if width is None:
        return Causal()
    if type(width) is not int or width < 1:
        raise ConfigError(f"{name} = {width!r} is no number of tokens.")
    return Local(width)


def width(masks: list[Mask]) -> int | None:
    """The width of the banded ones among masks, None where there is none."""
    return next((mask.width for mask in masks if isinstance(mask, Local)), None)

"""The most probable of several."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from transformulary.errors import CheckpointError, ConfigError


@dataclass(frozen=True)
class Choice:
    """One of several, a token or a class.

    id    its number, from 0
    name  how it is spelled, or called
    p     its probability
    """

    id: int
    name: str
    p: float


def most_probable(P: Float[Tensor, " n"], k: int, name: Callable[[int], str]) -> list[Choice]:
    """The k most probable, the first one first; all for k = 0.

    Raises:
        ConfigError: k counts nothing.
        CheckpointError: a probability is no number.
    """
    if k < 0:
        raise ConfigError(f"k = {k}: it says how many of the most probable are told; 0 are all.")
    check_finite(P, "a probability")
    values, ids = P.sort(descending=True, stable=True)
    return [Choice(i, name(i), p) for i, p in zip(ids[: k or None].tolist(), values[: k or None].tolist(), strict=True)]


def check_finite(given: Float[Tensor, "*shape"], what: str) -> None:
    """Raises CheckpointError where one of the numbers that a model gives as `what` is NaN or infinite."""
    if not (ok := given.isfinite()).all():
        raise CheckpointError(
            f"the model gives {float(given[~ok][0])} as {what}: it is damaged, or its training diverged."
        )

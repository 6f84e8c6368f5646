"""Who sits where in a batch: which slots hold tokens, at which positions, and so who may attend to whom.

A batch of sequences of unequal length has slots without a token, padding, on either side or in between.  Its one
argument everywhere is `real`, (B, ell), TRUE WHERE A SLOT HOLDS A TOKEN.  Positions count tokens, not slots, so that a
row is computed as if it were alone; no token attends to padding; what becomes of padding itself means nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformulary.paper import Causal, Full, Mask
from transformulary.paper.masks import no_mask


class Places(ABC):
    """The slots of the tokens that ask, X, and of those that are asked, Z."""

    @abstractmethod
    def t_x(self, ell: int, device: torch.device) -> Int[Tensor, "*B ell"]:
        """The positions of the tokens that ask."""

    @abstractmethod
    def grid(self, ell_x: int, ell_z: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """(t_z, t_x), which broadcast to (..., ell_x, ell_z)."""

    @abstractmethod
    def distances(self, ell_x: int, ell_z: int, causal: bool) -> range:
        """Distances t_x - t_z, falling: all that may count, and at least one below."""

    @abstractmethod
    def pairs(self, G: Float[Tensor, "B H ell_x n"], ell_z: int) -> Float[Tensor, "B H ell_x ell_z"]:
        """G with a column for each of the n `distances` -> one for each key; what a causal mask forbids is anything."""

    @abstractmethod
    def tokens(self, allowed: Bool[Tensor, "*any"]) -> Bool[Tensor, "*some"]:
        """What a mask allows, without padding."""

    @abstractmethod
    def cheapest(self, mask: Mask, ell_x: int, ell_z: int) -> dict[str, Any] | None:
        """How the kernel is told who may attend to whom if it needs no matrix for that; None if it does."""

    def allowed(self, mask: Mask, ell_x: int, ell_z: int, device: torch.device) -> Bool[Tensor, "*any"]:
        """Who may attend to whom, true = may; it broadcasts to (B, H, ell_x, ell_z).

        Raises AlgorithmError, as the oracle does, unless the mask is boolean or consists of the integers 0 and 1: a
        kernel would add a mask of floats to the scores.
        """
        return self.tokens(boolean(mask(*self.grid(ell_x, ell_z, device))))


@dataclass(frozen=True)
class Filled(Places):
    """Every slot holds a token.  The first that asks is at position `start`: after that many remembered ones."""

    start: int = 0

    def t_x(self, ell: int, device: torch.device) -> Int[Tensor, " ell"]:
        return torch.arange(self.start, self.start + ell, device=device)

    def grid(self, ell_x: int, ell_z: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return torch.arange(ell_z, device=device), self.t_x(ell_x, device)[:, None]

    def distances(self, ell_x: int, ell_z: int, causal: bool) -> range:
        return range(self.start + ell_x - 1, (0 if causal else self.start - ell_z + 1) - 2, -1)

    def pairs(self, G: Float[Tensor, "B H ell_x n"], ell_z: int) -> Float[Tensor, "B H ell_x ell_z"]:
        """Row x begins at column ell_x - 1 - x: all rows in one, read with one column less (Transformer-XL)."""
        ell_x, n = G.shape[2:]
        begun: Tensor = G.flatten(2)[..., ell_x - 1 : ell_x * n - 1]
        return begun.reshape(*G.shape[:2], ell_x, n - 1)[..., :ell_z]

    def tokens(self, allowed: Bool[Tensor, "*any"]) -> Bool[Tensor, "*any"]:
        return allowed

    def cheapest(self, mask: Mask, ell_x: int, ell_z: int) -> dict[str, Any] | None:
        if mask == Full() or (mask == Causal() and ell_x == 1 and self.start == ell_z - 1):
            return {}
        if mask == Causal() and self.start == 0:  # is_causal aligns the FIRST query with the first key
            return {"is_causal": True}
        return None


@dataclass(frozen=True, eq=False)
class Padded(Places):
    """Some slots hold no token.  Positions of padding are as good as any."""

    real: Bool[Tensor, "B ell_z"]
    t_z: Int[Tensor, "B ell_z"]
    asking: Int[Tensor, "B ell_x"]

    def t_x(self, ell: int, device: torch.device) -> Int[Tensor, "B ell"]:
        return self.asking

    def grid(self, ell_x: int, ell_z: int, device: torch.device) -> tuple[Tensor, Tensor]:
        return self.t_z[:, None, None, :], self.asking[:, None, :, None]

    def distances(self, ell_x: int, ell_z: int, causal: bool) -> range:
        return range(ell_z - 1, (0 if causal else 1 - ell_z) - 2, -1)

    def pairs(self, G: Float[Tensor, "B H ell_x n"], ell_z: int) -> Float[Tensor, "B H ell_x ell_z"]:
        t_z, t_x = self.grid(G.shape[2], ell_z, G.device)
        column = (ell_z - 1 - (t_x - t_z)).clamp(max=G.shape[3] - 1)
        return G.gather(3, column.expand(-1, G.shape[1], -1, -1))

    def tokens(self, allowed: Bool[Tensor, "*any"]) -> Bool[Tensor, "*some"]:
        return allowed & self.real[:, None, None, :]

    def cheapest(self, mask: Mask, ell_x: int, ell_z: int) -> None:
        return None


@dataclass(frozen=True, eq=False)
class Table(Mask):
    """A mask that is given entry by entry: (ell_x, ell_z), (B, ell_x, ell_z) or (B, H, ell_x, ell_z)."""

    entries: Tensor

    def __post_init__(self) -> None:
        if self.entries.dim() == 3:
            object.__setattr__(self, "entries", self.entries[:, None])

    def __call__(self, t_z: Any, t_x: Any) -> Any:
        return self.entries

    @property
    def causal(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"a table {tuple(self.entries.shape)}"


def among(real: Tensor | None) -> Places:
    """The places of self-attention: those who ask are those who are asked."""
    if real is None:
        return Filled()
    t = positions(boolean(real))
    return Padded(boolean(real), t, t)


def across(real: Tensor | None, ell_x: int) -> Places:
    """The places where ell_x tokens of one sequence ask those of another, of which `real` are tokens."""
    if real is None:
        return Filled()
    real = boolean(real)
    t_x = torch.arange(ell_x, device=real.device).expand(len(real), -1)
    return Padded(real, positions(real), t_x)


def positions(real: Bool[Tensor, "B ell"]) -> Int[Tensor, "B ell"]:
    """Of every slot the number of tokens before it: the position of a token."""
    return (real.cumsum(-1) - 1).clamp(min=0)


def boolean(mask: Tensor) -> Bool[Tensor, "*any"]:
    """A mask of booleans.  Raises AlgorithmError unless it is one, or consists of the integers 0 and 1."""
    if mask.dtype == torch.bool:
        return mask
    if mask.is_floating_point() or mask.is_complex() or not bool(((mask == 0) | (mask == 1)).all()):
        raise no_mask(str(mask.dtype).removeprefix("torch."))
    return mask.bool()

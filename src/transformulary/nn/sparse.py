"""Attention under GPT-3's sparse masks, with work in proportion to what they allow: forwards and backwards.

A mask that is a union of bands, strides and fixed blocks allows a query few keys, in a regular pattern.  Each *part* of
it brings the keys of every query side by side by cutting the sequence into blocks, so that scores are small products of
matrices: (ell, m) of them for m keys a query instead of (ell, ell).  One softmax goes over all parts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from transformulary.nn.places import Filled, Places
from transformulary.paper import Fixed, Local, Mask, Strided

#: Blocks of a band are at least so long: smaller products of matrices cost as much.
BLOCK = 64
#: Where parts hold more than this fraction of all keys, the dense kernel does it.
WORTH = 0.5

Queries = Float[Tensor, "B H ell_x d_attn"]
Keys = Float[Tensor, "B H_kv ell_z d_attn"]
Values = Float[Tensor, "B H_kv ell_z d_mid"]
Weights = Float[Tensor, "B H ell m"]
Outcome = Float[Tensor, "B H ell d_mid"]


class Part(ABC):
    """m keys for each of ell queries: some of those that a mask allows, and others."""

    @abstractmethod
    def width(self, ell: int) -> int:
        """m"""

    @abstractmethod
    def keys(self, t: Int[Tensor, "ell 1"]) -> Int[Tensor, "#ell m"]:
        """The positions of the keys of each query; some lie outside the sequence."""

    @abstractmethod
    def holds(self, t_z: Int[Tensor, "#ell m"], t_x: Int[Tensor, "ell 1"]) -> Bool[Tensor, "#ell m"]:
        """Whether t_z is one of the keys of t_x."""

    @abstractmethod
    def scores(self, Q: Queries, K: Keys) -> Weights:
        """K^T Q of each query and its keys."""

    @abstractmethod
    def mix(self, A: Weights, V: Values) -> Outcome:
        """The values of the keys of each query, weighed."""


@dataclass(frozen=True)
class Band(Part):
    """The block of the query, and `back` keys before it."""

    block: int
    back: int

    def width(self, ell: int) -> int:
        return self.back + self.block

    def keys(self, t: Int[Tensor, "ell 1"]) -> Int[Tensor, "ell m"]:
        return t // self.block * self.block + torch.arange(-self.back, self.block, device=t.device)

    def holds(self, t_z: Int[Tensor, "#ell m"], t_x: Int[Tensor, "ell 1"]) -> Bool[Tensor, "#ell m"]:
        place = t_z - t_x // self.block * self.block
        return (place >= -self.back) & (place < self.block)

    def scores(self, Q: Queries, K: Keys) -> Weights:
        return (blocks(Q, self.block) @ self._near(K).mT).flatten(2, 3)[:, :, : Q.shape[2]]

    def mix(self, A: Weights, V: Values) -> Outcome:
        return (blocks(A, self.block) @ self._near(V)).flatten(2, 3)[:, :, : A.shape[2]]

    def _near(self, K: Float[Tensor, "B H ell d"]) -> Float[Tensor, "B H n m d"]:
        here = blocks(K, self.block)
        before = F.pad(here[:, :, :-1, self.block - self.back :], (0, 0, 0, 0, 1, 0))
        return torch.cat([before, here], 3)


@dataclass(frozen=True)
class Stride(Part):
    """Every `stride`-th token, those of the query's remainder: one short sequence for each remainder."""

    stride: int

    def width(self, ell: int) -> int:
        return math.ceil(ell / self.stride)

    def keys(self, t: Int[Tensor, "ell 1"]) -> Int[Tensor, "ell m"]:
        return t % self.stride + torch.arange(0, len(t), self.stride, device=t.device)

    def holds(self, t_z: Int[Tensor, "#ell m"], t_x: Int[Tensor, "ell 1"]) -> Bool[Tensor, "#ell m"]:
        return (t_z - t_x) % self.stride == 0

    def scores(self, Q: Queries, K: Keys) -> Weights:
        return self._joined(self._apart(Q) @ self._apart(K).mT, Q.shape[2])

    def mix(self, A: Weights, V: Values) -> Outcome:
        return self._joined(self._apart(A) @ self._apart(V), A.shape[2])

    def _apart(self, K: Float[Tensor, "B H ell d"]) -> Float[Tensor, "B H stride n d"]:
        return blocks(K, self.stride).transpose(2, 3)

    def _joined(self, Y: Float[Tensor, "B H stride n d"], ell: int) -> Float[Tensor, "B H ell d"]:
        return Y.transpose(2, 3).flatten(2, 3)[:, :, :ell]


@dataclass(frozen=True)
class Summaries(Part):
    """The last `summary` tokens of every whole block, the same for all queries."""

    block: int
    summary: int

    def width(self, ell: int) -> int:
        return ell // self.block * self.summary

    def keys(self, t: Int[Tensor, "ell 1"]) -> Int[Tensor, "1 m"]:
        whole = torch.arange(0, len(t) - self.block + 1, self.block, device=t.device)[:, None]
        return (whole + torch.arange(self.block - self.summary, self.block, device=t.device)).view(1, -1)

    def holds(self, t_z: Int[Tensor, "#ell m"], t_x: Int[Tensor, "ell 1"]) -> Bool[Tensor, "#ell m"]:
        whole = t_z < len(t_x) // self.block * self.block
        return whole & (t_z % self.block >= self.block - self.summary)

    def scores(self, Q: Queries, K: Keys) -> Weights:
        return Q @ self._of(K).mT

    def mix(self, A: Weights, V: Values) -> Outcome:
        return A @ self._of(V)

    def _of(self, K: Float[Tensor, "B H ell d"]) -> Float[Tensor, "B H m d"]:
        return K[:, :, self.keys(torch.arange(K.shape[2], device=K.device)[:, None])[0]]


def blocks(K: Float[Tensor, "B H ell d"], block: int) -> Float[Tensor, "B H n block d"]:
    """The sequence cut into blocks, with zeros after its end."""
    return F.pad(K, (0, 0, 0, -K.shape[2] % block)).reshape(*K.shape[:2], -1, block, K.shape[3])


def parts(mask: Mask) -> tuple[Part, ...]:
    """Parts that together hold all that a mask allows; none where it is of another kind."""
    found: list[Part] = []
    for member in mask.members:
        match member:
            case Local(width):
                found.append(Band(max(width, BLOCK), width - 1))
            case Strided(stride):
                found.append(Stride(stride))
            case Fixed(stride, summary):
                found += [Band(stride, 0), Summaries(stride, summary)]
            case _:
                return ()
    return tuple(found)


class InParts(NamedTuple):
    """Attention to the keys that the parts hold; `allowed` says which of them count."""

    parts: tuple[Part, ...]
    allowed: Bool[Tensor, "ell m"]

    def __call__(self, Q: Queries, K: Keys, V: Values, scale: float, dropout: float) -> Outcome:
        K, V = repeated(K, Q), repeated(V, Q)
        S = torch.cat([part.scores(Q, K) for part in self.parts], 3) * scale
        S = S.masked_fill(~self.allowed, -math.inf)
        A = F.dropout(S.softmax(-1, dtype=torch.promote_types(S.dtype, torch.float32)).to(V.dtype), dropout)
        shares = torch.split(A, [part.width(Q.shape[2]) for part in self.parts], 3)
        return reduce(add, (part.mix(share, V) for part, share in zip(self.parts, shares, strict=True)))


def in_parts(mask: Mask, places: Places, ell_x: int, ell_z: int, device: torch.device) -> InParts | None:
    """Attention of a whole sequence to itself in parts; None where the dense kernel has less to do."""
    if places != Filled() or ell_x != ell_z:
        return None
    found = parts(mask)
    if not found or sum(part.width(ell_x) for part in found) > WORTH * ell_x:
        return None
    return InParts(found, allowed(mask, found, ell_x, device))


def repeated(K: Float[Tensor, "B H_kv ell_z d"], Q: Queries) -> Float[Tensor, "B H ell_z d"]:
    """Keys or values for every query head: head h asks key/value head ceil(h H_kv / H)."""
    return K if K.shape[1] == Q.shape[1] else K.repeat_interleave(Q.shape[1] // K.shape[1], 1)


def allowed(mask: Mask, parts: tuple[Part, ...], ell: int, device: torch.device) -> Bool[Tensor, "ell m"]:
    """Which keys of each query count: those that the mask allows, each in the first part that holds it."""
    t_x = torch.arange(ell, device=device)[:, None]
    found = []
    for k, part in enumerate(parts):
        t_z = part.keys(t_x)
        counts = (t_z >= 0) & (t_z < ell) & mask(t_z, t_x)
        for earlier in parts[:k]:
            counts = counts & ~earlier.holds(t_z, t_x)
        found.append(counts)
    return torch.cat(found, 1)

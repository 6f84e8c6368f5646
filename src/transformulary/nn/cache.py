"""What one attention layer knows of earlier tokens: nothing, or all their keys and values.

A memory is an object, so that no module ever asks whether there is one.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor

NewKeys = Float[Tensor, "B H_kv ell d_attn"]
NewValues = Float[Tensor, "B H_kv ell d_mid"]
Keys = Float[Tensor, "B H_kv ell_z d_attn"]
Values = Float[Tensor, "B H_kv ell_z d_mid"]


class Memory(ABC):
    """Gives the keys and values of every token so far, when told those of the newest."""

    length: int  # tokens already remembered

    @abstractmethod
    def extend(self, K: NewKeys, V: NewValues) -> tuple[Keys, Values]:
        """Of the new tokens -> of all tokens."""


class Fresh(Memory):
    """No past: the tokens given are the whole sequence."""

    length = 0

    def extend(self, K: NewKeys, V: NewValues) -> tuple[Keys, Values]:
        return K, V


class NoPast:
    """The past of a whole sequence: none, however many layers ask for theirs."""

    fresh = Fresh()

    def __getitem__(self, l: int) -> Fresh:
        return self.fresh


class Remember(Memory):
    """Keys and values of every token so far, in buffers that double when they are full.

    For inference, under `torch.no_grad`: the buffers are written in place, so nothing can be
    differentiated through them.  Slots beyond `length` are uninitialised and are never read.
    """

    def __init__(self) -> None:
        self.length = 0
        self._K = self._V = torch.empty(1, 1, 0, 1)

    def extend(self, K: NewKeys, V: NewValues) -> tuple[Keys, Values]:
        start, self.length = self.length, self.length + K.shape[2]
        self._K = _write(self._K, K, start, self.length)
        self._V = _write(self._V, V, start, self.length)
        return self._K[:, :, : self.length], self._V[:, :, : self.length]


def _write(buffer: Tensor, new: Tensor, start: int, end: int) -> Tensor:
    """The buffer with `new` at [start, end) of its third axis; a longer one if it was too short."""
    if end > buffer.shape[2]:
        B, H_kv, _, d = new.shape
        longer = new.new_empty(B, H_kv, max(64, 2 * end), d)
        longer[:, :, :start] = buffer[:, :, :start]
        buffer = longer
    buffer[:, :, start:end] = new
    return buffer

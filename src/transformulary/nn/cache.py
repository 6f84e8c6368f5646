"""What one attention layer knows of earlier tokens: nothing, or all their keys and values.

A memory is an object, so that no module ever asks whether there is one.
"""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformulary.nn.places import Filled, Padded, Places, among, boolean, positions

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


FRESH = Fresh()


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

    def select(self, rows: Tensor) -> None:
        """Go on with these rows of the batch, in this order, each as often as it is named: the hypotheses of a beam."""
        self._K, self._V = self._K[rows], self._V[rows]


class NoPast:
    """The past of whole sequences: none, however many layers ask for theirs."""

    length = 0

    def __getitem__(self, l: int) -> Memory:
        return FRESH

    def end(self, ell: int, real: Tensor | None) -> int:
        """How many tokens the longest sequence has."""
        return ell if real is None else longest(boolean(real))

    def places(self, ell: int, real: Tensor | None) -> Places:
        """Where the tokens are."""
        return among(real)


class Past:
    """What is known of the tokens before those that come: a memory for each layer, and which slots hold tokens."""

    def __init__(self, layers: int) -> None:
        self.memories = [Remember() for _ in range(layers)]
        self._real: Tensor | None = None  # where all slots hold tokens

    def __getitem__(self, l: int) -> Memory:
        return self.memories[l]

    def __len__(self) -> int:
        return len(self.memories)

    @property
    def length(self) -> int:
        """Slots already remembered."""
        return self.memories[0].length

    def end(self, ell: int, real: Tensor | None) -> int:
        """How many tokens the longest sequence has with `ell` slots more."""
        grown = self._grown(ell, real)
        return self.length + ell if grown is None else longest(grown)

    def places(self, ell: int, real: Tensor | None) -> Places:
        """Where the next `ell` tokens are, and all before them; which of them are real is remembered."""
        self._real = self._grown(ell, real)
        if self._real is None:
            return Filled(self.length)
        t = positions(self._real)
        return Padded(self._real, t, t[:, self.length :])

    def select(self, rows: Int[Tensor, " n"]) -> None:
        """Go on with these rows of the batch, in this order, each as often as it is named: the hypotheses of a beam."""
        for memory in self.memories:
            memory.select(rows)
        self._real = None if self._real is None else self._real[rows]

    def _grown(self, ell: int, real: Tensor | None) -> Tensor | None:
        """Which slots hold tokens, with `ell` more."""
        before = self._real
        if before is None:
            if real is None:
                return None
            before = real.new_ones(len(real), self.length)
        after = before.new_ones(len(before), ell) if real is None else real
        return torch.cat([boolean(before), boolean(after)], 1)


def longest(real: Bool[Tensor, "B ell"]) -> int:
    """The largest number of tokens of a row."""
    return int(real.sum(-1).max())


def _write(buffer: Tensor, new: Tensor, start: int, end: int) -> Tensor:
    """The buffer with `new` at [start, end) of its third axis; a longer one if it was too short."""
    if end > buffer.shape[2]:
        B, H_kv, _, d = new.shape
        longer = new.new_empty(B, H_kv, max(64, 2 * end), d)
        longer[:, :, :start] = buffer[:, :, :start]
        buffer = longer
    buffer[:, :, start:end] = new
    return buffer

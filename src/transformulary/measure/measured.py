"""What is measured of a model, whatever kind it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from transformulary.encode.choices import check_finite
from transformulary.train import total_loss


@dataclass(frozen=True)
class Measured:
    """How probable a model took what is right, each time that it was asked.

    what     what it was asked for, or of: tokens, masked tokens, target tokens, texts
    n        how often
    nats     - log p of what is right, all together
    correct  how often that was the most probable
    bytes    of the text that was asked for, in UTF-8; 0 where it is not asked for as a whole
    """

    what: str
    n: int
    nats: float
    correct: int
    bytes: int = 0

    @property
    def nats_each(self) -> float:
        """Nats for each time."""
        return self.nats / self.n

    @property
    def perplexity(self) -> float:
        """e to that power."""
        return math.exp(self.nats_each) if self.nats_each < 700 else math.inf

    @property
    def nats_per_byte(self) -> float | None:
        """The number by which models with different vocabularies compare; None without bytes."""
        return self.nats / self.bytes if self.bytes else None

    @property
    def accuracy(self) -> float:
        """How often it was right, of all times."""
        return self.correct / self.n


@dataclass(frozen=True)
class Row:
    """Tokens that a model predicts, each from those before it, from x[first] on; and a context z, if it has one."""

    x: list[int]
    first: int = 1
    z: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.z) + len(self.x)


#: How much of what is measured one row is: n, nats, correct.
Part = tuple[int, float, int]


def asked(logits: Float[Tensor, "B ell N_V"], rows: Sequence[Row]) -> Iterator[Part]:
    """What each row is, with the logits after each of its tokens but the last.

    Raises CheckpointError: the nats of a token are NaN or infinite.
    """
    for row, all_of_it in zip(rows, logits, strict=True):
        y = torch.tensor(row.x[row.first :], device=logits.device)
        l = all_of_it[row.first - 1 : len(row.x) - 1]
        nats = total_loss(l[None], y[None])
        check_finite(nats, "the nats of a token")
        yield len(y), nats.item(), int((l.argmax(-1) == y).sum())


def together(what: str, parts: Iterable[Part], n_bytes: int = 0) -> Measured:
    """The sum of all parts."""
    n, nats, correct = (sum(column) for column in zip(*parts, strict=True))
    return Measured(what, int(n), float(nats), int(correct), n_bytes)

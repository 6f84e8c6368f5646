"""What is measured of a model, whatever kind it is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from transformulary.data import NO_TOKEN
from transformulary.train import count, total_loss


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


def asked(logits: Float[Tensor, "B ell N_V"], targets: Int[Tensor, "B ell"]) -> tuple[int, float, int]:
    """(n, nats, correct) of the targets of a batch, those that are NO_TOKEN aside."""
    correct = (logits.argmax(-1) == targets) & (targets != NO_TOKEN)
    return count(targets), total_loss(logits, targets).item(), int(correct.sum())


def together(what: str, parts: Iterable[tuple[int, float, int]], n_bytes: int = 0) -> Measured:
    """The sum of what was asked in batches."""
    n, nats, correct = (sum(column) for column in zip(*parts, strict=True))
    return Measured(what, int(n), float(nats), int(correct), n_bytes)

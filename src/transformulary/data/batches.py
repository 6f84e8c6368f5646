"""Token ids -> windows of at most ell_max + 1 tokens -> batches, in an order that can be taken up anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from transformulary.errors import DataError

#: Stands where a row has no token: after the end of a window that is shorter than the longest of its batch.
NO_TOKEN = -1


class Documents:
    """Sequences of token ids, end to end.  Windows never reach from one into the next.

    ids     (n,) int32, all sequences one after the other
    bounds  (N_data + 1,) int64, sequence k is ids[bounds[k] : bounds[k + 1]]
    """

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        lengths = torch.tensor([0, *map(len, sequences)])
        self.bounds: Int[Tensor, " N_data+1"] = lengths.cumsum(0)
        self.ids: Int[Tensor, " n"] = torch.empty(int(self.bounds[-1]), dtype=torch.int32)
        for start, sequence in zip(self.bounds.tolist(), sequences, strict=False):
            self.ids[start : start + len(sequence)] = torch.as_tensor(sequence, dtype=torch.int32)

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    def windows(self, ell_max: int, random: torch.Generator | None = None) -> Int[Tensor, "N_windows 2"]:
        """[start, end) of windows in which every token but a document's first is a target exactly once.

        A window holds at most ell_max targets and the token before them.  With `random`, the first window of
        each document that needs several is cut short by a random number of tokens, so that epochs differ.
        """
        targets = (self.bounds.diff() - 1).clamp(min=0)
        cut = torch.randint(ell_max, targets.shape, generator=random) if random else torch.zeros_like(targets)
        cut = torch.where(targets > ell_max, cut, 0)
        counts = (targets + cut + ell_max - 1) // ell_max
        document = torch.repeat_interleave(torch.arange(len(counts)), counts)
        nth = torch.arange(len(document)) - (counts.cumsum(0) - counts)[document]
        start = (nth * ell_max - cut[document]).clamp(min=0)
        end = torch.minimum((nth + 1) * ell_max - cut[document], targets[document])
        return self.bounds[document, None] + torch.stack([start, end + 1], 1)

    def rows(self, windows: Int[Tensor, "B 2"]) -> Int[Tensor, "B ell"]:
        """The token ids of some windows, one per row, filled up with NO_TOKEN."""
        start, end = windows[:, :1], windows[:, 1:]
        index = start + torch.arange(int((end - start).max()))
        return torch.where(index < end, self.ids[index.clamp(max=len(self) - 1)], NO_TOKEN).long()


def shift(rows: Int[Tensor, "B ell"]) -> tuple[Int[Tensor, "B ell-1"], Int[Tensor, "B ell-1"]]:
    """(what the model reads, what it is to predict): targets[:, t] = rows[:, t + 1], so the first is never a target.

    Where a row has no token, the target is NO_TOKEN and the model reads id 0, which no earlier token can see.
    Source: line 5 of Algorithm 13, with the last column of P, which has no target, left out.
    """
    return rows[:, :-1].clamp(min=0), rows[:, 1:]


@dataclass(frozen=True)
class Position:
    """Where a `Batches` stands, as plain numbers: the next batch starts at this window of this epoch (from 0)."""

    epoch: int = 0
    window: int = 0

    def __str__(self) -> str:
        return f"epoch {self.epoch + 1}, window {self.window + 1}"

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


START = Position()


class Batches(Iterator["Int[Tensor, 'B ell']"]):
    """Endless batches of rows: all windows of an epoch in random order, then the next epoch's.

    The order of an epoch depends on nothing but `seed` and its number, so `position` is all there is to
    remember.  No batch reaches into the next epoch: the last one of an epoch may have fewer rows.
    """

    def __init__(
        self, documents: Documents, ell_max: int, batch: int, seed: int = 0, position: Position = START
    ) -> None:
        """Raises DataError if no document has the two tokens that a target needs."""
        if len(documents.windows(ell_max)) == 0:
            raise DataError(
                f"the text to learn from has {len(documents)} token{'s' * (len(documents) != 1)}; "
                f"predicting the next one needs at least 2 (up to ell_max + 1 = {ell_max + 1} are used at once)."
            )
        self.documents, self.ell_max, self.batch, self.seed = documents, ell_max, batch, seed
        self.position = position
        self._order = self._shuffled(position.epoch)

    def __next__(self) -> Int[Tensor, "B ell"]:
        """(B, ell) token ids, ell <= ell_max + 1 and B <= batch."""
        if self.position.window >= len(self._order):
            self.position = Position(self.position.epoch + 1)
            self._order = self._shuffled(self.position.epoch)
        first = self.position.window
        self.position = Position(self.position.epoch, first + self.batch)
        return self.documents.rows(self._order[first : first + self.batch])

    def _shuffled(self, epoch: int) -> Int[Tensor, "N_windows 2"]:
        random = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**32)
        windows = self.documents.windows(self.ell_max, random)
        return windows[torch.randperm(len(windows), generator=random)]

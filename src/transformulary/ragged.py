"""Sequences of unequal length: batches of about equal length, and their results in the order of the sequences."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from transformulary.errors import ConfigError, DataError

if TYPE_CHECKING:
    from torch import Tensor, device

#: Sequences of a batch where nobody says.
BATCH = 32
#: Batches whose sequences are sorted by length together; more need more memory, and save less and less padding.
WINDOW = 64

Row = TypeVar("Row", bound=Sized)
Result = TypeVar("Result")


def by_length(
    rows: Iterable[Row],
    run: Callable[[list[Row]], Iterable[Result]],
    batch: int = BATCH,
    length: Callable[[Row], int] = len,
) -> Iterator[Result]:
    """One result for each row, in the order of the rows; rows that are about equally long are run together.

    Args:
        rows: read WINDOW batches at a time, so that they may be without end.
        run: gives one result for each row of a batch, shorter rows first.
        batch: how many rows are run together, at most.
        length: what a row is sorted by.

    Raises:
        ConfigError: there is no such batch.
        DataError: it does not fit into memory; raised when its results are asked for.
    """
    if batch < 1:
        raise ConfigError(f"batch = {batch}: at least one text is read at a time.")
    return _by_length(iter(rows), run, batch, length)


def _by_length(
    rows: Iterator[Row], run: Callable[[list[Row]], Iterable[Result]], batch: int, length: Callable[[Row], int]
) -> Iterator[Result]:
    while window := list(islice(rows, min(WINDOW * batch, sys.maxsize))):
        results: dict[int, Result] = {}
        order = sorted(range(len(window)), key=lambda i: length(window[i]))
        for start in range(0, len(order), batch):
            together = order[start : start + batch]
            with _in_memory(len(together), length(window[together[-1]])):
                results |= zip(together, run([window[i] for i in together]), strict=True)
        yield from (results[i] for i in range(len(window)))


@contextmanager
def _in_memory(n: int, longest: int) -> Iterator[None]:
    """Raises DataError where what is done inside, with n sequences, needs more memory than there is."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:  # PyTorch has no class of its own for memory that is not on a GPU
        if not isinstance(error, MemoryError) and not re.search("out of memory|allocate memory", str(error)):
            raise
        raise DataError(
            f"a batch of {n}, with texts of up to {longest} tokens, needs more memory than there is, which grows with "
            f"the square of their length. Take a smaller batch, or shorter texts."
        ) from None


def padded(rows: Sequence[Sequence[int]], device: str | device | None = None) -> tuple[Tensor, Tensor]:
    """Rows of whole numbers as one (B, ell), and `real`, true where it holds one of them; padding is on the right."""
    import torch

    ell = torch.tensor([len(row) for row in rows], device=device)
    real = torch.arange(int(ell.max()), device=device) < ell[:, None]
    x = torch.zeros(real.shape, dtype=torch.int64, device=device)
    x[real] = torch.tensor([i for row in rows for i in row], device=device)
    return x, real


def device_of(name: str) -> Any:
    """The torch.device of that name, "auto" for an accelerator where there is one.

    Raises ConfigError: there is none on this machine.
    """
    import torch

    if name == "auto":
        return torch.accelerator.current_accelerator() if torch.accelerator.is_available() else torch.device("cpu")
    try:
        one = torch.zeros(1, device=name)
        one.item()  # numbers come back from it
        return one.device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device = {name!r} cannot be used here: {str(error).splitlines()[0].split('. ')[0]}."
        ) from None

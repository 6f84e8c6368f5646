"""Sequences of unequal length are read together with others about as long, and nobody sees it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformulary.errors import ConfigError, DataError
from transformulary.ragged import by_length, device_of, padded

rows = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=9), max_size=200)


@given(rows, st.integers(1, 3))
def test_results_come_in_the_order_of_the_rows(rows, batch):
    """Each row gets its own result, whatever it was run with."""
    assert [[*row, -1] for row in rows] == [*by_length(rows, lambda some: [[*row, -1] for row in some], batch)]


def test_rows_of_about_equal_length_are_run_together():
    """Batches are full, and hold rows that are neighbours when all are sorted by length."""
    batches = []

    list(by_length(["ccc", "a", "bb", "dddd", "ee", "f"], lambda some: batches.append(some) or some, 2))

    assert [["a", "f"], ["bb", "ee"], ["ccc", "dddd"]] == batches


def test_rows_without_end():
    """Results come while rows are still being read."""
    endless = iter(lambda: "row", None)

    results = by_length(endless, lambda some: some, 2)

    assert ["row", "row", "row"] == [next(results) for _ in range(3)]


def test_a_batch_of_rows():
    """Padding is on the right, and not real."""
    x, real = padded([[7], [8, 9]])

    assert ([[7, 0], [8, 9]], [[True, False], [True, True]]) == (x.tolist(), real.tolist())


def test_what_there_is_not():
    """A batch without rows and a device that this machine lacks are refused in one line."""
    with pytest.raises(ConfigError, match=r"^batch = 0: at least one"):
        by_length([], list, 0)
    for device in ("abacus", "meta", "vulkan"):
        with pytest.raises(ConfigError, match=rf"^device = '{device}' cannot be used here: .{{1,300}}\.$"):
            device_of(device)


def test_a_batch_of_all():
    """A batch may be larger than any number of rows."""
    assert [[1], [2, 3]] == [*by_length([[1], [2, 3]], lambda some: some, 10**20)]


def allocate(rows):
    """Ask PyTorch for more memory than any machine has."""
    return torch.empty(10**15, 10**3).unbind()


def exhaust(rows):
    """What Python says where memory ends."""
    raise MemoryError


@pytest.mark.parametrize("run", [allocate, exhaust])
def test_more_than_the_memory(run):
    """A batch that does not fit is said in one line, with how many texts it has and how long they are."""
    with pytest.raises(DataError, match=r"^a batch of 2, with texts of up to 3 tokens, needs more memory"):
        list(by_length([[1, 2, 3], [4]], run))


def test_other_mistakes():
    """What has nothing to do with memory stays what it is."""
    with pytest.raises(RuntimeError, match=r"^shapes"):
        list(by_length([[1]], lambda some: (_ for _ in ()).throw(RuntimeError("shapes differ"))))

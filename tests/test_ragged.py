"""Sequences of unequal length are read together with others about as long, and nobody sees it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformulary.errors import ConfigError
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
    for name in ("abacus", "meta"):
        with pytest.raises(ConfigError, match=rf"^device = '{name}' cannot be used here: .*"):
            device_of(name)


def test_a_batch_of_all():
    """A batch may be larger than anything that can be counted."""
    assert [1, 2] == list(by_length(["a", "bb"], lambda some: map(len, some), 10**20))

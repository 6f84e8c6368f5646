"""Windows, batches, and their order."""

from collections import Counter
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformulary.data import NO_TOKEN, Batches, Documents, shift
from transformulary.errors import DataError

lengths = st.lists(st.integers(0, 30), max_size=6)


def numbered(lengths):
    """Documents whose tokens are all different: 1000 k + t is token t of document k."""
    return Documents([[1000 * k + t for t in range(n)] for k, n in enumerate(lengths)])


@given(lengths, st.integers(1, 9), st.booleans(), st.integers(0, 99))
def test_every_token_but_the_first_is_a_target_once(lengths, ell_max, shuffled, seed):
    """In one epoch each token of a document but its first is a target exactly once, right after its predecessor."""
    documents = numbered(lengths)
    windows = documents.windows(ell_max, torch.Generator().manual_seed(seed) if shuffled else None)
    rows = documents.rows(windows) if len(windows) else torch.empty(0, 2, dtype=torch.int64)

    x, y = shift(rows)

    real = y != NO_TOKEN
    expected = Counter(1000 * k + t for k, n in enumerate(lengths) for t in range(1, n))
    assert expected == Counter(y[real].tolist())
    assert torch.equal(y[real], x[real] + 1)
    assert rows.shape[1] <= ell_max + 1


def test_short_documents_are_not_cut():
    """A document that fits in one window stays whole, whatever the random cut."""
    documents = numbered([9, 5])

    windows = documents.windows(8, torch.Generator().manual_seed(1))

    assert [[0, 9], [9, 14]] == windows.tolist()


@given(lengths.filter(lambda ns: max(ns, default=0) > 1), st.integers(1, 5), st.integers(1, 4), st.integers(0, 20))
def test_position_is_all_there_is_to_remember(lengths, ell_max, batch, before):
    """Batches that start at another's position give the same rows from there on."""
    documents = numbered(lengths)
    straight = Batches(documents, ell_max, batch, seed=3)
    for _ in range(before):
        next(straight)

    resumed = Batches(documents, ell_max, batch, seed=3, position=straight.position)

    for expected, actual in zip(islice(straight, 9), islice(resumed, 9), strict=True):
        assert torch.equal(expected, actual)


def test_epochs_differ_and_are_complete():
    """Each epoch has every target once, in an order of its own; another seed has another order."""
    documents = numbered([101])
    batches, per_epoch = Batches(documents, 5, 4, seed=0), {0: [], 1: [], 2: []}

    while batches.position.epoch < 2:
        _, y = shift(next(batches))
        per_epoch[batches.position.epoch] += y[y != NO_TOKEN].tolist()

    assert list(range(1, 101)) == sorted(per_epoch[0]) == sorted(per_epoch[1])
    assert per_epoch[0] != per_epoch[1]
    assert not torch.equal(next(Batches(documents, 5, 4, seed=0)), next(Batches(documents, 5, 4, seed=1)))


def test_shift_counts_a_row_from_its_second_token():
    """Two rows of five tokens have exactly eight targets, and none crosses rows."""
    x, y = shift(torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]))

    assert [[3, 1, 4, 1], [9, 2, 6, 5]] == x.tolist()
    assert [[1, 4, 1, 5], [2, 6, 5, 3]] == y.tolist()


@pytest.mark.parametrize("n", [2, 8, 9])
def test_text_shorter_than_the_context(n):
    """With ell_max = 8, a text of 2, 8 or 9 tokens is one shorter window."""
    rows = next(Batches(numbered([n]), ell_max=8, batch=4))

    assert [list(range(n))] == rows.tolist()


@pytest.mark.parametrize(("lengths", "said"), [([], "0 tokens"), ([1], "1 token;"), ([1, 1], "2 tokens")])
def test_nothing_to_predict(lengths, said):
    """Texts of at most one token have no target: an error with both numbers."""
    with pytest.raises(DataError, match=rf"has {said}.*needs at least 2 .*ell_max \+ 1 = 9"):
        Batches(numbered(lengths), ell_max=8, batch=4)

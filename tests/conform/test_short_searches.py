"""What cannot be there is not looked for, however much of a model is unexplained."""

import numpy as np
import pytest

from conform.ordinary import LLAMA, PLACES, build
from transformulary.conform import conform, run
from transformulary.conform.fit import nearest_whole
from transformulary.conform.search import Search

X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]


@pytest.fixture
def unexplained():
    """A Llama whose second norms divide by the mean of the sizes: every layer differs at line 7."""
    model, table, ref = build(LLAMA, places=PLACES)
    for block in model.blocks:
        weight = block.ln_2.weight
        block.ln_2.forward = lambda x, of=None, weight=weight: x / x.abs().mean(-1, keepdim=True) * weight
    return model, table, ref


def test_no_other_order_is_sought_where_its_line_agrees(unexplained, monkeypatch):
    """Norms that stand where they should are no post-norm, whatever else differs."""
    orders, usual = [], run.Lockstep
    monkeypatch.setattr(
        run, "Lockstep", lambda *a, order=False, **k: orders.append(order) or usual(*a, order=order, **k)
    )
    model, table, ref = unexplained

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert {fault.line for fault in report.faults} == {"Algorithm 10, line 7"}
    assert orders == [False]


def test_pairs_are_sought_once_for_a_line(unexplained, monkeypatch):
    """What two mistakes do not explain in one layer they are not tried on in the next."""
    searches, usual = [], Search._pair
    monkeypatch.setattr(Search, "_pair", lambda self, singles: searches.append(self.ours) or usual(self, singles))
    model, table, ref = unexplained

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert [fault.key for fault in report.faults] == [""] * len(report.faults)
    assert len(searches) == 1


def test_a_number_that_counts_is_tried_whole():
    """The count that leaves least, if it leaves little; none of a single token."""
    ones = np.tri(12)

    assert nearest_whole(lambda n: ones[int(n)], ones[7], 12) == 7.0
    assert nearest_whole(lambda n: ones[int(n)], -ones[7], 12) is None
    assert nearest_whole(lambda n: ones[int(n)], ones[7], 1) is None

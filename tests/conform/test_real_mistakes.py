"""Mistakes that were really made and that the table does not hold: the right line, and an honest "no known mistake"."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from conform.real import REAL, X
from conform.real_mistakes import page
from conform.test_faults import LOGITS
from transformulary.conform.candidates.pytorch import watch_model
from transformulary.conform.run import conform
from transformulary.paper import Read

PAGE = Path(__file__).parents[2] / "docs" / "real-mistakes.md"


def report_of(mistake, places=None):
    """Of what the lines show: some are planted in the weights, and would be told from them."""
    torch.manual_seed(0)  # one of them is dropout
    model, table, ref = mistake.build(places)
    return conform(replace(watch_model(model, ref.whole, Read.of(X), table), weights={}, buffers={}), ref, tokens=X)


@pytest.mark.parametrize("mistake", REAL, ids=lambda m: m.key)
def test_the_line_and_no_name(mistake):
    """The line and the layer are found, and what the difference looks like; nothing is named, nothing else reported."""
    report = report_of(mistake)

    assert [(f.key, f.line, f.where) for f in report.faults] == [
        ("", f"Algorithm 10, line {mistake.line}", mistake.where)
    ]
    said = report.faults[0].says.partition(", and no known mistake explains it: ")[2]
    assert said.partition("; the fault may be in lines")[0] == mistake.looks
    assert report.agreement is None


def test_from_the_logits_alone():
    """With nothing but the last line seen, it is known that something differs, and nothing is named."""
    report = report_of(next(mistake for mistake in REAL if mistake.key == "gelu-by-table"), LOGITS)

    assert report.status == 1
    assert [fault.key for fault in report.faults] == [""]


def test_what_is_wrong_with_the_weights_is_said_of_them():
    """Rows of W_k in a wrong order: the weights say so, and with them every line agrees."""
    model, table, ref = next(mistake for mistake in REAL if mistake.key == "keys-permuted").build()

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert [(fault.key, fault.line) for fault in report.faults] == [("weights", "Weights")]
    assert report.agreement < 1e-12


def test_enough_of_them_each_from_its_own_thread():
    """Twenty-five at least; no thread is counted twice."""
    assert len(REAL) >= 25
    assert len({mistake.thread for mistake in REAL}) == len({mistake.key for mistake in REAL}) == len(REAL)


def test_the_page_is_current():
    """docs/real-mistakes.md is what bench/real_mistakes.py writes."""
    assert page() == PAGE.read_text(encoding="utf-8")

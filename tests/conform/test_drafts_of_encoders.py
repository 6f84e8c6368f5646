"""Drafts of the places of encoders and encoder-decoders: from one run, also of a model with a mistake."""

import tomllib
from dataclasses import replace

import pytest

from conform.ordinary_encoders import BERT, SEQ2SEQ, T5, build
from transformulary.conform import conform
from transformulary.conform.candidates.places import make_table
from transformulary.conform.candidates.propose import propose

KINDS = {"bert": BERT, "seq2seq": SEQ2SEQ, "t5": T5}
FAULTS = {"bert": "act-SiLU", "seq2seq": "memory-own", "t5": "buckets-backwards"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("faulty", [False, True], ids=["right", "with a mistake"])
def test_a_draft_is_a_table(kind, faulty):
    """What is drafted shows every line of the layers; with it, a right model agrees and a wrong one is diagnosed."""
    faults = {FAULTS[kind]: 0} if faulty else {}
    model, table, ref = build(replace(KINDS[kind], faults=faults))

    draft = make_table(tomllib.loads(propose(model, ref)), "draft")
    report = conform(model, ref, table=draft, decoding=False)

    wanted, drafted = ({path for path in of.places if "[l]" in path} for of in (table, draft))
    assert drafted >= wanted or faulty
    assert [fault.key for fault in report.faults] == list(faults)

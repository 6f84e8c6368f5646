"""What a PyTorch model returns: line 11, in whatever form, beside a place of it or without one."""

import pytest
import torch

from conform.ordinary import GPT, build
from transformulary.conform import conform
from transformulary.conform.candidates.places import make_table

X = [3, 1, 4, 1, 5, 9, 2, 6]


@pytest.mark.parametrize("output", ["logits", "probabilities"])
def test_what_a_model_returns_is_line_11(output):
    """A table without line 11 hides nothing: what the model returns is compared, right or wrong."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    factor = torch.tensor(1.0)
    theirs.forward = lambda ids: forward(ids) * factor if output == "logits" else forward(ids).softmax(-1) ** factor
    places = make_table({"places": {"10.3": table.places["10.3"]}, "output": output}, "table")

    right = conform(theirs, ref, tokens=X, table=places, decoding=False)
    factor.fill_(2.0)
    wrong = conform(theirs, ref, tokens=X, table=places, decoding=False)

    assert right.status == 0, right
    assert wrong.status == 1
    assert [fault.line for fault in wrong.faults] == ["Algorithm 10, line 11"]


@pytest.mark.parametrize(
    "returns", [lambda y: torch.ones_like(y), lambda y: 3 * y + torch.arange(37)], ids=["ones", "3"]
)
def test_what_a_model_returns_counts_beside_a_place(returns):
    """A head that is right hides nothing that is done to its logits later: line 11 is what the model returns."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: returns(forward(ids))

    report = conform(theirs, ref, tokens=X, table=table, decoding=False)

    assert [fault.line for fault in report.faults] == ["Algorithm 10, line 11"]
    assert [note.status for note in report.notes if note.kind == "output"] == ["differs"]


@pytest.mark.parametrize("returns", [lambda y: y, lambda y: y.softmax(-1), lambda y: y.log_softmax(-1),
                                     lambda y: y.float(), lambda y: (y, None), lambda y: {"logits": y}],
                         ids=["logits", "probabilities", "logarithms", "float32", "several", "dict"])  # fmt: skip
def test_whatever_a_model_returns_of_its_logits(returns):
    """Beside a place of line 11 the same in another form, or in another precision, is no difference."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: returns(forward(ids))

    report = conform(theirs, ref, tokens=X, table=table, decoding=False)

    assert report.status == 0, report
    assert not [note for note in report.notes if note.kind == "output"]


@pytest.mark.parametrize("returns", [lambda y: y[..., :9], lambda y: {"loss": y}, lambda y: ()],
                         ids=["part", "dict", "nothing"])  # fmt: skip
def test_what_a_model_returns_may_be_something_else(returns):
    """Where it is no logits of every token, the place of line 11 counts alone, and that is said."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: returns(forward(ids))

    report = conform(theirs, ref, tokens=X, table=table)

    assert report.status == 0, report
    assert [note.status for note in report.notes if note.kind == "output"] == ["not seen"]


@pytest.mark.parametrize("returns", [lambda y: y, lambda y: {"logits": y}, lambda y: (y, None)],
                         ids=["logits", "dict", "several"])  # fmt: skip
@pytest.mark.parametrize("places", [{}, {"10.11": ":out"}], ids=["no place", ":out"])
def test_what_a_model_returns_is_its_last_place(returns, places):
    """A table without places compares line 11 of what the model returns, as does its place, :out."""
    theirs, _, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: returns(forward(ids))

    report = conform(theirs, ref, tokens=X, table={"places": places}, decoding=False)

    assert [row.line for row in report.rows if row.status == "agrees"] == ["10.11"]


@pytest.mark.parametrize(("wrong", "status"), [(0.0, "agrees"), (0.1, "differs")])
def test_a_model_that_returns_its_last_token(wrong, status):
    """Where the logits are those of the last token, it alone is compared, with or without other lines."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: forward(ids)[:, [-1]] * (1 + wrong)
    places = {path: place for path, place in table.places.items() if path != "10.11"}

    for some in (places, {}):
        report = conform(theirs, ref, tokens=X, table={"places": some}, decoding=False)

        assert [note.status for note in report.notes if note.kind == "output"] == [status]
        assert report.status == (status == "differs")
        assert not report.faults

"""What a model returns: line 11, beside a place of it or without one, as logits unless it is said to be others."""

import numpy as np
import pytest
import torch
from scipy.special import log_softmax, softmax

from conform.ordinary import GPT, build
from transformulary.conform import conform
from transformulary.conform.candidates.functions import Functions
from transformulary.conform.candidates.places import make_table
from transformulary.errors import CandidateError

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


@pytest.mark.parametrize("returns", [lambda y: y, lambda y: y.float(), lambda y: (y, None), lambda y: {"logits": y}],
                         ids=["logits", "float32", "several", "dict"])  # fmt: skip
def test_whatever_a_model_returns_of_its_logits(returns):
    """Beside a place of line 11 the same among others, or in another precision, is no difference."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: returns(forward(ids))

    report = conform(theirs, ref, tokens=X, table=table, decoding=False)

    assert report.status == 0, report
    assert not [note for note in report.notes if note.kind == "output"]


@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("output", ["probabilities", "log-probabilities"])
@pytest.mark.parametrize("place", ["head:out", ":out", None])
def test_what_a_model_returns_for_logits(place, output, kind):
    """Probabilities, or their logarithms, for logits are said, whatever a place shows, unless a table says so."""
    theirs, _, ref = build(GPT)
    forward, softmax = theirs.forward, {"probabilities": torch.softmax, "log-probabilities": torch.log_softmax}[output]
    theirs.forward = lambda ids: softmax(forward(ids), -1).to(getattr(torch, kind))
    places = {"10.11": place} if place else {}

    silent = conform(theirs, ref, tokens=X, table={"places": places}, decoding=False)
    said = conform(theirs, ref, tokens=X, table={"places": {"10.11": ":out"}, "output": output}, decoding=False)

    assert silent.status == 1
    assert silent.answer[0].startswith(f"Output: the model returns {output}, and not logits: if they are meant, write")
    assert said.status == 0


@pytest.mark.parametrize("kind", ["float32", "bfloat16"])
@pytest.mark.parametrize("place", [":out", None])
def test_what_a_float64_model_returns_in_lower_precision(place, kind):
    """Logits that are cast at the end are off by that rounding; of the lines before it nothing is allowed for it."""
    theirs, table, ref = build(GPT)
    forward, factor = theirs.forward, 1
    theirs.forward = lambda ids: (factor * forward(ids)).to(getattr(torch, kind))
    places = table.places | {"10.11": place} if place else {"10.3": table.places["10.3"]}

    right = conform(theirs, ref, tokens=X, table={"places": places}, decoding=False)
    factor = 2
    wrong = conform(theirs, ref, tokens=X, table={"places": places}, decoding=False)

    assert right.status == 0, right
    assert bool(right.invisible) == any("Leave every value in float64" in said for said in right.answer)
    assert [row.allowed for row in right.rows if row.line == "10.3"] == [1e-12]
    assert [fault.says for fault in wrong.faults] == [
        "the logits are divided by 0.5 (a temperature) (the number as far as this precision shows it)"
    ]


@pytest.mark.parametrize("kind", ["int64", "bool", "float8_e4m3fn"])
def test_what_is_no_float_that_we_know(kind):
    """Integers, and floats whose rounding we do not know, are refused; beside a place of line 11 that is said."""
    theirs, table, ref = build(GPT)
    forward = theirs.forward
    theirs.forward = lambda ids: forward(ids).to(getattr(torch, kind))
    says = f"is {kind}, and must be one of float64, float32, bfloat16, float16."

    with pytest.raises(CandidateError, match=f"^what the model returns {says}$"):
        conform(theirs, ref, tokens=X, table={"places": {}})
    if kind != "float8_e4m3fn":
        with pytest.raises(CandidateError, match=f" {says}$"):
            conform({"unembedding": lambda X, weights: np.ones((len(X), 37), kind)}, "paper", tokens=X)
    beside = conform(theirs, ref, tokens=X, table=table, decoding=False)

    assert beside.status == 0
    assert [note.says.endswith(says) for note in beside.notes if note.kind == "output"] == [True]


@pytest.mark.parametrize("output", ["probabilities", "log-probabilities"])
def test_what_a_function_returns_for_logits(output):
    """A function that returns probabilities, or their logarithms, is told how to say so, and then they are right."""
    of = {"probabilities": softmax, "log-probabilities": log_softmax}[output]
    functions = {"unembedding": lambda X, weights: of(X @ weights.W_u.T + weights.b_u, -1)}

    silent, said = conform(functions, "paper"), conform(Functions(functions, output=output), "paper")

    meant = f'if they are meant, write OUTPUT = "{output}".'
    assert silent.answer[0] == f"Output: unembedding returns {output}, and not logits: {meant}"
    assert (silent.status, said.status) == (1, 0)


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

"""Float32, bfloat16 and float16: what rounding does is no fault, and what it hides is found or said."""

from dataclasses import replace
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from conform.ordinary import GPT, build
from conform.test_each_function import CASES, EXACT, right, values
from conform.test_each_function import X as READ
from transformulary.conform.candidates.candidate import Candidate
from transformulary.conform.candidates.functions import Functions
from transformulary.conform.compared import at_most, error_of
from transformulary.conform.mistakes import BY_KEY
from transformulary.conform.reference import PRESETS, Reference, random_model, reference
from transformulary.conform.run import conform
from transformulary.conform.search import tried
from transformulary.conform.theta import theta_of
from transformulary.oracle import record
from transformulary.oracle.precision import rounded
from transformulary.oracle.values import numbers

X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
LOW = [torch.float32, torch.bfloat16, torch.float16]


def stored(ref, precision, x=X):
    """Every value of a run in float64, as it is stored in a lower precision."""
    run = record("DTransformer", x, ref.theta, ref.config)
    return {
        path: np.asarray(rounded(numbers(value), precision), float) for path, value in run.items() if path != "10.1"
    }


def cancelling():
    """A GPT-2 whose embeddings nearly sum to 0, as those of trained models do."""
    model = random_model(PRESETS["gpt2"])
    with torch.no_grad():
        for table in (model.W_e.weight, model.W_p.weight):
            table -= table.mean(-1, keepdim=True) - 1e-4
    return Reference("gpt2", model.config, theta_of(model), model=model)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("x", [X, [5], [9, 30]], ids=len)
def test_what_was_stored_in_less_is_no_fault(precision, x):
    """Each value of a run in float64, stored in less: a mean that cancels is off by more than its own rounding."""
    ref = cancelling()

    report = conform(stored(ref, precision, x), ref, tokens=x, precision=precision)

    assert report.status == 0, report


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_single_columns(precision):
    """A column, and the last line, of which most was not seen: they agree, and what they hide is said."""
    ref = reference("gpt2")
    values = stored(ref, precision)

    report = conform({path: values[path] for path in ("10.2[t=1]", "10.11")}, ref, tokens=X, precision=precision)

    assert report.status == 0
    assert any("masked scores become" in hidden for hidden in report.invisible)


def test_a_single_column_is_explained_with_what_is_since():
    """In float64 too, a mistake before a column is sought in it."""
    ref = reference("gpt2")
    values = {path: numbers(value) for path, value in record("DTransformer", X, ref.theta, ref.config).items()}

    report = conform({"10.5[l=1,t=2]": 2 * values["10.5[l=1,t=2]"]}, ref, tokens=X)

    assert [fault.line for fault in report.faults] == ["Algorithm 10, line 5"]


@pytest.mark.parametrize("path", ["10.11:logits", "10.11"])
def test_what_the_last_line_hides_is_said_whatever_is_shown_of_it(path):
    """Logits hide what probabilities do."""
    ref = reference("gpt2")

    report = conform({path: stored(ref, "bfloat16")[path]}, ref, tokens=X, precision="bfloat16")

    assert report.status == 0
    assert BY_KEY["act-GELU"].says in report.invisible


def test_values_inside_the_lines_hide_no_less():
    """Where everything inside the lines was seen too, what the lines hide is said."""
    ref = reference("gpt2")
    values = stored(ref, "bfloat16")
    lines = {path: value for path, value in values.items() if "/" not in path and ":" not in path}

    hidden = [conform(seen, ref, tokens=X, precision="bfloat16").invisible for seen in (values, lines)]

    assert BY_KEY["act-GELU"].says in hidden[0]
    assert len(hidden[0]) == len(hidden[1])


SOME = CASES[::16]


@pytest.mark.parametrize(("preset", "name", "mistake"), SOME, ids=lambda case: getattr(case, "key", case))
def test_a_mistake_of_a_function_is_found_or_listed(preset, name, mistake):
    """What a function makes with a mistake, in bfloat16, is named, or stands among what cannot be told."""
    compute, due = values(preset, name)
    wrong = {path: tried(replay, {mistake: 0}) for path, replay in compute.items()}
    if not any(value is not None and error_of(due[path], value) > EXACT for path, value in wrong.items()):
        return
    seen = {path: np.asarray(rounded(value, "bfloat16"), float) for path, value in wrong.items()}

    report = conform(Candidate(name, seen, "bfloat16", own=True), right(preset), tokens=READ.x)

    found = [says for fault in report.faults for says in (fault.says, *fault.others)]
    assert any(says.startswith(mistake.says) for says in (*found, *report.invisible))
    assert len(report.faults) <= 1


def functions(dtype, **written):
    def make(numbers):
        given = torch.from_numpy(numbers)
        return given.to(dtype) if given.dtype.is_floating_point else given

    return Functions(written, make=make)


def normed(X, gamma, beta):
    return F.layer_norm(X, (X.shape[-1],), gamma, beta, 1e-5)


def gelu_tanh(X):
    return F.gelu(X, approximate="tanh")


def mlp(X, weights, act=gelu_tanh):
    return F.linear(act(F.linear(X, weights.W_mlp1, weights.b_mlp1)), weights.W_mlp2, weights.b_mlp2)


def quick(X):
    return X * torch.sigmoid(1.702 * X)


@pytest.mark.parametrize("dtype", LOW)
def test_right_functions_in_low_precision(dtype):
    """They agree; what they read is the oracle's, whose rounding before them is not theirs."""
    report = conform(functions(dtype, layer_norm=normed, mlp=mlp), "gpt2", tokens=X)

    assert report.status == 0, report
    assert max(row.allowed for row in report.rows if row.line == "10.5") < 20 * torch.finfo(dtype).eps


def test_functions_in_bfloat16_that_are_wrong():
    """A mistake that no value shows is found in all of them; the exact form of GELU is listed."""
    report = conform(functions(torch.bfloat16, mlp=partial(mlp, act=quick)), "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == ["act-quick_gelu"]
    assert "hidden in the rounding" in report.faults[0].says
    assert report.invisible == (BY_KEY["act-GELU"].says,)


def test_what_no_mistake_explains_and_all_numbers_together_show():
    """A norm in bfloat16 that is too large by 3 in 100: no number shows it, and each of its lines is a fault."""
    report = conform(functions(torch.bfloat16, layer_norm=lambda *given: 1.03 * normed(*given)), "gpt2", tokens=X)

    assert {row.status for row in report.rows if row.compared} == {"agrees"}
    assert [(fault.key, fault.line) for fault in report.faults] == [
        ("", f"Algorithm 10, line {label}") for label in (5, 7, 10)
    ]
    assert "times what rounding makes of all its numbers together" in report.faults[0].says
    assert report.agreement is None


@pytest.mark.parametrize("dtype", LOW)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_right_models_in_low_precision_leave_no_more_than_rounding(dtype, seed):
    """All numbers of a line together differ by what rounding makes."""
    model, table, ref = build(replace(GPT), seed, dtype=dtype)

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert report.status == 0, report


@pytest.mark.parametrize(("allowed", "says"), [(1e-12, "1e-12"), (6.6e-2, "6e-02"), (9.9e-8, "9e-08"), (np.inf, "inf")])
def test_what_is_allowed_is_said_in_one_digit_and_no_higher(allowed, says):
    """So that no error is said to be above what is allowed, and is below the number that is said."""
    assert at_most(allowed) == says


def test_a_hidden_fault_fails_in_junit():
    """Where every row agrees and a fault hides in rounding, JUnit's XML has a failure too."""
    model, table, ref = build(replace(GPT, faults={"sample-variance": 0}), dtype=torch.bfloat16)

    report = conform(model, ref, tokens=X, table=table, decoding=False)
    suite = ElementTree.fromstring(report.junit())

    assert (report.status, {row.status for row in report.rows if row.compared}) == (1, {"agrees"})
    assert suite.get("failures") == "1"
    (failure,) = suite.iter("failure")
    assert failure.get("message") == report.faults[0].says


def test_what_agrees_is_not_above_what_is_said_to_be_allowed():
    """One digit is rounded up where a line agrees, and down where it differs."""
    assert (at_most(4.4e-2, agrees=True), at_most(4.9e-2), at_most(1e-12, agrees=True)) == ("5e-02", "4e-02", "1e-12")

"""A mistake is named only if numbers show it: what changes but rounding, or gives no number, is never named."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from conform.ordinary import GPT, build
from conform.test_candidates import softmax
from transformulary.conform import Candidate, conform
from transformulary.conform.compared import error_of
from transformulary.conform.mistakes import BY_KEY
from transformulary.conform.projection import Projection, Suspicion
from transformulary.conform.reference import reference
from transformulary.conform.search import NUMBERS, Search
from transformulary.oracle import record

X = [3, 1, 4, 1, 5, 9, 2, 6]
TWELVE = [*X, 5, 3, 5, 8]


def test_a_value_of_many_numbers():
    """Two mistakes are found in more numbers than are looked at, beside one that gives no numbers."""
    ours = np.zeros((NUMBERS // 2 + 1, 3))
    changes = {"no-mask": np.eye(*ours.shape), "no-b_o": np.ones(ours.shape), "no-W_o": np.nan}
    mistakes = [BY_KEY[key] for key in changes]

    found = Search(
        lambda on: sum((changes[m.key] for m in on), ours), error_of, ours, ours + changes["no-mask"] + 1, 1e-12,
        [[((m, 0),) for m in mistakes]],
    ).explanation()  # fmt: skip

    assert {mistake.key for mistake, _ in found.mistakes} == {"no-mask", "no-b_o"}


@pytest.mark.parametrize("strange", [np.nan, np.inf])
def test_no_numbers_are_no_evidence(strange):
    """Logits none of which is a number are described; no mistake that gives no number is named."""
    report = conform({"model": lambda tokens, weights: np.full((len(tokens), 37), strange)}, "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == [""]
    assert "296 of 296 numbers are not finite" in report.answer[0]


@pytest.mark.parametrize(
    "change", [lambda P: P * 1e300, lambda P: P + 1e308, lambda P: np.where(P == P.max(), np.inf, P)]
)
def test_numbers_too_large_to_be_squared(change):
    """They are reported, and nothing is warned of."""
    ref = reference("gpt2")
    values = record("DTransformer", X, ref.theta, ref.config)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = conform({path: change(values[path]) for path in ("10.8[l=1]", "10.11:logits")}, ref, tokens=X)

    assert report.status == 1


def masked_by(number):
    def mha(Y, Z, weights, mask):
        w = vars(weights)
        Q, K, V = (Y @ w[f"W_{q}"].T + w[f"b_{q}"] for q in "qkv")
        heads = [
            softmax(np.where(mask, q @ k.T / np.sqrt(q.shape[-1]), number)) @ v
            for q, k, v in zip(*(np.split(each, weights.H, -1) for each in (Q, K, V)), strict=True)
        ]
        return np.concatenate(heads, -1) @ weights.W_o.T + weights.b_o

    return {"mha": mha}


@pytest.mark.parametrize("number", [28, 29])
def test_a_mistake_that_only_moves_rounding_is_not_named(number):
    """A constant that shows just above rounding is found; b_k, which no softmax notices, is not blamed."""
    report = conform(masked_by(-number), "gpt2")

    assert [(fault.key, fault.others) for fault in report.faults] == [(f"mask-finite-{number}", ())]
    assert report.agreement < 1e-12


def test_numbers_that_a_precision_does_not_have():
    """Where the oracle overflows in float16, nothing can be told from rounding, and a right value is not blamed."""
    ref = reference("gpt2")
    ref.theta.W_mlp1[1] *= 1e3
    ref.theta.W_mlp2[1] *= 1e3
    values = record("DTransformer", X, ref.theta, ref.config)

    report = conform(Candidate("right", {"10.8[l=2]": values["10.8[l=2]"]}, "float16"), ref, tokens=X)

    assert (report.faults, [row.status for row in report.rows if row.compared]) == ((), ["not seen"])


def test_masked_scores_that_are_a_number():
    """Scores of a run whose mask is a large number: the masked ones are said to differ, and nothing is warned of."""
    ref, path = reference("gpt2"), "10.6[l=1]/5.2[h=1]/4.5"
    scores = record("DTransformer", X, ref.theta, ref.config)[path]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = conform({path: np.where(np.isinf(scores), -1e9, scores)}, ref, tokens=X)

    assert "28 of 28 masked numbers are -1e+09, not minus infinity" in report.answer[0]


def test_no_mistake_changes_a_shape(monkeypatch):
    """A value of another shape is described at once: nothing is searched."""
    monkeypatch.setattr(Search, "explanation", lambda self: pytest.fail("searched"))

    report = conform({"model": lambda tokens, weights: np.zeros((len(tokens), 3))}, "gpt2", tokens=X)

    assert "it has 3 numbers for each of 8 tokens, and should have 37 for each of 8" in report.answer[0]


@pytest.mark.parametrize(
    ("coefficient", "deviation", "found"),
    [
        (1.0, 0.05, True),
        (0.9, 0.02, True),
        (1.26, 0.19, False),  # as near to 2 as to 1, give or take two deviations
        (1.2, 0.02, False),  # five deviations from 1 and more: another number explains as much
        (1.0, 0.26, False),
    ],
)
def test_what_hides_in_rounding_is_all_there(coefficient, deviation, found):
    """A hidden mistake is named only if its coefficient is 1 as far as can be seen, and neither 0 nor 2."""
    assert found == Suspicion(BY_KEY["no-mask"], 1, coefficient, deviation, gain=100.0).found


@pytest.mark.parametrize("key", ["mask-inverted-nan", "mask-strict-nan"])
def test_what_is_no_number_is_not_told_apart(key):
    """Logits none of which is a number are what several mistakes give: no one is named, and all are said."""
    model, table, ref = build(replace(GPT, faults={key: 1}), places={"10.11": "head:out"})

    (fault,) = conform(model, ref, tokens=TWELVE, table=table, decoding=False).faults

    assert fault.key == ""
    assert "444 of 444 numbers are not finite, as with each of these known mistakes: " in fault.says
    assert all(BY_KEY[of].says in fault.says for of in ("mask-inverted-nan", "mask-strict-nan"))


def pursued(residual, others=(), more=()):
    """What is found in one value of 4 tokens, 50 numbers each, where a mistake would add 1 to every number."""
    projection, noise = Projection({}), np.random.default_rng(0).normal(size=(50, 4))
    changes = {(BY_KEY["no-b_o"], 1): np.ones((50, 4))}
    projection.pursue({1, 2}, "10.11", changes, residual, noise, others, lambda: more)
    return [suspicion.mistake.key for suspicion, _ in projection.hidden()]


def test_rounding_that_goes_together_is_no_mistake():
    """What every number differs by may be one rounding that all depend on: others like it show how that goes."""
    chance = np.random.default_rng(1)
    residual, alone = (1 + chance.normal(size=(50, 4)) for _ in range(2))
    together = [n + chance.normal(size=(50, 4)) for n in (1, -1, 2, -2)]
    apart = [chance.normal(size=(50, 4)) for _ in range(4)]

    assert ["no-b_o"] == pursued(residual) == pursued(alone, more=apart)
    assert [] == pursued(residual, more=together)


def test_what_hides_is_there_beside_every_explanation():
    """Where several mistakes explain what shows, another one is found only if each of them leaves it."""
    chance = np.random.default_rng(1)
    left, other, nothing = 1 + chance.normal(size=(50, 4)), 1 + chance.normal(size=(50, 4)), chance.normal(size=(50, 4))

    assert ["no-b_o"] == pursued(left, [other])
    assert [] == pursued(left, [other, nothing])
    assert [] == pursued(nothing, [left])


@pytest.mark.parametrize("both", [False, True])
def test_what_one_mistake_explains_is_not_said_of_another(both):
    """Two mistakes of different lines that change the same are one finding, as long as not both are there."""
    projection, chance = Projection({}), np.random.default_rng(2)
    ones, signs = np.ones((50, 4)), np.where(np.arange(50) < 25, 1.0, -1.0)[:, None] * np.ones(4)
    changes = {"no-b_o": ones, "no-b_v": np.array([1.2, 1.2, 0.8, 0.8]) * ones, "no-mask": signs}
    changes = {(BY_KEY[key], 0): change for key, change in changes.items()}
    for layer in (1, 2):
        there = ones + both * signs + chance.normal(size=(50, 4))
        projection.add(f"10.6[l={layer}]", changes, there, chance.normal(size=(50, 4)))

    found = {s.mistake.key: (s.layer, [other.mistake.key for other in alike]) for s, alike in projection.hidden()}

    assert found == {"no-b_o": (0, ["no-b_v"])} | ({"no-mask": (0, [])} if both else {})

"""The baselines that a trained model is shown beside."""

import math

import pytest

from transformulary.data.baselines import baselines


def test_by_hand():
    """Training text aab: unigram with one count more each (and one for the unseen), bigram mixed with it."""
    a, b = 3 / 6, 2 / 6
    after_a = {"a": (1 + 2 * a) / 4, "b": (1 + 2 * b) / 4}

    found = baselines(["aab"], ["ab"])

    assert found["uniform"] == pytest.approx(math.log(3))
    assert found["unigram"] == pytest.approx(-(math.log(a) + math.log(b)) / 2)
    assert found["bigram"] == pytest.approx(-(math.log(a) + math.log(after_a["b"])) / 2)


def test_every_model_is_a_distribution():
    """Summed over all next characters, seen and unseen alike, the probabilities are 1."""
    text = "the cat sat on the mat"
    alphabet = [*sorted(set(text)), "?"]

    for before in "tae ":
        costs = [2 * baselines([text], [before + c])["bigram"] for c in alphabet]
        first = baselines([text], [before])["bigram"]
        assert sum(math.exp(first - cost) for cost in costs) == pytest.approx(1)


def test_more_context_costs_less():
    """On repetitive text the bigram beats the unigram, and that the uniform model."""
    found = baselines(["abababac" * 20], ["abababac" * 5])

    assert found["bigram"] < found["unigram"] < found["uniform"]


def test_unseen_characters_cost_a_finite_amount():
    """A character that the training text never had has a probability."""
    assert math.isfinite(baselines(["aaa"], ["zzz"])["bigram"])


def test_nothing_held_out():
    """Without held-out text there is nothing to compare."""
    assert baselines(["abc"], []) == {}

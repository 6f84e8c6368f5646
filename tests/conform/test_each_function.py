"""Every known mistake of what a function computes is found, whatever the function is, and named once."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from transformulary.conform import conform
from transformulary.conform.allowance import EXACT
from transformulary.conform.candidates.candidate import Candidate
from transformulary.conform.candidates.functions import Functions, run_functions
from transformulary.conform.compared import error_of, is_line
from transformulary.conform.mistakes import MISTAKES
from transformulary.conform.reference import PRESETS, Reference, random_model
from transformulary.conform.replay import Replay
from transformulary.conform.search import tried
from transformulary.conform.theta import theta_of
from transformulary.oracle import record
from transformulary.oracle.lines import line_at
from transformulary.oracle.values import numbers
from transformulary.paper import Read

X = Read((3, 1, 4, 1, 5))
PLAIN = {
    "embedding": lambda tokens, w: w.W_e[tokens], "attention": lambda X, Z, w, mask: X @ w.W_v.T,
    "mha": lambda X, Z, w, mask: X, "mlp": lambda X, w: X, "unembedding": lambda X, w: X @ w.W_u.T,
}  # fmt: skip
#: Of the shape of the right result: what is called where does not depend on its numbers.
FUNCTIONS = {
    "gpt2": PLAIN | {"layer_norm": lambda X, gamma, beta: X, "activation": lambda X: X},
    "llama": PLAIN | {"rms_norm": lambda X, gamma: X, "rotate": lambda X: X},
}
#: The lines, or the algorithms, whose mistakes a function can make.
COMPUTES = {
    "embedding": {"10.2"}, "layer_norm": {"6", "10.5", "10.7", "10.10", "10.3a"}, "rms_norm": {"6r"},
    "attention": {"4", "4r"}, "mha": {"4", "4r", "5"}, "rotate": {"4r"}, "activation": {"10.8"}, "mlp": {"10.8"},
    "unembedding": {"10.11"},
}  # fmt: skip


def makes(name, mistake):
    """Whether a function can make a mistake."""
    return all({line, line.partition(".")[0]} & COMPUTES[name] for line in mistake.changes)


@cache
def right(preset):
    """The preset with one layer: a function computes the same in each."""
    model = random_model(replace(PRESETS[preset], L=1))
    return Reference(preset, model.config, theta_of(model), model=model)


@cache
def values(preset, name):
    """(path of a line with the function's result in it -> that line with some mistakes, the same without)."""
    ref = right(preset)
    (called,) = run_functions(Functions({name: FUNCTIONS[preset][name]}), ref.whole, X, name)
    every = {p: numbers(v) for p, v in record("DTransformer", list(X.x), ref.theta, ref.config).items()}
    lines = {p: v for p, v in every.items() if is_line(p) and line_at(p).name not in ("10.1", "10.2")}

    def replay(path):
        return Replay(path, {p: v for p, v in lines.items() if p != path}, X, ref.theta, ref.config, {})

    return {path: replay(path) for path in called.seen}, {path: every[path] for path in called.seen}


CASES = [
    (preset, name, mistake)
    for preset, functions in FUNCTIONS.items()
    for name in functions
    for mistake in MISTAKES
    if makes(name, mistake)
]


@pytest.mark.parametrize(("preset", "name", "mistake"), CASES, ids=lambda case: getattr(case, "key", case))
def test_a_mistake_of_a_function_is_named_once(preset, name, mistake):
    """A mistake in every result of a function is one fault of its name, or of one that says the same here.

    There is none where it makes no sense, or is what this model does.
    """
    compute, due = values(preset, name)
    wrong = {path: tried(replay, {mistake: 0}) for path, replay in compute.items()}
    differs = any(value is not None and error_of(due[path], value) > EXACT for path, value in wrong.items())
    wrong = wrong if differs else due

    report = conform(Candidate(name, wrong, own=True), right(preset), tokens=X.x)

    assert [True for f in report.faults if mistake.key == f.key or mistake.says in f.others] == [True] * differs
    assert len(report.faults) == differs
    assert report.agreement < EXACT


def turned(X, first=0):
    """The rotation of halves, of positions from `first`."""
    omega = 10000.0 ** (-np.arange(0, X.shape[1], 2) / X.shape[1])
    angle = np.outer(np.arange(len(X)) + first, omega)
    (cos, sin), (a, b) = (np.cos(angle), np.sin(angle)), np.split(X, 2, 1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], 1)


@pytest.mark.parametrize(
    ("rotate", "key"),
    [(lambda X: turned(X, 1), "rope-from-1"), (lambda X: turned(X, 3), "rope-from-3"), (lambda X: X, "rope-missing")],
)
def test_a_mistake_of_queries_and_keys_alike_is_one(rotate, key):
    """What is wrong in both is not named as if it were wrong in one, though each alone would look so."""
    report = conform({"rotate": rotate}, right("llama"), tokens=X.x)

    assert [fault.key for fault in report.faults] == [key]
    assert {path.rpartition(".")[2] for path in report.faults[0].paths} == {"3a", "3b"}


def test_positions_too_high_beside_another_mistake():
    """That both are turned too far is named beside neighbours that are turned together, and nothing else is."""

    def rotate(X):
        a_above_b = turned(np.concatenate([X[:, ::2], X[:, 1::2]], 1), 1)
        return np.stack(np.split(a_above_b, 2, 1), -1).reshape(X.shape)

    report = conform({"rotate": rotate}, right("llama"), tokens=X.x)

    assert {fault.key for fault in report.faults} == {"rope-from-1", "rope-neighbours"}
    assert len(report.faults) == 2

"""Candidates of every kind: a PyTorch model with a table, functions, values; what is not right is said."""

import os
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch

from transformulary.conform import Functions, conform
from transformulary.conform.reference import PRESETS
from transformulary.conform.tokens import ELL, ELL_Z
from transformulary.errors import CandidateError, UserError

X = [3, 1, 4, 1, 5, 9, 2, 6]


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(X, Z, weights, mask, scale=0.5):
    Q, K, V = X @ weights.W_q.T + weights.b_q, Z @ weights.W_k.T + weights.b_k, Z @ weights.W_v.T + weights.b_v
    return softmax(np.where(mask, Q @ K.T * Q.shape[-1] ** -scale, -np.inf)) @ V


def layer_norm(X, gamma, beta):
    return (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + 1e-5) * gamma + beta


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mlp(X, weights):
    return gelu(X @ weights.W_mlp1.T + weights.b_mlp1) @ weights.W_mlp2.T + weights.b_mlp2


def mha(X, Z, weights, mask):
    H = weights.H
    Q, K, V = (Y @ W.T + b for Y, W, b in (
        (X, weights.W_q, weights.b_q), (Z, weights.W_k, weights.b_k), (Z, weights.W_v, weights.b_v)))  # fmt: skip
    Q, K, V = (np.stack(np.split(Y, H, -1)) for Y in (Q, K, V))
    Y = softmax(np.where(mask, Q @ K.swapaxes(1, 2) / np.sqrt(Q.shape[-1]), -np.inf)) @ V
    return np.concatenate(list(Y), -1) @ weights.W_o.T + weights.b_o


def model(tokens, weights):
    X = weights.W_e[tokens] + weights.W_p[: len(tokens)]
    mask = np.tril(np.ones((len(tokens), len(tokens)), bool))
    for layer in weights.layers:
        Y = layer_norm(X, layer.gamma_1, layer.beta_1)
        X = X + mha(Y, Y, layer, mask)
        X = X + mlp(layer_norm(X, layer.gamma_2, layer.beta_2), layer)
    return layer_norm(X, weights.gamma, weights.beta) @ weights.W_u.T + weights.b_u


def rms_norm(X, gamma):
    return X / np.sqrt((X**2).mean(-1, keepdims=True) + 1e-6) * gamma


def rotate(X):
    half = X.shape[-1] // 2
    angle = np.arange(len(X))[:, None] * 10000.0 ** (-np.arange(half) / half)
    a, b = X[:, :half], X[:, half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)


def embedding(tokens, weights):
    return weights.W_e[tokens] + weights.W_p[: len(tokens)]


def unembedding(X, weights):
    return X @ weights.W_u.T


GOOD = {f.__name__: f for f in (attention, layer_norm, mha, mlp, model, embedding, unembedding)}


def test_right_functions_agree():
    """Functions that are right agree in every line that they compute, and so does a model made of them."""
    report = conform(GOOD, "gpt2", tokens=X)

    assert report.status == 0, report
    assert {row.line for row in report.rows if row.status == "agrees"} >= {
        "10.3",
        "10.5",
        "10.6",
        "10.6/5.2",
        "10.8",
        "10.11",
    }


def test_functions_of_a_llama():
    """RMSnorm and the rotation, function by function."""
    report = conform({"rms_norm": rms_norm, "rotate": rotate}, "llama", tokens=X)

    assert [row.line for row in report.rows if row.status == "agrees"] == [
        "10.5",
        "10.6/5.2/4.3a",
        "10.6/5.2/4.3b",
        "10.7",
        "10.10",
    ]
    assert report.faults == ()


@pytest.mark.parametrize("tokens", ["rows", "columns"])
@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_tokens_and_arrays_as_the_author_has_them(tokens, make):
    """Rows or columns, NumPy or PyTorch: the same function is judged alike."""

    def norm(e, gamma, beta):
        X = np.asarray(e) if tokens == "rows" else np.asarray(e).T
        Y = layer_norm(X, np.asarray(gamma), np.asarray(beta))
        return make(np.ascontiguousarray(Y if tokens == "rows" else Y.T))

    report = conform(Functions({"layer_norm": norm}, tokens, make), "gpt2", tokens=X)

    assert report.status == 0
    assert report.faults == ()


def test_a_function_may_work_in_place():
    """What a function does to its arguments and its parameters is its own affair: the oracle keeps its numbers."""

    def in_place(X, gamma, beta):
        X -= X.mean(-1, keepdims=True)
        X *= gamma / np.sqrt(X.var(-1, keepdims=True) + 1e-5)
        gamma[:] = 0
        return X + beta

    def scaled(X, Z, weights, mask):
        weights.W_q /= np.sqrt(len(weights.W_q))
        weights.b_q /= np.sqrt(len(weights.W_q))
        return attention(X, Z, weights, mask, scale=0)

    def popped(tokens, weights):
        result = model(tokens, weights)
        tokens.clear()
        return result

    report = conform({"layer_norm": in_place, "attention": scaled, "model": popped}, "gpt2", tokens=X)

    assert report.status == 0, report


def test_a_wrong_function_is_one_fault():
    """Its results are wrong in every layer and head, and it is named once; another function is not blamed."""
    wrong = {"attention": lambda *a: attention(*a, scale=1), "layer_norm": layer_norm}

    report = conform(wrong, "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == ["scale-no-root"]
    assert report.answer[0] == (
        "Algorithm 4, line 6, in line 6 of Algorithm 10, every layer: scores are divided by d_attn instead of its root."
    )
    assert {row.line: row.status for row in report.rows}["10.5"] == "agrees"
    assert {"6", "8", "11"} <= set(report.unseen)


class Unreadable:
    """An array, it says."""

    def __array__(self, *args, **named):
        raise KeyError("no")


class Silent(Exception):
    """An error that cannot say what it is."""

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize(("functions", "says"), [
    ({"atention": attention}, "atention"),
    ({"attention": lambda X: X}, r"attention\(X\) must be attention\(X, Z, weights, mask\): .*_candidates.py, line"),
    ({"attention": lambda *a: "no"}, "must be an array of numbers"),
    ({"attention": lambda *a: None}, "attention\\(X, Z, weights, mask\\) returned nothing"),
    ({"attention": lambda *a: (None, a[0])}, "is NoneType, and must be an array of numbers"),
    ({"rms_norm": rms_norm}, "has no line that rms_norm computes"),
    ({"layer_norm": lambda X, *_: X + 1j}, "is an array of complex128, and values are real numbers"),
    ({"layer_norm": lambda X, *_: torch.from_numpy(X + 1j)}, "is an array of complex128, and values are real"),
    ({"layer_norm": lambda X, *_: X.astype(str)}, "is an array of <U32, and values are real numbers"),
    ({"layer_norm": lambda X, *_: X.astype(object)}, "is an array of object, and values are real numbers"),
    ({"layer_norm": lambda X, *_: np.ma.masked_all_like(X)}, "is a masked array"),
    ({"layer_norm": lambda X, *_: torch.empty(X.shape, device="meta")}, "is a meta tensor"),
    ({"layer_norm": lambda X, *_: np.broadcast_to(X[0, 0], (2**30, 2**29))}, "is ndarray, .* read: .*MemoryError: "),
    ({"layer_norm": lambda *_: Unreadable()}, "is Unreadable, whose numbers cannot be read: KeyError: 'no'"),
    ({"layer_norm": lambda *_: (_ for _ in ()).throw(Silent)}, r"failed: Silent: its own text fails \(.*, line"),
    ({"layer_norm": lambda *_: os._exit(0)}, r"layer_norm\(X, gamma, beta\) called exit\(0\)"),
    ({"layer_norm": lambda *_: sys.exit(0)}, r"layer_norm\(X, gamma, beta\) called exit\(0\)"),
    ({"layer_norm": lambda *_: pytest.fail("no")}, r"layer_norm\(X, gamma, beta\) failed: Failed: no"),
    ({"layer_norm": lambda *_: (_ for _ in ()).throw(GeneratorExit)}, "failed: GeneratorExit"),
])  # fmt: skip
def test_functions_that_cannot_be_compared(functions, says):
    """A name that nobody knows, another signature, no array: one sentence each."""
    with pytest.raises(CandidateError, match=says):
        conform(functions if "atention" not in functions else Functions(functions), "gpt2", tokens=X)


MASKS = {
    "no-mask": lambda mask: mask | True,
    "mask-ahead": lambda mask: np.tri(*mask.shape, k=1) > 0,
    "mask-transposed": lambda mask: mask.T,
    "mask-inverted-nan": lambda mask: ~mask,
    "mask-strict": lambda mask: np.tri(*mask.shape, k=-1) + (np.indices(mask.shape).max(0) == 0) > 0,
}


def masked(mask, function=attention, **options):
    """The function, whatever its mask says, with that one."""
    return lambda X, Z, weights, given: function(X, Z, weights, mask(given), **options)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("key", MASKS)
def test_a_head_with_another_mask(key):
    """One head with a wrong mask is the same mistake as a model with one."""
    report = conform({"attention": masked(MASKS[key])}, "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == [key]
    assert not any(sentence.startswith("Masks") for sentence in report.answer)


def test_a_head_with_a_mask_of_its_own():
    """It agrees where its mask is the decoder's, and the answer says, if no fault does, that it takes no other."""
    report = conform({"attention": masked(lambda mask: np.tri(*mask.shape) > 0)}, "gpt2", tokens=X)

    assert report.status == 0
    assert report.answer[1] == "Masks: attention does not keep to its mask."


def test_a_head_with_another_mask_and_another_scale():
    """Both are named."""
    report = conform({"attention": masked(MASKS["mask-ahead"], scale=1)}, "gpt2", tokens=X)

    assert {fault.key for fault in report.faults} == {"mask-ahead", "scale-no-root"}


def test_wrong_heads_beside_a_right_head():
    """A wrong `mha` is explained, whatever `attention` beside it does."""
    report = conform({"attention": attention, "mha": masked(MASKS["mask-ahead"], mha)}, "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == ["mask-ahead"]


def test_no_number_and_no_known_mistake():
    """Values of which none is a number, and that nothing explains, are described."""
    report = conform({"attention": lambda *a: np.nan * attention(*a)}, "gpt2", tokens=X)

    assert "no known mistake explains it" in report.answer[0]


def post_norm(tokens, weights):
    X, mask = embedding(tokens, weights), np.tril(np.ones((len(tokens), len(tokens)), bool))
    for layer in weights.layers:
        X = layer_norm(X + mha(X, X, layer, mask), layer.gamma_1, layer.beta_1)
        X = layer_norm(X + mlp(X, layer), layer.gamma_2, layer.beta_2)
    return X @ weights.W_u.T


def test_a_model_of_another_order_beside_functions():
    """Of a file with functions and a post-norm model, both faults are named; what is left is left by both."""
    report = conform({"attention": lambda *a: attention(*a, scale=1), "model": post_norm}, "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == ["scale-no-root", "post-norm"]
    assert report.agreement < 1e-14


def test_a_file_without_such_a_function(tmp_path):
    """A file whose functions have other names: they are named, and those that can be compared."""
    file = tmp_path / "mine.py"
    file.write_text("def layernorm(X, gamma, beta):\n    return X\n")

    with pytest.raises(CandidateError, match=r"mine.py has layernorm; what can be compared is .*layer_norm\(X, gamma"):
        conform(file, "gpt2")


@pytest.mark.parametrize(("code", "says"), [
    ("import sys\nsys.exit(0)", r"mine.py called exit\(0\)\.$"),
    ("def load():\n    pass", r"load\(\) must be load\(folder\): .*mine.py, line 1\)\.$"),
    ("from sys import exit\ndef load(folder):\n    exit()", r"load\(folder\) called exit\(\)\.$"),
    ("OUTPUT = 'probability'\ndef model(x, w):\n    pass", "'probability'; it is 'logits' or 'probabilities' or 'log-"),
    ("from torch import nn\nPLACES = [1]\nload = lambda _: nn.Identity()", r"places = \[1\] is no table"),
    ("def f(:", r"mine.py failed: SyntaxError: invalid syntax \(mine.py, line 1\)$"),
])  # fmt: skip
def test_a_file_that_gives_nothing_to_compare(tmp_path, code, says):
    """A file that ends the program, says a word that nobody knows, or is no Python: one sentence each."""
    file = tmp_path / "mine.py"
    file.write_text(code)

    with pytest.raises(CandidateError, match=says):
        conform(file, "gpt2")


def test_no_name():
    """The empty name is not the current folder."""
    with pytest.raises(CandidateError, match=r"there is no ''\. A candidate is"):
        conform("", "gpt2")


def test_what_a_candidate_prints_is_not_the_report(tmp_path, capsys):
    """What a file prints while it is imported and called goes to stderr."""
    file = tmp_path / "mine.py"
    file.write_text("print('imported')\ndef layer_norm(X, gamma, beta):\n    print('called')\n    return X\n")

    conform(file, "gpt2")

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[:2] == ["imported", "called"]


@pytest.mark.parametrize("config", PRESETS.values(), ids=PRESETS)
def test_no_size_is_the_number_of_tokens(config):
    """A sum over the wrong axis is an error of shapes: no size of the tiny models is a usual number of tokens."""
    sizes = {getattr(config, f.name) for f in fields(config) if f.type == "int"}

    assert sizes.isdisjoint({ELL, ELL_Z})
    assert ELL != ELL_Z


@pytest.mark.parametrize("tokens", ["rows", "columns"])
def test_another_shape(tokens):
    """A result of another shape is described in words that hold for tokens as rows and as columns."""

    def cut(X, gamma, beta):
        return X[:5, :3] if tokens == "rows" else X[:3, :5]

    report = conform(Functions({"layer_norm": cut}, tokens), "gpt2", tokens=X)

    assert "it has 3 numbers for each of 5 tokens, and should have 12 for each of 8." in report.answer[0]
    assert "another shape, allowed" in str(report)


def test_nan_is_a_difference():
    """A function that returns no numbers disagrees; it is never passed over."""
    report = conform({"layer_norm": lambda X, g, b: X * np.nan}, "gpt2", tokens=X)

    assert report.status == 1
    assert "not finite" in report.answer[0]
    assert "not a number, allowed" in str(report)


@pytest.mark.parametrize(("named", "says"), [
    ({"candidate": None}, "None is none. A candidate is a Python file"),
    ({"candidate": 3}, "3 is none. A candidate is a Python file"),
    ({"against": None}, "a NoneType is no model to compare with"),
    ({"table": 3}, "table is 3; it is a Table, or a mapping with places, lower, tokens, output"),
    ({"table": {"10.3": "norm_x:in"}}, "table has 10.3; a table has places, lower, tokens, output"),
    ({"tokens": "0,1,2"}, "tokens = '0,1,2' must be ids from 0, whole numbers"),
    ({"tokens": [0.9, 1.2]}, r"tokens = \[0.9, 1.2\] must be ids"),
    ({"tokens": 3}, "tokens = 3 must be ids"),
    ({"tokens": [1], "text": "a"}, "tokens and text were both given"),
])  # fmt: skip
def test_arguments_that_say_nothing(named, says):
    """What is no candidate, model, table or list of ids is named in one line."""
    with pytest.raises(UserError, match=says):
        conform(**{"candidate": "ours", "against": "gpt2"} | named)


def test_a_table_as_its_file_has_it():
    """The places of a table may be given as a mapping with its keys."""
    report = conform("ours", "gpt2", table={"places": {"10.3": "norm_x:in"}}, tokens=X, decoding=False)

    assert [row.line for row in report.rows if row.status == "agrees"] == ["10.3", "10.11"]

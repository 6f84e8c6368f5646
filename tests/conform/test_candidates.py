"""Candidates of every kind: a PyTorch model with a table, functions, values; what is not right is said."""

import copy
import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import huggingface as hf
from conform.ordinary import GPT, build
from transformulary.conform import Candidate, Functions, Reference, conform
from transformulary.conform.candidates.places import make_table, read_table
from transformulary.conform.candidates.propose import propose
from transformulary.conform.reference import PRESETS, reference
from transformulary.conform.run import ELL
from transformulary.errors import CandidateError
from transformulary.oracle import watched

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


@pytest.mark.parametrize(("functions", "says"), [
    ({"atention": attention}, "atention"),
    ({"attention": lambda X: X}, "attention\\(X, Z, weights, mask\\) failed: TypeError"),
    ({"attention": lambda *a: "no"}, "must be an array of numbers"),
    ({"attention": lambda *a: None}, "attention\\(X, Z, weights, mask\\) returned nothing"),
    ({"attention": lambda *a: (None, a[0])}, "is NoneType, and must be an array of numbers"),
    ({"rms_norm": rms_norm}, "has no line that rms_norm computes"),
    ({"layer_norm": lambda X, *_: X + 1j}, "is an array of complex128, and values are real numbers"),
    ({"layer_norm": lambda X, *_: torch.from_numpy(X + 1j)}, "is an array of complex128, and values are real"),
    ({"layer_norm": lambda X, *_: X.astype(str)}, "is an array of <U32, and values are real numbers"),
    ({"layer_norm": lambda X, *_: X.astype(object)}, "is an array of object, and values are real numbers"),
    ({"layer_norm": lambda X, *_: np.ma.masked_all_like(X)}, "is a masked array"),
    ({"layer_norm": lambda *_: sys.exit(0)}, r"layer_norm\(X, gamma, beta\) called sys.exit\(0\)"),
])  # fmt: skip
def test_functions_that_cannot_be_compared(functions, says):
    """A name that nobody knows, another signature, no array: one sentence each."""
    with pytest.raises(CandidateError, match=says):
        conform(functions if "atention" not in functions else Functions(functions), "gpt2", tokens=X)


def test_a_function_that_ignores_its_mask():
    """One head without a mask is the same mistake as a model without one."""
    report = conform({"attention": lambda X, Z, weights, mask: attention(X, Z, weights, mask | True)}, "gpt2", tokens=X)

    assert [fault.key for fault in report.faults] == ["no-mask"]


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
    ("import sys\nsys.exit(0)", r"mine.py called sys.exit\(0\)\.$"),
    ("from sys import exit\ndef load(folder):\n    exit()", r"load\(folder\) called sys.exit\(\)\.$"),
    ("OUTPUT = 'probability'\ndef model(x, w):\n    pass", "OUTPUT = 'probability'; it is 'logits' or 'probabilities'"),
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
    """A sum over the wrong axis is an error of shapes: no size of the tiny models is the usual number of tokens."""
    sizes = (config.N_V, config.ell_max, config.L, config.H, config.d_e, config.d_attn, config.d_mlp)

    assert ELL not in sizes


@pytest.mark.parametrize("tokens", ["rows", "columns"])
def test_another_shape(tokens):
    """A result of another shape is described in words that hold for tokens as rows and as columns."""

    def cut(X, gamma, beta):
        return X[:5, :3] if tokens == "rows" else X[:3, :5]

    report = conform(Functions({"layer_norm": cut}, tokens), "gpt2", tokens=X)

    assert "it has 3 numbers for each of 5 tokens, and should have 12 for each of 8." in report.answer[0]


def test_nan_is_a_difference():
    """A function that returns no numbers disagrees; it is never passed over."""
    report = conform({"layer_norm": lambda X, g, b: X * np.nan}, "gpt2", tokens=X)

    assert report.status == 1
    assert "not finite" in report.answer[0]


@pytest.mark.parametrize("make", [hf.gpt2, hf.gpt_neo, hf.llama], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["eager", "sdpa"])
def test_no_false_alarm_on_transformers(make, kind):
    """GPT-2, GPT-Neo and Llama of `transformers` agree, eager and sdpa, cached, padded and in a batch."""
    theirs, config, theta = make() if make is not hf.llama else make(exact=False)
    theirs.set_attn_implementation(kind if make is not hf.gpt_neo else "eager")

    report = conform(theirs, Reference(make.__name__, config, theta), tokens=X)

    assert report.status == 0, report
    assert report.faults == ()


def test_ours_agrees():
    """Our own fast model agrees, and with its cache."""
    report = conform("ours", "gpt2")

    assert report.status == 0
    assert [n.says.partition(":")[0] for n in report.notes if n.status == "agrees"][1:] == [
        "with a cache",
        "in a batch",
        "with a cache in a batch",
    ]


def test_values_are_enough():
    """Values by path, from wherever they come."""
    ref = reference("gpt2")

    report = conform({"10.11": np.full((37, 2), 1 / 37)}, ref, tokens=[1, 2])

    assert report.status == 1
    assert "no known mistake explains it" in report.answer[0]
    assert "the fault may be in lines 3, 5, 6, 7, 8, 10 as well, which were not seen" in report.answer[0]


def test_a_table_of_ones_own(tmp_path):
    """A table from TOML; unknown keys and places are errors that name them."""
    theirs, table, ref = build(GPT)
    file = tmp_path / "places.toml"
    file.write_text("[places]\n" + "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in table.places.items()))

    report = conform(theirs, ref, tokens=X, table=read_table(file))

    assert report.status == 0
    for content, says in (
        ({"place": {}}, "has place"),
        ({"places": {"10.3": "no side"}}, "is no place"),
        ({}, "no place"),
    ):
        with pytest.raises(CandidateError, match=says):
            make_table(content, "table")
    with pytest.raises(CandidateError, match="no such module"):
        conform(theirs, ref, tokens=X, table=make_table({"places": {"10.3": "here:in"}}, "table"))
    with pytest.raises(CandidateError, match=r"10.55\[l=1\] is no value of this run. Nearest: 10.5\[l=1\]"):
        conform(theirs, ref, tokens=X, table=make_table({"places": {"10.55[l]": "blocks.{l}:in"}}, "table"))


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


def test_a_place_that_runs_twice_or_never():
    """A loop that runs one block twice is told by its places; one that is never called is not seen, and named."""
    twice, table, ref = build(GPT)
    twice.blocks[0].forward, once = (lambda x: once(once(x))), twice.blocks[0].forward
    inner = make_table({"places": {"10.7[l]": "blocks.{l}.ln_2:out"}}, "table")
    twice.blocks[1].forward = lambda x: x
    with pytest.raises(CandidateError, match=r"^blocks.0.ln_2 ran 2 times, blocks.1.ln_2 not at all: a place shows"):
        conform(twice, ref, tokens=X, table=inner)

    unused, table, ref = build(GPT)
    unused.spare = torch.nn.Identity()
    report = conform(unused, ref, tokens=X, table=replace(table, places={**table.places, "10.3": "spare:out"}))

    assert report.status == 0
    assert [note.says for note in report.notes if note.kind == "places"] == ["never called: spare"]
    assert {row.line: row.status for row in report.rows}["10.3"] == "not seen"


def test_a_model_may_work_in_place():
    """What is seen at a place is kept as it was there, whatever the model does to it later."""

    class InPlace(torch.nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, x):
            return x.copy_(self.block(x))

    theirs, table, ref = build(GPT)
    theirs.blocks = torch.nn.ModuleList(map(InPlace, theirs.blocks))
    places = {path: place.replace("{l}", "{l}.block").replace("blocks.0", "blocks.0.block")
              for path, place in table.places.items()}  # fmt: skip

    report = conform(theirs, ref, tokens=X, table=replace(table, places=places), decoding=False)

    assert report.status == 0, report


def test_a_place_may_be_a_function():
    """What no side of a module shows, a function of its inputs and output gives."""
    theirs, table, ref = build(GPT)
    places = {"10.8[l]": ("blocks.{l}.mlp", lambda given, out: given[0] * 0 + out)}
    seen = {**table.places, "10.7[l]": ("blocks.{l}.mlp", lambda given, out: given[0])}

    report = conform(theirs, ref, tokens=X, table=make_table({"places": seen}, "table"), decoding=False)

    assert report.status == 0
    assert callable(places["10.8[l]"][1])


def test_a_model_that_nobody_has_described():
    """Without a table the error says how to draft one; the draft finds every line, mistake or not."""
    theirs, table, ref = build(GPT)
    with pytest.raises(CandidateError, match="--propose"):
        conform(theirs, ref, tokens=X)

    draft = propose(theirs, ref)

    for path, place in table.places.items():
        assert f'"{path}" = "{place}"' in draft


@pytest.mark.parametrize("faults", [{"no-scale": 1}, {"no-scale": 0}, {"no-scale": 2}, {"no-norm-5": 1},
                                    {"no-norm-7": 2}, {"rms-for-layer-norm": 0, "no-mask": 2}, {"act-ReLU": 3},
                                    {"no-residual-8": 2}, {"heads-reversed": 1}], ids=str)  # fmt: skip
def test_the_draft_of_a_model_that_is_wrong(faults):
    """A real mistake, in whichever layer, hides no place; the draft says where values are not the oracle's."""
    theirs, table, ref = build(replace(GPT, faults=faults))

    draft = propose(theirs, ref)

    for path, place in table.places.items():
        assert f'"{path}" = "{place}"' in draft
    assert "no value near" not in draft


def test_a_draft_says_how_near_each_layer_is():
    """Where one layer is off, the line's comment gives every layer's distance, the ones before it as rounding."""
    theirs, _, ref = build(replace(GPT, faults={"no-norm-7": 2}))

    (line,) = (line for line in propose(theirs, ref).splitlines() if line.startswith('"10.7[l]"'))

    assert re.search(r"# differs from the oracle's, by \de-1\d, \de[-+]0\d, \de[-+]0\d layer by layer$", line)


def test_weights_are_named():
    """A transposed square matrix, a missing bias, a swapped head: what became of which tensor."""
    theirs, table, ref = build(GPT)
    broken = copy.deepcopy(theirs)
    broken.blocks[0].attn.o.weight.data = broken.blocks[0].attn.o.weight.data.T.contiguous()

    report = conform(broken, ref, tokens=X, table=table, decoding=False)

    assert [(n.status, n.says) for n in report.notes if n.status != "agrees"] == [("note", "W_o[1]: transposed")]
    assert [fault.key for fault in report.faults] == ["W_o-transposed"]


def test_a_candidate_of_its_own():
    """Whoever has the values builds the Candidate; its token ids are compared first."""
    report = conform(Candidate("mine", {}, x=(1, 2, 3)), "gpt2", tokens=[1, 2, 4])

    assert report.status == 1
    assert report.answer[0] == "Tokens: 3 ids, and 3 are right; the first difference is token 3: 3, and 4 is right."


def test_values_within_attention():
    """Masked scores, minus infinity in both, agree; a wrong weight of attention is described where no mistake fits."""
    ref, seen = reference("gpt2"), {}

    def keep(path, value):
        if re.search(r"/4\.([1-6]|6:softmax)$", path):
            seen[path] = np.array(value)
        return value

    watched(keep).DTransformer(X, ref.theta, ref.config)
    right = conform(seen, ref, tokens=X)
    for path in ("10.6[l=2]/5.2[h=2]/4.6:softmax", "10.6[l=2]/5.2[h=2]/4.6"):
        seen[path] *= 1.001
    wrong = conform(seen, ref, tokens=X)

    assert np.isinf(seen["10.6[l=1]/5.2[h=1]/4.5"]).any()
    assert right.status == 0, right
    assert [(fault.key, fault.paths) for fault in wrong.faults] == [("", ("10.6[l=2]/5.2[h=2]/4.6:softmax",))]

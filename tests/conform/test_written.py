"""Functions of encoders and encoder-decoders: each is called wherever the oracle runs its algorithm."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conform import written
from conform.written import BERT, T5, TRANSFORMER, gelu, gelu_tanh, mha, mlp_with, norm
from documents.test_blocks import ROOT
from transformulary.conform import Functions, Reference, conform
from transformulary.conform.candidates.functions import WHOLE, signatures
from transformulary.conform.reference import PRESETS
from transformulary.errors import CandidateError
from transformulary.oracle.whole import theta_with
from transformulary.paper import EDTransformerConfig

BERTS = PRESETS["bert"]
#: What each model executes but for lines 1 and 2, which are seen with what is made of them.
LINES = {
    "bert": ["9.3", "9.3a", "9.5", "9.5/5.2", "9.6", "9.7", "9.8", "9.10", "9.11", "9.12"],
    "transformer": ["8.3", "8.5", "8.5/5.2", "8.6", "8.7", "8.8", "8.12", "8.14", "8.14/5.2", "8.15", "8.16",
                    "8.16/5.2", "8.17", "8.18", "8.19", "8.21"],
    "t5": ["8a.3", "8a.5", "8a.6", "8a.7", "8a.8", "8a.10", "8a.13", "8a.15", "8a.16", "8a.17", "8a.18", "8a.19",
           "8a.20", "8a.22", "8a.23"],
}  # fmt: skip
RIGHT = {"bert": BERT, "transformer": TRANSFORMER, "t5": T5}


def rows_of(report, status="agrees"):
    return [row.line for row in report.rows if row.status == status]


def of_random(config, gives):
    """A model with random parameters that gives classes, or vectors."""
    rng = np.random.default_rng(0)
    sizes = {"N_C": 5, "H*d_mid": config.H * config.d_mid}

    def array(name, shape):
        dims = [int(s) if s.isdigit() else sizes.get(s) or getattr(config, s) for s in shape.split()]
        return 0.3 * rng.normal(size=dims) + name.startswith("gamma")

    return Reference(gives, config, theta_with(config, array, gives))


def in_columns(make):
    """Some of somebody who has tokens as columns, and arrays of `make`."""

    def attention(X, Z, w, mask):
        X, Z, mask = map(np.asarray, (X, Z, mask))
        Q, K, V = (np.asarray(W) @ Y + np.asarray(b)[:, None] for W, Y, b in (
            (w.W_q, X, w.b_q), (w.W_k, Z, w.b_k), (w.W_v, Z, w.b_v)))  # fmt: skip
        return make(V @ written.softmax(np.where(mask, K.T @ Q / np.sqrt(len(Q)), -np.inf).T).T)

    def embedding(tokens, weights):
        W_e = np.asarray(weights.W_e)
        return make(np.sqrt(len(W_e)) * W_e[:, tokens] + written.sinusoids(len(tokens), len(W_e)).T)

    def layer_norm(X, gamma, beta):
        return make(norm(1e-6)(np.asarray(X).T, np.asarray(gamma), np.asarray(beta)).T.copy())

    return {"attention": attention, "embedding": embedding, "layer_norm": layer_norm}


@pytest.mark.parametrize("name", RIGHT)
def test_right_functions_agree(name):
    """Every function agrees in every line that runs its algorithm, and so does a model made of them."""
    report = conform(RIGHT[name], name)

    assert report.status == 0, report
    assert rows_of(report) == LINES[name]


@pytest.mark.parametrize("make", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_tokens_as_columns(make):
    """Tokens may be columns, and arrays PyTorch's: masks, tables of the embedding and results are turned."""
    report = conform(Functions(in_columns(make), "columns", make), "transformer")

    assert report.status == 0, report
    assert {"8.3", "8.12", "8.5/5.2", "8.16/5.2", "8.17"} <= set(rows_of(report))


def test_float32():
    """What is computed in float32 is allowed what float32 loses."""

    def half(f):
        return lambda *args: torch.from_numpy(np.asarray(f(*args))).float()

    report = conform({name: half(TRANSFORMER[name]) for name in ("attention", "embedding", "mlp")}, "transformer")

    assert (report.status, report.precision) == (0, "float32"), report


def test_a_classifier():
    """Algorithm 9c is a function of what the layers give; a whole classifier may return a batch of one."""

    def whole(x, theta, s):
        return written.classification(written.encoded(x, theta, s), theta)[None]

    report = conform({"classification": written.classification, "model": whole}, of_random(BERTS, "classes"))

    assert (report.status, rows_of(report)) == (0, ["9c.2"]), report


def test_a_bare_encoder():
    """A model that gives vectors is compared by those of its last layer."""
    report = conform({"model": written.encoded}, of_random(BERTS, "vectors"))

    assert (report.status, rows_of(report)) == (0, ["9.8"]), report


def test_tables_that_the_context_has_of_its_own():
    """Where z has its own W_e, `embedding` gets it for z."""
    config = EDTransformerConfig(
        N_V=37, ell_max=24, L_enc=1, L_dec=1, H=2, d_e=12, d_mlp=20, eps=1e-6, separate=frozenset({"W_e", "W_p"}),
    )  # fmt: skip

    def embedding(tokens, weights):
        return weights.W_e[tokens] + weights.W_p[: len(tokens)]

    report = conform({"embedding": embedding}, of_random(config, "tokens"))

    assert (report.status, rows_of(report)) == (0, ["8.3", "8.12"]), report


def test_norms_of_queries_and_keys():
    """A norm within attention runs the same algorithm as one of a layer."""
    report = conform({"layer_norm": norm(1e-12)}, of_random(replace(BERTS, qk_norm=True), "tokens"))

    assert report.status == 0
    assert {"9.5/5.2/4.1a", "9.5/5.2/4.2a"} <= set(rows_of(report))


def without_embedding_norm(x, theta, s):
    plain = norm(1e-12)
    return written.ETransformer(x, theta, s, layer_norm=lambda X, g, b: X if g is theta.gamma_x else plain(X, g, b))


def masked(mask):
    return lambda X, Z, weights, given: mha(X, Z, weights, mask(given))


PLANTED = {
    "eps": ({"layer_norm": norm(1e-5)}, "bert", "eps-1e-05"),
    "gelu": ({"activation": gelu_tanh}, "bert", "act-GELU_tanh"),
    "gelu in the MLP": ({"mlp": mlp_with(gelu_tanh)}, "bert", "act-GELU_tanh"),
    "gelu beside a right MLP": ({"activation": gelu, "mlp": written.mlp}, "transformer", "act-GELU"),
    "segments": ({"embedding": lambda x, w, s: written.embedding(x, w, [0] * len(s))}, "bert", "segments-first"),
    "no segments": ({"embedding": lambda x, w, s: w.W_e[x] + w.W_p[: len(x)]}, "bert", "no-segments"),
    "positions": ({"embedding": lambda x, w, s: w.W_e[x] + w.W_s[s]}, "bert", "no-positions"),
    "embedding norm": ({"model": without_embedding_norm}, "bert", "no-norm-3a"),
    "embedding scale": ({"embedding": lambda t, w: w.W_e[t] + written.sinusoids(len(t), 12)}, "transformer",
                        "embedding-unscaled"),
    "causal in cross": ({"mha": lambda X, Z, w, m: mha(X, Z, w, np.tri(*m.shape) > 0)}, "transformer",
                        "causal-in-encoder"),
    "mask transposed": ({"mha": masked(np.transpose)}, "transformer", "mask-transposed"),
    "no mask": ({"mha": masked(lambda mask: True)}, "transformer", "no-mask"),
    "last token": ({"classification": lambda X, w: written.classification(X[::-1], w)}, None, "pooled-last"),
    "mean": ({"classification": lambda X, w: written.classification(X.mean(0, keepdims=True), w)}, None, "pooled-mean"),
    "no last scale": ({"unembedding": written.unembedding}, "t5", "no-last-scale"),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_named(name):
    """A mistake of one function, or of a whole model, is named first."""
    functions, against, key = PLANTED[name]

    report = conform(functions, against or of_random(BERTS, "classes"))

    assert report.faults[0].key == key, report


def test_pre_norm_for_post_norm():
    """A whole model with its norms elsewhere: the order of its lines is named."""
    little = of_random(replace(PRESETS["transformer"], L_enc=1, L_dec=1), "tokens")

    report = conform({"EDTransformer": written.pre_norm}, little, tokens=[1, 2, 3, 4, 5], context_tokens=[6, 7, 8])

    assert [fault.key for fault in report.faults] == ["pre-norm"], report


def masks(functions, against):
    return [n.says for n in conform(functions, against).notes if n.kind == "masks" and n.status == "differs"]


@pytest.mark.parametrize("against", ["bert", "transformer"])
def test_padding_that_is_seen(against):
    """In an encoder every token sees all, so that only padding shows whether attention reads its mask."""
    says = masks({"mha": masked(lambda mask: True)}, against)

    assert says[0].startswith("mha sees padding")


def test_padding_that_cross_attention_sees():
    """The source's padding is asked about by itself."""
    ignoring = {"mha": lambda X, Z, w, mask: mha(X, Z, w, mask if len(X) == len(Z) else True)}

    (says,) = masks(ignoring, "transformer")

    assert says.startswith("mha from one sequence to another sees padding")


@pytest.mark.parametrize("against", ["bert", "transformer"])
def test_a_mask_that_is_taken_transposed(against):
    """An encoder shows it by its padding, cross-attention by the shape: it is said, and the values are judged."""
    report = conform({"mha": masked(np.transpose)}, against)

    said = [n.says for n in report.notes if n.status == "differs"]
    assert said == ["mha takes its mask transposed: it is mask[query, key], true where a token may attend"]
    assert {"9.5", "8.16"} & set(rows_of(report))


@pytest.mark.parametrize(("functions", "against", "says"), [
    ({"EDTransformer": written.EDTransformer}, "bert", "Algorithm 9, has no line that EDTransformer computes"),
    ({"projection": written.projection}, "transformer", "no line that projection computes"),
    ({"classification": written.classification}, "bert", "no line that classification computes"),
    ({"embedding": lambda tokens, weights: 0}, "bert",
     r"embedding\(tokens, weights\) must be embedding\(tokens, weights, segments\): .*line"),
    ({"model": lambda tokens, weights: 0}, "marian",
     r"model\(tokens, weights\) must be model\(context, tokens, weights\): .*line"),
    ({"mha": lambda X, Z, w, mask: w.W_r}, "t5", r"mha\(X, Z, weights, mask\) failed: AttributeError: .*W_r.*line"),
    ({"mha": lambda X, Z, w, mask: mha(X, Z, w, mask[:, :3])}, "bert", r"mask\) failed: ValueError: .*broadcast.*line"),
    ({"EDTransformer": lambda z, x, theta: None}, "marian", r"\(context, tokens, weights\) returned nothing"),
    ({"activation": lambda X: "no"}, "bert", "must be an array of numbers"),
])  # fmt: skip
def test_functions_that_cannot_be_compared(functions, against, says):
    """An algorithm that the model does not run, another signature, an exception inside: one line each."""
    with pytest.raises(CandidateError, match=says) as caught:
        conform(functions, against)

    assert "\n" not in str(caught.value)


def test_a_function_that_is_not_called():
    """Beside functions that are compared, one of another model is named."""
    others = {"rms_norm": written.rms_norm, "DTransformer": lambda x: x}

    report = conform(BERT | others, "bert")

    assert report.status == 0
    assert [n.says for n in report.notes if n.kind == "functions"] == [
        f"not called: this model has no line that {name} computes" for name in others
    ]


@pytest.mark.parametrize("make", [np.asarray, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", ["layer_norm", "mha", "mlp", "activation", "embedding"])
def test_another_shape(name, make):
    """A result of another shape is a difference of its line, not an exception."""
    report = conform({name: lambda *args: make(TRANSFORMER[name](*args)[:2, :3])}, "transformer")

    assert report.status == 1
    assert "it has 3 numbers for each of 2 tokens" in report.answer[0]


def test_the_table_of_functions():
    """The page on conform says of every function what it gets, in each kind of model."""
    page = (ROOT / "docs" / "conform.md").read_text(encoding="utf-8")
    kinds = (PRESETS[name] for name in ("gpt2", "bert", "transformer"))
    usual = {text for c in kinds for name, text in signatures(c).items() if name not in WHOLE}

    assert [text for text in usual if f"`{text}`" not in page] == []
    assert [name for name in WHOLE if f"`{name}" not in page] == []

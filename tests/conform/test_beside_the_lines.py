"""What is compared beside the lines: token ids, weights, decoding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import huggingface as hf
from transformulary.conform.candidates.decoding import check_decoding
from transformulary.conform.notes import Note
from transformulary.conform.reference import PRESETS, Reference, reference
from transformulary.conform.run import conform
from transformulary.conform.tokens import compare_ids
from transformulary.conform.weights import compare_weights, initialisation, reference_tensors, weight_notes
from transformulary.oracle import random_theta

X = [3, 1, 4, 1, 5, 9, 2, 6]


class Letters:
    """A tokenizer of small letters and the space: a = 1, ..., space = 27; 0 begins, 28 ends."""

    N_V, bos_token, eos_token = 29, 0, 28

    def encode(self, text):
        return [27 if c == " " else ord(c) - 96 for c in text]

    def decode(self, ids):
        return "".join(" " if v == 27 else chr(96 + v) for v in ids)


@pytest.mark.parametrize(("theirs", "ours", "says"), [
    ([1, 2], [1, 2], ""),
    ([1, 2], [0, 1, 2], "bos_token (0) is missing at the beginning"),
    ([0, 1, 2], [1, 2], "bos_token (0) stands first, and this model wants none"),
    ([0, 0, 1, 2], [0, 1, 2], "bos_token (0) stands twice, and this model wants one"),
    ([1, 2, 28], [1, 2], "eos_token (28) is appended, and this model's input ends without it"),
    ([27, 1, 2], [1, 2], "a space is put before the text"),
    ([4, 5], [1, 2], "every id is 3 too high: another vocabulary, or special tokens put first"),
    ([1, 99], [1, 2], "id 99 is not in the vocabulary of N_V = 29: another vocabulary"),
    ([1, 3], [1, 2], "2 ids, and 2 are right; the first difference is token 2: 3, and 2 ('b') is right"),
    ([1], [1, 2], "1 ids, and 2 are right; the first difference is token 2: nothing, and 2 ('b') is right"),
])  # fmt: skip
def test_token_ids(theirs, ours, says):
    """What differs in two lists of ids, in one sentence."""
    assert compare_ids(theirs, ours, Letters(), "ab") == says


def weights(name="gpt2"):
    """(the reference, its tensors by names that say nothing, the number of each)"""
    ref = reference(name)
    tensors = dict(reference_tensors(ref.theta, ref.config))
    return (
        ref,
        {f"t{k}": value.copy() for k, value in enumerate(tensors.values())},
        {n: f"t{k}" for k, n in enumerate(tensors)},
    )


def odd(ref, theirs):
    """{our name: what became of it} of the parameters that are not plainly there."""
    return {m.name: (m.how, m.status) for m in compare_weights(theirs, ref.theta, ref.config) if m.how != "equal"}


@pytest.mark.parametrize("name", PRESETS)
def test_weights_are_found_whatever_they_are_called(name):
    """Every parameter is recognised by its numbers."""
    ref, theirs, _ = weights(name)

    assert odd(ref, theirs) == {}


def heads(value, n):
    return value.reshape(n, -1, *value.shape[1:])


@pytest.mark.parametrize(("our", "change", "how", "status"), [
    ("W_q[1]", lambda W: W.T, "transposed", "arranged"),
    ("W_q[1]", lambda W: heads(W, 2)[::-1].reshape(W.shape), "its heads are in reverse order", "arranged"),
    ("W_k[2]", lambda W: heads(W, 2).swapaxes(0, 1).reshape(W.shape), "its heads are interleaved", "arranged"),
    ("W_q[1]", lambda W: W.reshape(2, 2, 3, 12).swapaxes(1, 2).reshape(W.shape),
     "rows are in the order for a rotation of neighbours (interleaved RoPE)", "arranged"),
    ("W_mlp1[1]", lambda W: W.T, "transposed", "agrees"),
    ("W_mlp1[1]", lambda W: W[::-1], "the same numbers in an order that nobody knows", "differs"),
    ("W_mlp1[1]", lambda W: W.astype(np.float16).astype(float), "equal, rounded to float16", "agrees"),
    ("W_mlp1[1]", lambda W: W * 1.001, "it differs, by 1.0e-03 of its size", "differs"),
    ("W_mlp1[1]", lambda W: 0.02 * np.random.default_rng(0).normal(size=W.shape),
     "it is still as initialised: normal numbers of deviation 0.02", "differs"),
    ("W_mlp2[2]", lambda W: np.zeros(3), "it is not among their tensors", "not seen"),
])  # fmt: skip
def test_what_became_of_a_tensor(our, change, how, status):
    """Its arrangement, its precision, or that it is another."""
    ref, theirs, number = weights()
    theirs[number[our]] = change(theirs[number[our]])
    if our.startswith("W_mlp1") and how.startswith("it is still"):
        del theirs[number["W_mlp1[2]"]]

    found = odd(ref, theirs)

    assert found[our] == (how, status)


def test_one_matrix_for_q_k_and_v():
    """Q, K and V as one tensor, in whatever order."""
    ref, theirs, number = weights()
    parts = [theirs.pop(number[f"W_{q}[1]"]) for q in "qkv"]
    theirs["joint"] = np.concatenate([parts[1], parts[0], parts[2]])

    assert odd(ref, theirs) == {"W_qkv[1]": ("its blocks are in the order K, Q, V", "arranged")}


def said(ref, theirs, **options):
    """What the notes say of weights, but for how many are the same: {sentence: status}."""
    found = weight_notes(compare_weights(theirs, ref.theta, ref.config, **options))
    return {n.says: n.status for n in found if "tensors are the same" not in n.says}


def test_an_unembedding_that_should_be_tied():
    """A second matrix of W_e's shape with other numbers differs, and the count shows it; W_e itself again does not."""
    ref, theirs, number = weights()
    W_e, total = theirs[number["W_e"]], len(number)

    again = said(ref, {**theirs, "head": W_e.T})
    other = {**theirs, "head": W_e + 1}

    assert again == {}
    assert said(ref, other) == {"head is not W_e, and this model ties them": "differs"}
    assert (
        weight_notes(compare_weights(other, ref.theta, ref.config))[0].says
        == f"{total} of {total + 1} tensors are the same"
    )


@pytest.mark.parametrize(("strays", "says"), [
    ({"head.bias": 1.0}, "head.bias is none of this model's parameters"),
    ({"head.bias": 0.0}, "head.bias is none of this model's parameters; it is all 0: as a bias it changes nothing"),
    ({"a": 1.0, "b": 2.0}, "a, b are none of this model's parameters"),
    ({"a": 0.0, "b": 0.0}, "a, b are none of this model's parameters; they are all 0: as biases they change nothing"),
])  # fmt: skip
def test_tensors_that_are_none_of_ours(strays, says):
    """They are named, and whether they can matter."""
    ref, theirs, _ = weights()

    assert said(ref, theirs | {name: np.full(7, number) for name, number in strays.items()}) == {says: "note"}


def test_a_module_under_two_names():
    """A parameter that is listed twice is none that is too many."""
    ref, theirs, number = weights()

    assert said(ref, {**theirs, "again": theirs[number["W_mlp1[1]"]]}) == {}


def test_positions_lie_like_no_matrix_of_a_layer():
    """Where linear layers are transposed, a square W_p that is not is no remark; a square W_q is."""
    ref = reference("gpt2")
    config = replace(ref.config, ell_max=ref.config.d_e)
    theta = random_theta(config, np.random.default_rng(0))
    theirs = {
        name: value.T if "[" in name and "W_o[1]" != name else value for name, value in reference_tensors(theta, config)
    }

    assert said(Reference("square", config, theta), theirs) == {
        "W_o[1]: it is not transposed, and other matrices are": "note"
    }


def test_what_is_not_among_their_tensors_is_not_seen():
    """It is said of all of them together, and nothing differs."""
    ref, theirs, number = weights()
    for name in ("W_mlp1[1]", "W_mlp1[2]", "W_mlp2[1]", "W_mlp2[2]"):
        del theirs[number[name]]

    assert said(ref, theirs) == {
        "W_mlp1[1], W_mlp1[2], W_mlp2[1], W_mlp2[2]: they are not among their tensors": "not seen"
    }


def test_q_k_and_v_as_one_that_differs():
    """A joint matrix with other numbers is found to differ: its parts are not merely missing."""
    ref, theirs, number = weights()
    joint = np.concatenate([theirs.pop(number[f"W_{q}[1]"]) for q in "qkv"])

    assert said(ref, {**theirs, "joint": joint * 1.01}) == {"W_qkv[1]: it differs, by 1.0e-02 of its size": "differs"}


def test_buffers_may_be_weights():
    """A parameter held in a buffer is found; a buffer that is none, such as a mask, is not remarked on."""
    ref, theirs, number = weights()
    buffers = {"held": theirs.pop(number["W_mlp1[1]"]), "mask": np.ones((12, 12)), "inv_freq": np.ones(3)}

    assert said(ref, theirs, buffers=buffers) == {}


@pytest.mark.parametrize("hold", [nn.Module.register_buffer, setattr])
def test_a_model_without_parameters(hold):
    """Weights that are buffers or plain tensors are compared."""
    model, config, theta = hf.gpt2()
    for module in model.modules():
        for name, parameter in [*module.named_parameters(recurse=False)]:
            delattr(module, name)
            hold(module, name, parameter.data)

    report = conform(model, Reference("gpt2", config, theta), decoding=False)

    weights = [(note.status, note.says) for note in report.notes]
    assert (report.status, weights) == (0, [("agrees", "28 of 28 tensors are the same")])


def test_a_weight_that_nobody_can_see():
    """A right model whose class computes a weight has no tensor for it; every line agrees, and so does the report."""
    model, config, theta = hf.gpt2()
    layer = model.transformer.h[0].mlp.c_fc
    W = layer.weight.data
    del layer.weight
    layer.__class__ = type("Computed", (type(layer),), {"weight": property(lambda _: W)})

    report = conform(model, Reference("gpt2", config, theta), decoding=False)

    assert report.status == 0
    assert Note("weights", "not seen", "W_mlp1[1]: it is not among their tensors") in report.notes


def test_initialisations():
    """What an untrained tensor looks like."""
    linear = nn.Linear(64, 64).weight.detach().double().numpy()

    assert initialisation(linear) == "uniform numbers between -1 and 1 over the root of its width"
    assert initialisation(np.ones(4)) == "all 1"
    assert initialisation(np.random.default_rng(1).normal(size=(64, 64)) * 0.3) == ""


def notes(model, ref, decode=None, x=X):
    return {n.says.partition(":")[0].partition(",")[0]: n for n in check_decoding(model, ref, x, "float64", decode)}


def test_decoding_of_a_right_model():
    """With a cache, in a batch and padded: the same logits."""
    model, config, theta = hf.gpt2()

    assert {n.status for n in notes(model, Reference("gpt2", config, theta)).values()} == {"agrees"}


def test_a_batch_that_leaks():
    """Statistics over the batch change the logits of a sequence beside others."""

    ref = reference("gpt2")

    class Leaky(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = ref.model

        def forward(self, x):
            y = self.inner(x)
            return y - y.mean(0, keepdim=True)

    assert notes(Leaky(), ref)["in a batch"].status == "differs"


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_weights_in_half_precision(precision):
    """Weights that PyTorch made of float64, rounding twice, are the same weights; so are those with one huge number."""
    ref, theirs, number = weights()
    huge = next(m for m in ref.theta.W_mlp1)
    huge[0, 0] = 100.1
    theirs[number["W_mlp1[1]"]] = huge.copy()
    near = np.nextafter(1 + 2.0 ** -(8 if precision == "bfloat16" else 11), 2)  # half a step, and a little more
    ref.theta.gamma[0] = theirs[number["gamma"]][0] = near
    kind = getattr(torch, precision)
    theirs = {n: torch.tensor(v).to(kind).double().numpy() for n, v in theirs.items()}

    assert {how for how, _ in odd(ref, theirs).values()} == {f"equal, rounded to {precision}"}

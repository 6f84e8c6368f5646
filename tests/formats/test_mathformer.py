"""Published checkpoints in Llama's format (1,480 parameters each) compute what they were trained to compute."""

import hashlib
import json

import numpy as np
import pytest
import torch
import transformers

import needs
from formats.theirs import exact
from transformulary import oracle
from transformulary.formats import open_source, theta_source
from transformulary.models import load, save
from transformulary.paper import number_of_parameters

SUMS = {
    "addformer": ("+", lambda a, b: str(a + b)),
    "subformer": ("-", lambda a, b: str(a - b) if a >= b else None),
    "mulformer": ("*", lambda a, b: str(a * b)),
    "divformer": ("/", lambda a, b: f"Q{a // b}R{a % b}" if b else None),
}
FILES = {
    "addformer": "5dc07a38ca3913d9907d291d64e2bbe94cc54bd4b66c6c52477feaf708eb243f",
    "subformer": "c3de2101ddfe0d9a522544f9ef49e483a758b05361f26bda57ed115e5133d1eb",
    "mulformer": "1bd8ed57140063006bea9b0fcc3f5823745d9c5d927323d9c60cf8885ecd58f2",
    "divformer": "50903f0645efb7816874782592859e500bd06c6bcaa4fd6ab54f7907d43e50c4",
}


def folder(name):
    """The checkpoint's folder, its file being the one that these tests were written for."""
    found = needs.package("mathformer") / name
    assert FILES[name] == hashlib.sha256((found / "model.safetensors").read_bytes()).hexdigest()
    return found


@pytest.mark.parametrize("name", FILES)
def test_equal_to_transformers(name):
    """`transformers`, the fast model and the oracle compute the same from the same file, in float64."""
    path = folder(name)
    theirs = exact(transformers.LlamaForCausalLM.from_pretrained(path, dtype=torch.float64).eval())
    fast, (c, array) = load(path).model.double(), theta_source(open_source(path))
    x = torch.tensor([[11, 14, 9, 18, 5, 6]])

    with torch.no_grad():
        ours = fast(x)
        torch.testing.assert_close(ours, theirs(x).logits, rtol=1e-12, atol=1e-13)
    P = oracle.DTransformer(x[0].tolist(), oracle.theta_from(c, array), c)
    np.testing.assert_allclose(P, ours[0].softmax(-1).T, rtol=0, atol=1e-13)
    assert number_of_parameters(c) == 1480


@pytest.mark.parametrize("name", SUMS)
def test_computes(name):
    """Every sum, difference, product and quotient with remainder of two digits is right, in its package's spelling."""
    path = folder(name)
    sign, compute = SUMS[name]
    fast, ids = load(path).model, json.loads((path / "vocab.json").read_text())
    right = {f"{a}{sign}{b}=": compute(a, b) for a in range(10) for b in range(10) if compute(a, b)}

    answers = {question: answer(fast, ids, question) for question in right}

    assert right == answers


def answer(fast, ids, question):
    text = {i: token for token, i in ids.items()}
    x = [ids[character] for character in question]
    while text[x[-1]] != "</s>" and len(x) < 12:
        with torch.no_grad():
            x.append(int(fast(torch.tensor([x]))[0, -1].argmax()))
    return "".join(text[i] for i in x[len(question) : -1])


@pytest.mark.parametrize("name", FILES)
def test_saved_again(tmp_path, name):
    """Saved again, it holds the same bytes of numbers under the same names."""
    source = open_source(folder(name))
    save(tmp_path, load(folder(name)).model)

    again = open_source(tmp_path)

    assert source.shapes == again.shapes
    assert all(source.array(name).tobytes() == again.array(name).tobytes() for name in source.tensors)

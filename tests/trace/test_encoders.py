"""Traces of encoders and encoder-decoders, beside what `transformers` computes at the modules that the index names."""

import json
import re

import numpy as np
import pytest
import torch
import transformers

import huggingface
from formats.test_encoders import MODELS, s, x, z
from huggingface import hooks, randomise
from transformulary import cli, oracle
from transformulary.formats import describe, theta_stored
from transformulary.oracle.whole import theta_with
from transformulary.paper import Read, TwoStacks
from transformulary.tokens import Tokenizer
from transformulary.trace import trace

LAYER = {"4.1", "4.2", "4.3", "4.6:softmax", "4.6", "5.3", "5.4"}
NINE = LAYER | {"9.3", "9.3a", "9.5", "9.6", "9.7:GELU", "9.7", "9.8"}
EIGHT = LAYER | {f"8.{n}" for n in (3, 5, 6, 7, "7:SiLU", 8, 12, 14, 15, 16, 17, 18, "18:SiLU", 19, "21:logits")}
PRE = LAYER | {f"8a.{n}" for n in (3, 5, 6, 7, 8, 10, 13, 15, 16, 17, 18, 19, 20, 22)}
PLAIN = {f"8a.{n}" for n in ("8:W_mlp1", "8:ReLU", "8:W_mlp2", "20:W_mlp3", "20:ReLU", "20:W_mlp4")}
GATED = {f"8a.{n}" for n in ("8:W_mlp1", "8:W_mlp5", "8:GELU_tanh", "8:W_mlp2")}
GATED |= {f"8a.{n}" for n in ("20:W_mlp3", "20:W_mlp6", "20:GELU_tanh", "20:W_mlp4")}
BARE = {
    "bare bart": lambda: randomise(transformers.BartModel(MODELS["bart"][0]().config)),
    "bare t5": lambda: randomise(transformers.T5Model(MODELS["t5"][0]().config)),
    "bare gpt2": lambda: randomise(transformers.GPT2Model(huggingface.gpt2()[0].config)),
}
NAMED = {
    "masked": NINE | {"9.10", "9.11", "9.12:logits"},
    "classes": NINE | {"9c.1", "9c.2:logits"},
    "marian": EIGHT,
    "t5": PRE | PLAIN | {"8a.23:logits"},
    "vectors": NINE,
    "bare bart": EIGHT - {"8.21:logits", "8.7:SiLU", "8.18:SiLU"} | {"8.3a", "8.12a", "8.7:ReLU", "8.18:ReLU"},
    "bare t5": PRE | PLAIN,
    "bare gpt2": LAYER | {f"10.{n}" for n in ("3", "5", "6", "7", "8:GELU_tanh", "8", "10")},
    "t5 1.1": PRE | GATED | {"8a.23:logits"},
}


@pytest.mark.parametrize("name", NAMED)
def test_the_names_of_transformers(tmp_path, name):
    """Every name of `transformers` is of a module that it has; its hook sees the value, turned as the index says."""
    model, seen = (BARE.get(name) or MODELS[name][0])(), {}
    model.set_attn_implementation("eager")
    model.save_pretrained(tmp_path / "model")
    described = describe(tmp_path / "model")
    two, segmented = isinstance(described.config, TwoStacks), getattr(described.config, "segments", 0)
    theirs = {"input_ids": z, "decoder_input_ids": x} if two else {"input_ids": x}
    theirs |= {"token_type_ids": s} if segmented else {}
    given = Read(tuple(x[0].tolist()), tuple(z[0].tolist()) * two, tuple(s[0].tolist()) if segmented else ())

    with hooks(model, seen), torch.no_grad():
        model(**theirs)
    theta = theta_with(described.config, theta_stored(described), described.gives)
    about = {"model_type": described.format.model_type, "architecture": type(model).__name__}
    index = trace(theta, described.config, given, tmp_path / "out", about=about)

    compared = set()
    with np.load(tmp_path / "out" / "values.npz") as file:
        values = dict(file)
    for value in index["values"]:
        for named in value["names"]:
            if named["program"] == "transformers":
                found = eval(f"a{named['ours']}", {"a": seen[named["name"]]})
                np.testing.assert_allclose(values[value["path"]], found, rtol=0, atol=1e-5, err_msg=value["path"])
                compared.add(re.sub(r"\[[^]]*\]", "", value["path"]).rpartition("/")[2])
    assert compared - {"9.5:MHAttention", "5.2"} == NAMED[name]


@pytest.fixture
def encoder(tmp_path):
    """The folder of a masked BERT with a vocabulary of its own."""
    MODELS["masked"][0]().save_pretrained(tmp_path / "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "apple", "pie"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return tmp_path / "bert"


def index_of(folder, *options):
    """The index of a trace by the command line."""
    out = folder.parent / "out"
    assert cli.main(["trace", str(folder), "--out", str(out), *options]) == 0
    return json.loads((out / "index.json").read_text(encoding="utf-8")), out


def test_a_text_of_an_encoder(encoder):
    """It has the special tokens around it that the model was trained with, and is one segment."""
    index, _ = index_of(encoder, "--text", "apple pie")

    tokens = Tokenizer.load(encoder).framed("apple pie")
    assert index["tokens"] == tokens.ids == [2, 5, 6, 3]
    assert index["segments"] == [0, 0, 0, 0]


def test_segments(encoder):
    """They are what line 2a adds."""
    index, out = index_of(encoder, "--tokens", "2,5,3,6,3", "--segments", "0,0,0,1,1", "--at", "9.2a[t=*]:W_s")

    assert index["segments"] == [0, 0, 0, 1, 1]
    described = describe(encoder)
    W_s = oracle.theta_from(described.config, theta_stored(described)).W_s
    with np.load(out / "values.npz") as file:
        np.testing.assert_array_equal(file["9.2a[t=3]:W_s"], W_s[:, 0])
        np.testing.assert_array_equal(file["9.2a[t=4]:W_s"], W_s[:, 1])


def test_a_context(tmp_path, capsys):
    """An encoder-decoder reads a context, then the tokens that are given, or the one that it begins with."""
    MODELS["t5"][0]().save_pretrained(tmp_path / "t5")

    index, _ = index_of(tmp_path / "t5", "--context-tokens", "2,7,1")

    assert (index["context"], index["tokens"]) == ([2, 7, 1], [0])
    assert "values of 3 tokens and 1 token in 1 file" in capsys.readouterr().out
    shapes = {value["path"]: value["shape"] for value in index["values"]}
    assert (shapes["8a.3"], shapes["8a.13"]) == ([16, 3], [16, 1])
    assert shapes["8a.18[l=3]/5.2[h=1]/4.4"] == [3, 1]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("t5", ["--tokens", "1"], "reads a context first: give --context, or --context-tokens"),
        ("t5", ["--context", "a"], "has no tokenizer, which --context needs"),
        ("t5", ["--context-tokens", "1", "--segments", "0"], "has no segments, and some were given"),
        ("t5", ["--context-tokens", "1", "--at", "8a.6[l=3]"], "l = 3 is outside 1 to 2"),
        ("masked", ["--tokens", "1", "--context-tokens", "1"], "reads one sequence, and a context was given"),
        ("masked", ["--tokens", "1,2", "--segments", "0"], "1 segments were given for 2 tokens"),
        ("masked", ["--tokens", "1", "--segments", "2"], "s[1] = 2 is outside the 2 segments"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, capsys, name, options, says):
    """What a model does not read, and what it needs, is said."""
    MODELS[name][0]().save_pretrained(tmp_path / "model")

    status = cli.main(["trace", str(tmp_path / "model"), "--out", str(tmp_path / "out"), *options])

    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert says in printed.err

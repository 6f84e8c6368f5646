"""Pages of encoders: what stands on top of the layers is what the model has that is loaded."""

import json

import pytest
import transformers

from encode.models import saved
from transformulary.cli import main
from transformulary.models import load
from transformulary.pages import describe, diff

SIZES = {"vocab_size": 19, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 12, "max_position_embeddings": 9}
LAST = {
    "BertForMaskedLM": "12  return P = softmax(W_eᵀ X + b_u 1ᵀ)",
    "BertForPreTraining": "12  return P = softmax(W_eᵀ X + b_u 1ᵀ)",
    "BertForSequenceClassification": "2  return p_C = softmax(W_c e + b_c)",
    "BertModel": "   return X",
    "BertForNextSentencePrediction": "   return X",
}


def theirs(folder, architecture):
    """A tiny random model of `transformers`."""
    config = transformers.BertConfig(**SIZES, num_labels=3)
    getattr(transformers, architecture)(config).save_pretrained(folder)
    return folder


def number(folder):
    return sum(p.numel() for p in load(folder).model.parameters())


@pytest.mark.parametrize("architecture", LAST)
@pytest.mark.parametrize("told", ["architectures", "tensors"])
def test_heads(architecture, told, tmp_path, capsys):
    """Its parameters are those of the model that is loaded, and its last line is the last that this computes."""
    folder = theirs(tmp_path, architecture)
    if told == "tensors":
        config = json.loads((folder / "config.json").read_text())
        del config["architectures"]
        (folder / "config.json").write_text(json.dumps(config))
    count = number(folder)
    main(["describe", str(folder), "--json"])
    said = json.loads(capsys.readouterr().out)
    page = describe(folder)
    (folder / "model.safetensors").unlink()
    if told == "architectures":
        assert page == describe(folder)

    assert (count, 4 * count) == (said["parameters"], said["bytes"]["float32"]["weights"])
    assert (3 if architecture.endswith("SequenceClassification") else None) == said.get("N_C")
    assert page == said["pseudocode"]
    assert LAST[architecture] in page.split("\nwhere")[0].splitlines()[-1]


@pytest.mark.parametrize("verb", ["fill", "classify", "embed"])
def test_ours(verb, tmp_path, capsys):
    """So are those of encoders that were trained here; `convert` counts the same."""
    count = number(saved(tmp_path / "model", verb))
    main(["convert", str(tmp_path / "model"), str(tmp_path / "new"), "--json"])

    assert count == json.loads(capsys.readouterr().out)["parameters"]
    assert f"{count:,} parameters" in describe(tmp_path / "new") and f"{count:,} parameters" in describe(
        load(tmp_path / "model")
    )


def test_a_classifier_beside_a_masked_model(tmp_path):
    """They differ in lines 10 to 12, and in Algorithm 9c."""
    page = diff(theirs(tmp_path / "a", "BertForMaskedLM"), theirs(tmp_path / "b", "BertForSequenceClassification"))

    assert [
        "-Algorithm 9: P ← ETransformer(x, s | θ)",
        "+Algorithm 9: X ← ETransformer(x, s | θ)",
        "-  10  X ← GELU(W_f X + b_f 1ᵀ)",
        "-  11  for t ∈ [ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)",
        "-  12  return P = softmax(W_eᵀ X + b_u 1ᵀ)",
        "+      return X",
        "+   1  e ← tanh(W_pool X[:,1] + b_pool)",
        "+   2  return p_C = softmax(W_c e + b_c)",
    ] == [row for row in page.splitlines()[2:] if row.startswith(("-", "+"))]


def test_numbers_of_classes(tmp_path):
    """Two classifiers with other numbers of classes differ in that, and in their parameters; not in d_f, or tied."""
    for folder, n in (("a", 3), ("b", 5)):
        config = transformers.BertConfig(**SIZES, num_labels=n, tie_word_embeddings=n == 3)
        transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / folder)
    rows = diff(tmp_path / "a", tmp_path / "b").splitlines()

    assert ["parameters", "N_C"] == [row.split()[0] for row in rows[3:]]


@pytest.mark.parametrize(
    ("architecture", "gives"),
    [("BertForTokenClassification", "classes for each token"), ("BertForQuestionAnswering", "two numbers")],
)
def test_heads_that_are_not_computed(architecture, gives, tmp_path, capsys):
    """They are called what they are, and not damaged."""
    folder = theirs(tmp_path, architecture)
    capsys.readouterr()

    for verb in (["describe"], ["classify", "--tokens", "1,2"]):
        assert 2 == main([verb[0], str(folder), *verb[1:]])
        assert f"config.json: {architecture} gives {gives}" in capsys.readouterr().err

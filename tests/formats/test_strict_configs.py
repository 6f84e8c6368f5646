"""What a config.json says that is neither what is meant nor nothing: refused, in the file's own words."""

import json

import pytest

from transformulary.errors import CheckpointError
from transformulary.formats import config_of, outline

QWEN = {"model_type": "qwen2", "num_hidden_layers": 4}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


@pytest.fixture
def written(tmp_path):
    """The function that writes a config.json and gives its path."""

    def write(theirs):
        path = tmp_path / "config.json"
        path.write_text(json.dumps(theirs))
        return path

    return write


@pytest.mark.parametrize("value", ["false", "true", "", [1], {}, 1, 0, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("kind", "key"), [("qwen2", "use_sliding_window"), ("llama", "attention_bias"), ("llama", "mlp_bias")]
)
def test_true_or_false(kind, key, value, written):
    """A key that is to be true or false is neither by accident."""
    with pytest.raises(CheckpointError, match=f"{key} = .* is neither true nor false"):
        config_of(written({"model_type": kind, key: value}))


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (QWEN | {"layer_types": ""}, "layer_types = '' does not say"),
        (QWEN | {"layer_types": {}}, "layer_types = {} does not say"),
        (QWEN | {"rope_scaling": ""}, "rope_scaling = '' is no table"),
        (QWEN | {"rope_scaling": {}}, "rope_scaling = {} is no table"),
        (QWEN | {"rope_scaling": {"rope_type": ""}}, "rope_type = '' is not computed"),
        (
            QWEN | {"rope_scaling": YARN | {"factor": 0}},
            "rope_scaling: DTransformerConfig: factor = 0 must be at least 1",
        ),
        (QWEN | {"rope_scaling": YARN | {"beta_fast": 0}}, "beta_fast = 0 must be more than beta_slow"),
        (
            QWEN | {"rope_scaling": YARN | {"original_max_position_embeddings": 0}},
            "makes no sense here .division by zero",
        ),
        ({"model_type": "gpt_neo", "attention_types": ""}, "attention_types = '' is no list"),
        ({"model_type": "mistral", "sliding_window": 10**4000}, "width has 13288 bits"),
        ({"model_type": "mistral", "sliding_window": 10**12}, r"sliding_window \(mask\) is more than 1,000,000,000"),
    ],
)
def test_nothing_is_taken_for_no(theirs, words, written):
    """Empty text, an empty table, zero, and a window longer than anything: none of them means the default."""
    with pytest.raises(CheckpointError, match=words):
        config_of(written(theirs))


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        ({"model_type": "gpt2", "n_layer": "12"}, "config.json: n_layer: DTransformerConfig: L = '12' must be"),
        ({"model_type": "gpt2", "n_head": 7}, "config.json: n_head: DTransformerConfig: H = 7 does not divide d_e"),
        ({"model_type": "llama", "head_dim": 3}, "config.json: head_dim: DTransformerConfig: d_attn = 3 is odd"),
        ({"model_type": "gpt2", "n_layer": 10**5}, r"config.json: n_layer \(L\) is more than 10,000"),
        ({"model_type": "bert", "type_vocab_size": -1}, "type_vocab_size: ETransformerConfig: segments = -1"),
    ],
)
def test_the_key_of_the_file_is_named(theirs, words, written):
    """Whoever mends a file finds there what the message names."""
    with pytest.raises(CheckpointError, match=words):
        config_of(written(theirs))


def test_what_is_assumed(written):
    """A key that is missing has its library's default; which they are can be asked for."""
    assert {
        "vocab_size": 50257, "n_positions": 1024, "n_embd": 768, "n_head": 12, "n_inner": 3072,
        "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
        "tie_word_embeddings": True,
    } == outline(written({"model_type": "gpt2", "n_layer": 2})).assumed  # fmt: skip


@pytest.mark.parametrize("kind", ["gpt2", "gpt_neo", "llama", "mistral", "qwen2", "qwen3", "bert", "marian"])
def test_all_that_is_assumed_is_all_there_is(kind, written):
    """With the assumed keys written out, a config is the same and nothing is assumed."""
    theirs = {"model_type": kind}
    path = written(theirs)
    config, more = config_of(path), outline(path).assumed

    path = written(theirs | more)

    assert more
    assert ({}, config) == (outline(path).assumed, config_of(path))

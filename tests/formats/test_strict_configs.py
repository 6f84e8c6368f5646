"""What a config.json says that is neither what is meant nor nothing: refused, in the file's own words."""

import json

import pytest
import transformers

from formats.least import LEAST
from transformulary.errors import CheckpointError
from transformulary.formats import config_of, named_format, outline

QWEN = LEAST["qwen2"] | {"num_hidden_layers": 4}
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
        config_of(written(LEAST[kind] | {key: value}))


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
        (LEAST["gpt_neo"] | {"attention_types": ""}, "attention_types = '' is no list"),
        (LEAST["mistral"] | {"sliding_window": 10**4000}, "width has 13288 bits"),
        (LEAST["mistral"] | {"sliding_window": 10**12}, r"sliding_window \(mask\) is more than 1,000,000,000"),
    ],
)
def test_nothing_is_taken_for_no(theirs, words, written):
    """Empty text, an empty table, zero, and a window longer than anything: none of them means the default."""
    with pytest.raises(CheckpointError, match=words):
        config_of(written(theirs))


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (LEAST["gpt2"] | {"n_layer": "12"}, "config.json: n_layer: DTransformerConfig: L = '12' must be"),
        (LEAST["gpt2"] | {"n_head": 7}, "config.json: n_head: DTransformerConfig: H = 7 does not divide d_e"),
        (LEAST["llama"] | {"head_dim": 3}, "config.json: head_dim: DTransformerConfig: d_attn = 3 is odd"),
        (LEAST["gpt2"] | {"n_layer": 10**5}, r"config.json: n_layer \(L\) is more than 10,000"),
        (LEAST["bert"] | {"type_vocab_size": -1}, "type_vocab_size: ETransformerConfig: segments = -1"),
    ],
)
def test_the_key_of_the_file_is_named(theirs, words, written):
    """Whoever mends a file finds there what the message names."""
    with pytest.raises(CheckpointError, match=words):
        config_of(written(theirs))


@pytest.mark.parametrize("kind", LEAST)
def test_sizes_are_said(kind, written):
    """A size that follows from no other is in the file, and is not null; else all that are missing are named."""
    assert {"model_type", *named_format(kind).needed} == LEAST[kind].keys()
    for name in named_format(kind).needed:
        for theirs in ({key: LEAST[kind][key] for key in LEAST[kind] if key != name}, LEAST[kind] | {name: None}):
            with pytest.raises(CheckpointError, match=rf"config.json: missing or null: {name}\. Nothing else says"):
                outline(written(theirs))
    with pytest.raises(CheckpointError, match=", ".join(named_format(kind).needed)):
        outline(written({"model_type": kind}))


def test_what_is_assumed(written):
    """A key that is missing, and no size, has its library's default; which they are can be asked for."""
    assert {
        "n_inner": 3072, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "scale_attn_weights": True,
        "tie_word_embeddings": True,
    } == outline(written(LEAST["gpt2"])).assumed  # fmt: skip


@pytest.mark.parametrize("kind", LEAST)
def test_all_that_is_assumed_is_all_there_is(kind, written):
    """With the assumed keys written out, a config is the same and nothing is assumed."""
    path = written(LEAST[kind])
    config, more = config_of(path), outline(path).assumed

    path = written(LEAST[kind] | more)

    assert more
    assert ({}, config) == (outline(path).assumed, config_of(path))


#: What we read and their library, today, does not write.
UNWRITTEN = {"qwen2": {"head_dim": 128}, "t5": {"n_positions": 512}}


@pytest.mark.parametrize("kind", LEAST)
def test_nothing_is_assumed_of_what_their_library_writes(kind, written):
    """`transformers` writes every key, some in a table of their own: nothing is said to be missing."""
    theirs = transformers.AutoConfig.for_model(kind).to_dict()

    assert UNWRITTEN.get(kind, {}) == outline(written(theirs)).assumed


@pytest.mark.parametrize(
    ("kind", "more", "key", "assumed"),
    [
        ("llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, "rope_theta", None),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0, "rope_theta": 5e5}}, "rope_theta", None),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_theta", 10000.0),
        ("llama", {"rope_parameters": {"rope_type": "default"}}, "rope_theta", 10000.0),
        ("gpt_neo", {}, "attention_types", [[["global", "local"], 12]]),
        ("gpt_neo", {}, "attention_layers", None),
        ("gpt_neo", {"num_layers": 2, "attention_types": [[["global"], 2]]}, "attention_types", None),
        ("marian", {}, "num_hidden_layers", None),
        ("marian", {}, "num_attention_heads", None),
        ("bart", {}, "num_hidden_layers", None),
        ("qwen2", {}, "layer_types", None),
    ],
)
def test_what_is_said_elsewhere_is_not_assumed(kind, more, key, assumed, written):
    """A value that the file gives by another key, or in a table, is not said to be missing; others are shown whole."""
    assert assumed == outline(written(LEAST[kind] | more)).assumed.get(key)

"""Llama, Mistral, Qwen2 and Qwen3: what `transformers` stores means the same to us, in float64, and back."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from formats.least import LEAST
from formats.theirs import KINDS, exact, made
from nn.models import tokens
from transformulary import oracle
from transformulary.errors import CheckpointError
from transformulary.formats import format_for, open_source, theta_source, understood
from transformulary.models import load, save
from transformulary.paper import Causal, Local

LONG = {"original_max_position_embeddings": 8}
ROPE = {
    "theta": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 3.0},
    "dynamic, a length that they do not read": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 3.0, **LONG},
    "yarn": {"rope_type": "yarn", "rope_theta": 20.0, "factor": 4.0, **LONG},
    "yarn, all its numbers": {
        "rope_type": "yarn", "rope_theta": 20.0, "factor": 4.0, "beta_fast": 2, "beta_slow": 0.5,
        "attention_factor": 1.5, **LONG,
    },
    "yarn, mscale": {
        "rope_type": "yarn", "rope_theta": 20.0, "factor": 4.0, "mscale": 0.7, "mscale_all_dim": 1.2, **LONG
    },
    "llama3": {
        "rope_type": "llama3", "rope_theta": 20.0, "factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 1.2,
        **LONG,
    },
}  # fmt: skip
MODELS = {
    "llama": ("llama", {}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama, biases of attention": ("llama", {"attention_bias": True}),
    "llama, head_dim": ("llama", {"head_dim": 6, "num_key_value_heads": 1}),
    "llama, all heads": ("llama", {"num_key_value_heads": None}),
    "llama, another activation": ("llama", {"hidden_act": "gelu"}),
    "llama, eps": ("llama", {"rms_norm_eps": 1e-2}),
    **{f"llama, {name}": ("llama", {"rope_parameters": given, "head_dim": 8}) for name, given in ROPE.items()},
    "mistral": ("mistral", {"sliding_window": 3}),
    "mistral, no window": ("mistral", {"sliding_window": None}),
    "qwen2": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 6}),
    "qwen3, tied, biases, banded": (
        "qwen3",
        {
            "head_dim": 4,
            "tie_word_embeddings": True,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 4,
            "max_window_layers": 1,
        },
    ),
    "qwen2, banded": ("qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen2, in turn": (
        "qwen2",
        {
            "use_sliding_window": True,
            "sliding_window": 2,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
}


@pytest.fixture(params=MODELS)
def theirs(request):
    kind, changes = MODELS[request.param]
    return made(kind, **changes)


def logits(model, x):
    with torch.no_grad():
        found = model(x)
    return getattr(found, "logits", found)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=1e-13)


LENGTH = 21  # more than the 16 tokens of training, so that dynamic frequencies change


def test_ours_loads_theirs(theirs, tmp_path):
    """The fast model and the oracle compute their logits from the folder that they save."""
    theirs.save_pretrained(tmp_path)
    x = tokens(load(tmp_path).model.config, 2, LENGTH)

    fast = load(tmp_path).model
    config, array = theta_source(open_source(tmp_path))
    P = oracle.DTransformer(x[0].tolist(), oracle.theta_from(config, array), config)

    close(logits(fast, x), logits(theirs, x))
    np.testing.assert_allclose(P, logits(theirs, x)[0].softmax(-1).T, rtol=0, atol=1e-13)


def test_theirs_loads_ours(theirs, tmp_path):
    """What we save of it they load, with nothing missing or left over, and with equal logits."""
    theirs.save_pretrained(tmp_path / "theirs")
    fast = load(tmp_path / "theirs").model
    save(tmp_path / "ours", fast)
    x = tokens(fast.config, 1, LENGTH)

    other, info = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True, attn_implementation="sdpa")

    assert [set()] * 3 == [set(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    close(logits(exact(other), x), logits(fast, x))


def test_saving_back_is_bitwise(theirs, tmp_path):
    """What they stored, loaded and saved, is the same numbers under the same names; loaded again, the same model."""
    theirs.save_pretrained(tmp_path / "theirs")
    fast = load(tmp_path / "theirs").model
    save(tmp_path / "ours", fast)

    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours")]
    again = load(tmp_path / "ours").model

    assert stored[0].keys() == stored[1].keys()
    assert all(torch.equal(stored[0][name], stored[1][name]) for name in stored[0])
    assert fast.config == again.config


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_and_every_key(kind):
    """What their config writes, all defaults included, is understood, and means what its sizes alone mean."""
    config, _ = KINDS[kind]

    form, ours = understood(config().to_dict(), "config.json")

    assert (form, ours) == understood(LEAST[kind], "config.json")
    assert form.expresses(ours)


@pytest.mark.parametrize("name", ROPE)
def test_the_older_spelling_means_the_same(name):
    """rope_theta and rope_scaling with `type` say what rope_parameters says since version 5."""
    new = ROPE[name]
    old = {("type" if key == "rope_type" else key): value for key, value in new.items() if key != "rope_theta"}

    _, one = understood(LEAST["llama"] | {"max_position_embeddings": 16, "rope_parameters": new}, "config.json")
    _, other = understood(
        LEAST["llama"] | {
            "max_position_embeddings": 16, "rope_theta": new["rope_theta"],
            "rope_scaling": None if old["type"] == "default" else old,
        },
        "config.json",
    )  # fmt: skip

    assert one == other


def test_masks():
    """A window counts the token itself; null means none; Qwen2's first layers see everything."""

    def mask(kind, **changes):
        return understood(LEAST[kind] | {"num_hidden_layers": 4, **changes}, "config.json")[1].mask

    assert mask("mistral", sliding_window=7) == (Local(7),)
    assert mask("mistral", sliding_window=None) == (Causal(),)
    assert mask("mistral") == (Local(4096),)
    assert mask("qwen2", sliding_window=7) == (Causal(),)
    banded = {"use_sliding_window": True, "sliding_window": 7}
    assert mask("qwen2", **banded, max_window_layers=3) == (Causal(), Causal(), Causal(), Local(7))
    assert mask("qwen2", **banded, max_window_layers=0) == (Local(7),)
    kinds = ["sliding_attention", "full_attention"] * 2
    assert mask("qwen2", **banded, layer_types=kinds) == (Local(7), Causal())


WRONG = {
    "unknown key": ({"qk_norm": True}, "qk_norm = True has no rule"),
    "unknown rotation": (
        {"rope_scaling": {"type": "longrope"}},
        "rope_type = 'longrope' is not computed, only default",
    ),
    "part of a head": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not computed"),
    "part of a head, inside": ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor other than"),
    "no factor": ({"rope_scaling": {"type": "linear"}}, "type linear lack factor"),
    "factor below 1": ({"rope_scaling": {"type": "linear", "factor": 0.5}}, "factor = 0.5 must be at least 1"),
    "a number too many": ({"rope_scaling": {"type": "linear", "factor": 2, "beta": 1}}, "beta of rotary positions"),
    "no number": ({"rope_scaling": {"type": "linear", "factor": "2"}}, "factor = '2' of rotary positions is no number"),
    "no table": ({"rope_scaling": "linear"}, "no table"),
    "two bases": ({"rope_theta": 1e4, "rope_parameters": {"rope_theta": 5e5}}, "rope_theta = 500000.0 and rope_theta"),
    "two scalings": (
        {"rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"rope_theta": 1e4}},
        "rope_parameters = .* and rope_scaling",
    ),
    "heads": ({"num_attention_heads": 5}, "num_attention_heads = 5 does not divide hidden_size = 4096"),
    "bias": ({"attention_bias": "yes"}, "attention_bias = 'yes' is neither"),
    "activation": ({"hidden_act": "mish"}, "hidden_act = 'mish' is none of 'silu'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_config(name):
    """What we do not compute or understand is one line that names it."""
    changes, message = WRONG[name]

    with pytest.raises(CheckpointError, match=message):
        understood(LEAST["llama"] | changes, "config.json")


def test_layers_without_end_take_no_memory():
    """A number of layers that no model has is refused before a list of them is made."""
    with pytest.raises(CheckpointError, match="1000000000000 is no number of layers"):
        understood(LEAST["qwen2"] | {"num_hidden_layers": 10**12}, "config.json")


def test_stored_frequencies_are_harmless(tmp_path):
    """Older files store the frequencies of the rotation: they are no parameters."""
    made("llama").save_pretrained(tmp_path)
    fast = load(tmp_path).model
    tensors = load_file(tmp_path / "model.safetensors")
    for name in ("model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"):
        tensors[name] = torch.ones(2)
    save_file(tensors, tmp_path / "model.safetensors")

    assert all(torch.equal(a, b) for a, b in zip(fast.parameters(), load(tmp_path).model.parameters(), strict=True))


def test_the_base_class_has_no_prefix(tmp_path):
    """LlamaModel stores its tensors without `model.`; tied, that is a whole model."""
    whole = made("llama", tie_word_embeddings=True)
    whole.model.save_pretrained(tmp_path)
    x = tokens(load(tmp_path).model.config, 1, 7)

    close(logits(load(tmp_path).model, x), logits(whole, x))


def test_saved_as_what_it_is(tmp_path):
    """A model is saved in the words of the family that has them."""
    for kind, changes in (MODELS["llama"], MODELS["mistral"], MODELS["qwen2, banded"]):
        made(kind, **changes).save_pretrained(tmp_path / kind)
        fast = load(tmp_path / kind).model
        save(tmp_path / "again" / kind, fast)

        assert kind == format_for(fast.config).model_type
        assert kind == json.loads((tmp_path / "again" / kind / "config.json").read_text())["model_type"]

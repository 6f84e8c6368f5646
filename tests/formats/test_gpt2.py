"""Folders in GPT-2's format mean the same to us and to the `transformers` library, both ways."""

import warnings

import pytest
import torch
from safetensors.torch import load_file

from formats.least import LEAST
from nn.models import config, model, tokens
from transformulary.formats import understood
from transformulary.models import load, save
from transformulary.paper import DTransformerConfig
from transformulary.tokens import KINDS, Tokenizer

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel, GPT2Model

CONFIGS = [
    {},
    {"tied": True},
    {"activation": "relu"},
    {"activation": "silu"},
    {"activation": "gelu_tanh"},
    {"scale": "none"},
    {"eps": 1e-12},
    {"d_mlp": 32},
]


def theirs(**changes):
    given = {
        "vocab_size": 11,
        "n_positions": 9,
        "n_embd": 8,
        "n_layer": 2,
        "n_head": 4,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return GPT2Config(**given | changes)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("change", CONFIGS, ids=str)
def test_transformers_loads_ours_with_equal_logits(tmp_path, change, dtype):
    """GPT2LMHeadModel.from_pretrained computes our logits from the folder that we save."""
    fast = model(config(**{"eps": 1e-5, **change})).to(dtype)
    x = tokens(fast.config, 2, 9)
    save(tmp_path, fast)

    other, info = GPT2LMHeadModel.from_pretrained(tmp_path, output_loading_info=True)

    assert [set()] * 3 == [set(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    assert dtype == other.dtype
    with torch.no_grad():
        close = {torch.float64: 1e-14, torch.float32: 4e-6}[dtype]
        torch.testing.assert_close(other.eval()(x).logits, fast(x), rtol=0, atol=close)


@pytest.mark.parametrize("changes", [
    {}, {"tie_word_embeddings": False}, {"activation_function": "gelu"}, {"activation_function": "relu"},
    {"activation_function": "silu"}, {"n_inner": 20}, {"layer_norm_epsilon": 1e-3}, {"scale_attn_weights": False},
    {"reorder_and_upcast_attn": True},
], ids=str)  # fmt: skip
def test_ours_loads_transformers_with_equal_logits(tmp_path, changes):
    """`load` computes their logits from the folder that GPT2LMHeadModel.save_pretrained makes."""
    other = GPT2LMHeadModel(theirs(**changes)).double().eval()
    shaken(other).save_pretrained(tmp_path)
    x = tokens(config(), 2, 9)

    with torch.no_grad():
        torch.testing.assert_close(load(tmp_path).model(x), other(x).logits, rtol=0, atol=1e-14)


def shaken(other):
    """Parameters of the order of 1, so that biases and scales count."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for theta in other.parameters():
            theta.add_(0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype))
    return other


def test_the_base_class_has_no_prefix(tmp_path):
    """GPT2Model stores its tensors without `transformer.` and without lm_head; we load it all the same."""
    base = GPT2Model(theirs()).double().eval()
    base.save_pretrained(tmp_path)
    x = tokens(config(), 1, 9)

    fast = load(tmp_path).model

    with torch.no_grad():
        torch.testing.assert_close(fast(x), base(x).last_hidden_state @ base.wte.weight.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("tied", [True, False])
def test_a_round_trip_through_transformers_is_bitwise(tmp_path, tied):
    """Save, let them load and save, load: every number is as it was, and a tied matrix is stored once."""
    fast = model(config(tied=tied))
    save(tmp_path / "ours", fast)
    GPT2LMHeadModel.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")

    back = load(tmp_path / "theirs").model

    assert fast.config == back.config
    assert {n: t.tolist() for n, t in fast.state_dict().items()} == {
        n: t.tolist() for n, t in back.state_dict().items()
    }
    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("ours", "theirs")]
    assert stored[0].keys() == stored[1].keys()
    assert tied == ("lm_head.weight" not in stored[0])


def test_defaults_are_those_of_transformers():
    """A key that config.json leaves out has the value that GPT2Config gives it."""
    other = GPT2Config()

    _, c = understood(LEAST["gpt2"], "config.json")

    assert DTransformerConfig(
        N_V=other.vocab_size, ell_max=other.n_positions, L=other.n_layer, H=other.n_head, d_e=other.n_embd,
        d_mlp=4 * other.n_embd, eps=other.layer_norm_epsilon, activation="gelu_tanh", tied=True,
    ) == c  # fmt: skip


def test_every_key_of_their_config_has_a_rule():
    """What GPT2Config writes, all its defaults included, is translated, required or known to be harmless."""
    _, c = understood(theirs().to_dict(), "config.json")

    assert config(d_mlp=32, eps=1e-5, activation="gelu_tanh", tied=True) == c


@pytest.mark.parametrize("generation", [None, {"do_sample": True, "temperature": 0.8, "top_k": 5}], ids=str)
def test_transformers_takes_our_generation_config(tmp_path, generation):
    """generation_config.json is read by `transformers`, with what we put there."""
    save(tmp_path, model(config()), generation=generation)

    found = GPT2LMHeadModel.from_pretrained(tmp_path).generation_config

    assert (generation or {}) == {key: getattr(found, key) for key in generation or {}}


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_takes_our_tokenizer(tmp_path, kind):
    """AutoTokenizer finds the tokenizer of the folder; it gives our ids, and the folder's bos and eos are ours."""
    text = "To be, or not to be: that is the question."
    tokenizer = Tokenizer.train(kind, [text] * 3)
    save(tmp_path, model(config(N_V=tokenizer.N_V)), tokenizer)

    other, loaded = AutoTokenizer.from_pretrained(tmp_path), load(tmp_path)

    assert tokenizer.encode(text) == other(text, add_special_tokens=False)["input_ids"]
    assert text == other.decode(tokenizer.encode(text))
    assert tokenizer.encode(text) == loaded.tokenizer.encode(text)
    ends = {"bos_token_id": tokenizer.bos_token, "eos_token_id": tokenizer.eos_token}
    assert ends == loaded.generation
    assert ends == {key: getattr(GPT2Config.from_pretrained(tmp_path), key) for key in ends}


def test_a_tokenizer_saved_by_transformers_is_still_ours(tmp_path):
    """What AutoTokenizer and GPT2LMHeadModel save again is recognised: the hash is not one of bytes."""
    tokenizer = Tokenizer.train("characters", ["abc"])
    save(tmp_path / "ours", model(config(N_V=tokenizer.N_V)), tokenizer)
    for kind in (AutoTokenizer, GPT2LMHeadModel):
        kind.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")

    assert tokenizer.encode("cab") == load(tmp_path / "theirs").tokenizer.encode("cab")

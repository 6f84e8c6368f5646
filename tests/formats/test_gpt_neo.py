"""GPT-Neo: what `transformers` stores means the same to us, and back."""

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from formats.least import LEAST
from huggingface import randomise
from nn.models import tokens
from transformulary.errors import CheckpointError
from transformulary.formats import understood
from transformulary.models import load, save
from transformulary.paper import Causal, Local

TYPES = {
    "in turn": [[["global", "local"], 2]],
    "dense": [[["global"], 4]],
    "banded": [[["local"], 4]],
    "no cycle": [[["global"], 1], [["local"], 3]],
}


def made(**changes):
    sizes = {
        "vocab_size": 11, "hidden_size": 8, "num_layers": 4, "num_heads": 2, "max_position_embeddings": 9,
        "intermediate_size": None, "window_size": 3, "attention_types": TYPES["in turn"],
        "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    return randomise(transformers.GPTNeoForCausalLM(transformers.GPTNeoConfig(**sizes | changes)))


CASES = [
    *({"attention_types": types} for types in TYPES.values()),
    {"tie_word_embeddings": False}, {"intermediate_size": 12}, {"activation_function": "relu"}, {"window_size": 1},
]  # fmt: skip


@pytest.mark.parametrize("changes", CASES, ids=str)
def test_the_same_both_ways(tmp_path, changes):
    """Their logits are ours (their scores are float32 even in float64), what we save they load, bit by bit."""
    theirs = made(**changes)
    theirs.save_pretrained(tmp_path / "theirs")
    fast = load(tmp_path / "theirs").model
    save(tmp_path / "ours", fast)
    other, info = transformers.GPTNeoForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    x = tokens(fast.config, 2, 9)

    with torch.no_grad():
        torch.testing.assert_close(fast(x), theirs(x).logits, rtol=0, atol=1e-6)
        torch.testing.assert_close(other(x).logits, theirs(x).logits, rtol=0, atol=1e-6)
    assert [set()] * 3 == [set(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours")]
    assert {n: t.tolist() for n, t in stored[0].items()} == {n: t.tolist() for n, t in stored[1].items()}


def test_defaults_and_every_key():
    """What GPTNeoConfig writes is understood, and means what its sizes alone mean."""
    form, ours = understood(transformers.GPTNeoConfig().to_dict(), "config.json")

    assert (form, ours) == understood(LEAST["gpt_neo"], "config.json")
    assert ours.mask == (Causal(), Local(256))
    assert (ours.scale, ours.d_mlp, form.expresses(ours)) == ("none", 8192, True)


WRONG = {
    "layers": ({"num_layers": 3}, "attention_types says 24 layers, and there are 3"),
    "contradiction": ({"attention_layers": ["global"] * 24}, "contradict each other"),
    "kind": ({"attention_types": [[["sparse"], 24]]}, "no list of"),
    "no list": ({"attention_types": "global"}, "no list of"),
    "without end": ({"attention_types": [[["global"], 10**12]]}, "no list of"),
    "window": ({"window_size": 0}, "window_size = 0 is no number of tokens"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_config(name):
    """Layers that are not said, or said twice, are one line."""
    changes, message = WRONG[name]

    with pytest.raises(CheckpointError, match=message):
        understood(LEAST["gpt_neo"] | changes, "config.json")


def test_stored_masks_are_harmless(tmp_path):
    """Older files store the causal mask and the number that stands for minus infinity: they are no parameters."""
    made().save_pretrained(tmp_path)
    fast = load(tmp_path).model
    tensors = load_file(tmp_path / "model.safetensors")
    for name in ("bias", "masked_bias"):
        tensors[f"transformer.h.0.attn.attention.{name}"] = torch.ones(1, 1, 9, 9)
    save_file(tensors, tmp_path / "model.safetensors")

    assert all(torch.equal(a, b) for a, b in zip(fast.parameters(), load(tmp_path).model.parameters(), strict=True))

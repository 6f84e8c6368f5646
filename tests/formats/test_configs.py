"""Whatever stands in a config.json: it is understood, or refused in one line that names the file."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formats.least import LEAST
from formats.test_llama import ROPE
from transformulary.errors import CheckpointError
from transformulary.formats import READABLE, understood
from transformulary.paper import DTransformerConfig, EDTransformerConfig, ETransformerConfig, PreEDTransformerConfig

GGUF_LLAMA = {
    "llama.vocab_size": 11, "llama.context_length": 9, "llama.embedding_length": 8, "llama.block_count": 2,
    "llama.feed_forward_length": 7, "llama.attention.head_count": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tensors": ["output.weight"], "rope_freqs": None,
    "llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 2.0,
}  # fmt: skip
GGUF_GPT2 = {
    "gpt2.vocab_size": 11, "gpt2.context_length": 9, "gpt2.embedding_length": 8, "gpt2.block_count": 2,
    "gpt2.feed_forward_length": 7, "gpt2.attention.head_count": 2, "tensors": [],
}  # fmt: skip
SIZES = {"N_V": 11, "ell_max": 9, "H": 2, "d_e": 8, "d_mlp": 7}
STACKS = {"L_enc": 2, "L_dec": 2}
NATIVE = {
    "transformulary": DTransformerConfig(**SIZES, L=2).to_dict(),
    "transformulary_encoder": ETransformerConfig(**SIZES, L=2).to_dict(),
    "transformulary_encoder_decoder": EDTransformerConfig(**SIZES, **STACKS).to_dict(),
    "transformulary_encoder_decoder_8a": PreEDTransformerConfig(**SIZES, **STACKS).to_dict(),
}
NANOGPT = {"n_layer": 2, "n_head": 2, "n_embd": 8, "block_size": 9, "vocab_size": 11, "bias": False}
START = {"nanogpt": NANOGPT, "gguf llama": GGUF_LLAMA, "gguf gpt2": GGUF_GPT2, **NATIVE, **LEAST}
ODD = st.sampled_from([
    None, True, False, 0, 1, -1, 2, 1.5, 1e999, float("nan"), 10**30, "", "x", [], [1], {}, {"a": 1}, [[["global"], 1]],
    *ROPE.values(), {"rope_type": "yarn", "factor": 0}, {"rope_type": "yarn", "mscale": -1e9, "mscale_all_dim": -1e-9},
])  # fmt: skip


def keys(form):
    return sorted({name for key in form.keys for name in ([key.theirs] if isinstance(key.theirs, str) else key.theirs)})


@pytest.mark.parametrize("form", READABLE, ids=lambda form: form.model_type)
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_any_values(form, data):
    """Values of any kind at any keys."""
    changes = data.draw(st.dictionaries(st.sampled_from(keys(form)), ODD, max_size=4))
    theirs = {"model_type": form.model_type, **START[form.model_type], **changes}
    try:
        found, ours = understood(theirs, "some/config.json")
    except CheckpointError as error:
        message = str(error)
    else:
        message = "some/config.json: " if found is form and ours.d_e >= 1 else ""

    assert message.startswith("some/config.json: ")
    assert "\n" not in message


@pytest.mark.parametrize(
    "form", [f for f in READABLE if not f.model_type.startswith("gguf")], ids=lambda f: f.model_type
)
def test_what_is_written_is_json(form):
    """What is written for a config that a format expresses is read back from JSON as the same config."""
    _, ours = understood({"model_type": form.model_type, **START[form.model_type]}, "config.json")

    written = json.loads(json.dumps(form.write_config(ours)))

    assert (form, ours) == understood(written, "config.json")

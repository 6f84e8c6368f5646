"""Llama as stored by `transformers`, and what shares its mathematics: RMSnorm, rotations, gates, grouped queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats import gpt2
from transformulary.formats.format import NEEDED, Format, Key, Keys, flag
from transformulary.formats.rope import ROPE
from transformulary.formats.rules import Rule

#: What no key can change.
FIXED = {"norm": "rms_norm", "mlp": "gated", "positions": "rotary"}
ACTIVATIONS = {"silu": "silu", **gpt2.ACTIVATIONS}


def read_heads(theirs: dict[str, Any]) -> dict[str, Any]:
    """H; `transformers` builds no Llama for which it does not divide d_e, whatever head_dim is."""
    H, d_e = theirs["num_attention_heads"], theirs["hidden_size"]
    if type(H) is int and type(d_e) is int and H > 0 and d_e % H:
        raise ConfigError(f"num_attention_heads = {H} does not divide hidden_size = {d_e}.")
    return {"H": H}


def width_of_heads(theirs: dict[str, Any]) -> int | None:
    """d_e / H, as is ours; what is no size is refused as such."""
    H, d_e = theirs["num_attention_heads"], theirs["hidden_size"]
    return d_e // H if type(H) is int and type(d_e) is int and H > 0 else None


ATTENTION, MLP = ("b_q", "b_k", "b_v", "b_o"), ("b_mlp1", "b_mlp2", "b_mlp3")


#: A key that says whether the parameters are there.
BIASES = {"attention_bias": ATTENTION, "mlp_bias": MLP}


def read_biases(theirs: dict[str, Any]) -> dict[str, Any]:
    """attention_bias and mlp_bias say whether four and three biases are there."""
    absent = ["b_u"]
    for key, names in BIASES.items():
        absent += [] if flag(theirs, key) else names
    return {"absent": absent}


def biases(*keys: str) -> Keys:
    """The keys among those of `BIASES` that a format has."""

    def write(ours: dict[str, Any]) -> dict[str, Any]:
        return {key: BIASES[key][0] not in ours["absent"] for key in keys}

    return Keys(keys, read_biases, write, dict.fromkeys(keys, False))


HEADS = ("num_attention_heads",)


def shared(
    ell_max: int, H_kv: Any = lambda theirs: theirs["num_attention_heads"], d_attn: Any = width_of_heads
) -> tuple[Key | Keys, ...]:
    """The keys that all of them have; the defaults of some are those of each."""
    return (
        Key("vocab_size", "N_V", NEEDED),
        Key("max_position_embeddings", "ell_max", ell_max),
        Key("hidden_size", "d_e", NEEDED),
        Key("intermediate_size", "d_mlp", NEEDED),
        Key("num_hidden_layers", "L", NEEDED),
        Keys(HEADS, read_heads, lambda ours: {HEADS[0]: ours["H"]}, {HEADS[0]: NEEDED}),
        Key("num_key_value_heads", "H_kv", H_kv),
        Key("head_dim", "d_attn", d_attn),
        Key("hidden_act", "activation", "silu", ACTIVATIONS),
        Key("rms_norm_eps", "eps", 1e-6),
        Key("tie_word_embeddings", "tied", False),
        ROPE,
    )


HARMLESS = gpt2.HARMLESS | {
    "attention_dropout",
    "hidden_dropout",
    "is_llama_config",
    "pretraining_tp",
    "unsloth_fixed",
    "unsloth_version",
}
#: Keys that change the mathematics, and the only value that we compute.
REQUIRED = {"is_encoder_decoder": False, "pruned_heads": {}, "partial_rotary_factor": 1.0, "rope_interleaved": False}

h, o = "model.layers.{l}.", "layers.{l}."
_MODULES = {
    "self_attn.q_proj": "attention.W_qkv.W_q",
    "self_attn.k_proj": "attention.W_qkv.W_k",
    "self_attn.v_proj": "attention.W_qkv.W_v",
    "self_attn.o_proj": "attention.W_o",
    "mlp.gate_proj": "mlp.W_mlp1",
    "mlp.up_proj": "mlp.W_mlp3",
    "mlp.down_proj": "mlp.W_mlp2",
}
WEIGHTS = (
    Rule("model.embed_tokens.weight", "W_e.weight"),
    Rule(h + "input_layernorm.weight", o + "norm_1.weight"),
    Rule(h + "post_attention_layernorm.weight", o + "norm_2.weight"),
    *(Rule(f"{h}{theirs}.{k}", f"{o}{ours}.{k}") for theirs, ours in _MODULES.items() for k in ("weight", "bias")),
    *(Rule(f"{h}self_attn.{x}_norm.weight", f"{o}attention.norm_{x}.weight") for x in "qk"),
    Rule("model.norm.weight", "norm.weight"),
    Rule("lm_head.weight", "W_u.weight"),
)
#: The frequencies of the rotation, which older files store.
BUFFERS = ("model.layers.*.self_attn.rotary_emb.inv_freq", "model.rotary_emb.inv_freq")


def like_llama(
    model_type: str,
    architecture: str,
    keys: Iterable[Key | Keys],
    fixed: Mapping[str, Any] | None = None,
    required: Mapping[str, Any] | None = None,
) -> Format:
    """A format with Llama's tensors and its own keys."""
    return Format(
        model_type,
        keys=tuple(keys),
        weights=WEIGHTS,
        fixed=FIXED | dict(fixed or {}),
        required=REQUIRED | dict(required or {}),
        harmless=HARMLESS,
        buffers=BUFFERS,
        prefix="model.",
        writes={"architectures": [architecture], "attention_dropout": 0.0},
    )


LLAMA = like_llama(
    "llama",
    "LlamaForCausalLM",
    (*shared(ell_max=2048), biases(*BIASES)),
)

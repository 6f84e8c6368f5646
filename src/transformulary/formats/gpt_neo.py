"""GPT-Neo as stored by `transformers`: GPT-3's dense and banded layers in turn, and no division by sqrt(d_attn)."""

from __future__ import annotations

from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats import gpt2
from transformulary.formats.format import NEEDED, Format, Key, Keys
from transformulary.formats.layers import MOST, checked, cycle, listed, width, windowed
from transformulary.formats.rules import Rule
from transformulary.paper import Local

KINDS = ("global", "local")


def read_mask(theirs: dict[str, Any]) -> dict[str, Any]:
    """attention_types = [[["global", "local"], 12]] says the kinds of 24 layers; attention_layers lists them."""
    types, L = theirs["attention_types"], checked(theirs["num_layers"])
    kinds: list[str] = []
    for item in types if isinstance(types, list) else [None]:
        match item:
            case [[*some], int(n)] if 0 <= n * len(some) <= MOST and all(kind in KINDS for kind in some):
                kinds += some * n
            case _:
                raise ConfigError(f"attention_types = {types!r} is no list of [[kinds], times], kinds global or local.")
    if len(kinds) != L or theirs.get("attention_layers", kinds) != kinds:
        raise ConfigError(
            f"attention_types says {len(kinds)} layers, and there are {L}, listed as "
            f"attention_layers = {theirs.get('attention_layers')!r}: they contradict each other."
        )
    window = theirs["window_size"]
    return {"mask": cycle([windowed(window if kind == "local" else None, "window_size") for kind in kinds])}


def write_mask(ours: dict[str, Any]) -> dict[str, Any]:
    """Their words for the masks of all layers."""
    masks = listed(ours)
    kinds = ["local" if isinstance(mask, Local) else "global" for mask in masks]
    return {"attention_types": [[kinds, 1]], "attention_layers": kinds, "window_size": width(masks) or 256}


KEYS = (
    Key("vocab_size", "N_V", NEEDED),
    Key("max_position_embeddings", "ell_max", NEEDED),
    Key("hidden_size", "d_e", NEEDED),
    Key("num_layers", "L", NEEDED),
    Key("num_heads", "H", NEEDED),
    Key("intermediate_size", "d_mlp", gpt2.four_times("hidden_size")),
    Key("activation_function", "activation", "gelu_new", gpt2.ACTIVATIONS),
    Key("layer_norm_epsilon", "eps", 1e-5),
    Key("tie_word_embeddings", "tied", True),
    Keys(
        ("attention_types", "attention_layers", "window_size"),
        read_mask,
        write_mask,
        {"attention_types": lambda theirs: [[["global", "local"], 12]], "window_size": 256},
    ),
)

HARMLESS = gpt2.HARMLESS | {"attention_dropout", "classifier_dropout", "embed_dropout", "resid_dropout"}

h, o = "transformer.h.{l}.", "layers.{l}."
WEIGHTS = (
    Rule("transformer.wte.weight", "W_e.weight"),
    Rule("transformer.wpe.weight", "W_p.weight"),
    Rule(h + "ln_1.weight", o + "norm_1.weight"),
    Rule(h + "ln_1.bias", o + "norm_1.bias"),
    Rule(h + "attn.attention.q_proj.weight", o + "attention.W_qkv.W_q.weight"),
    Rule(h + "attn.attention.k_proj.weight", o + "attention.W_qkv.W_k.weight"),
    Rule(h + "attn.attention.v_proj.weight", o + "attention.W_qkv.W_v.weight"),
    Rule(h + "attn.attention.out_proj.weight", o + "attention.W_o.weight"),
    Rule(h + "attn.attention.out_proj.bias", o + "attention.W_o.bias"),
    Rule(h + "ln_2.weight", o + "norm_2.weight"),
    Rule(h + "ln_2.bias", o + "norm_2.bias"),
    Rule(h + "mlp.c_fc.weight", o + "mlp.W_mlp1.weight"),
    Rule(h + "mlp.c_fc.bias", o + "mlp.W_mlp1.bias"),
    Rule(h + "mlp.c_proj.weight", o + "mlp.W_mlp2.weight"),
    Rule(h + "mlp.c_proj.bias", o + "mlp.W_mlp2.bias"),
    Rule("transformer.ln_f.weight", "norm.weight"),
    Rule("transformer.ln_f.bias", "norm.bias"),
    Rule("lm_head.weight", "W_u.weight"),
)

GPT_NEO = Format(
    "gpt_neo",
    keys=KEYS,
    weights=WEIGHTS,
    fixed={"scale": "none", "absent": ["b_q", "b_k", "b_v", "b_u"]},
    required={"is_encoder_decoder": False, "pruned_heads": {}},
    harmless=HARMLESS,
    buffers=("transformer.h.*.attn.attention.bias", "transformer.h.*.attn.attention.masked_bias"),
    prefix="transformer.",
    writes={
        "architectures": ["GPTNeoForCausalLM"],
        "attention_dropout": 0.0,
        "embed_dropout": 0.0,
        "resid_dropout": 0.0,
    },
)

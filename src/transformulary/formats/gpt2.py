"""GPT-2 as published by OpenAI and stored by `transformers`: Algorithm 10 with tanh-GELU, eps and a tied W_u."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformulary.formats.format import NEEDED, Format, Key
from transformulary.formats.names import JOINT
from transformulary.formats.rules import Rule, Transposed

#: What `transformers` calls a function; the first name of each is written.
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
}


def four_times(key: str) -> Callable[[dict[str, Any]], Any]:
    """The default of d_mlp; a width that is no number is refused as such."""
    return lambda theirs: 4 * theirs[key] if type(theirs[key]) is int else theirs[key]


KEYS = (
    Key("vocab_size", "N_V", NEEDED),
    Key("n_positions", "ell_max", NEEDED),
    Key("n_embd", "d_e", NEEDED),
    Key("n_layer", "L", NEEDED),
    Key("n_head", "H", NEEDED),
    Key("n_inner", "d_mlp", four_times("n_embd")),
    Key("activation_function", "activation", "gelu_new", ACTIVATIONS),
    Key("layer_norm_epsilon", "eps", 1e-5),
    Key("scale_attn_weights", "scale", True, {True: "sqrt", False: "none"}),
    Key("tie_word_embeddings", "tied", True),
)

#: Keys that change the mathematics, and the only value that we compute.
REQUIRED = {
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "is_encoder_decoder": False,
    "pruned_heads": {},
}

#: Dropout, the initialisation, the heads of other tasks, what `generate` does, and how results are handed back.
HARMLESS = frozenset({
    "_attn_implementation_autoset", "_name_or_path", "_num_labels", "architectures", "attn_pdrop", "bos_token_id",
    "chunk_size_feed_forward", "dtype", "embd_pdrop", "eos_token_id", "finetuning_task", "gradient_checkpointing",
    "id2label", "initializer_range", "label2id", "n_ctx", "output_attentions", "output_hidden_states",
    "output_past", "pad_token_id", "predict_special_tokens", "problem_type", "reorder_and_upcast_attn",
    "resid_pdrop", "return_dict", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
    "summary_type", "summary_use_proj", "task_specific_params", "tokenizer_class", "torch_dtype", "torchscript",
    "transformers.js_config", "transformers_version", "use_cache"
})  # fmt: skip

h, o = "transformer.h.{l}.", "layers.{l}."
WEIGHTS = (
    Rule("transformer.wte.weight", "W_e.weight"),
    Rule("transformer.wpe.weight", "W_p.weight"),
    Rule(h + "ln_1.weight", o + "norm_1.weight"),
    Rule(h + "ln_1.bias", o + "norm_1.bias"),
    Rule(h + "attn.c_attn.weight", tuple(o + f"attention.W_qkv.{part}.weight" for part in JOINT), (Transposed(),)),
    Rule(h + "attn.c_attn.bias", tuple(o + f"attention.W_qkv.{part}.bias" for part in JOINT)),
    Rule(h + "attn.c_proj.weight", o + "attention.W_o.weight", (Transposed(),)),
    Rule(h + "attn.c_proj.bias", o + "attention.W_o.bias"),
    Rule(h + "ln_2.weight", o + "norm_2.weight"),
    Rule(h + "ln_2.bias", o + "norm_2.bias"),
    Rule(h + "mlp.c_fc.weight", o + "mlp.W_mlp1.weight", (Transposed(),)),
    Rule(h + "mlp.c_fc.bias", o + "mlp.W_mlp1.bias"),
    Rule(h + "mlp.c_proj.weight", o + "mlp.W_mlp2.weight", (Transposed(),)),
    Rule(h + "mlp.c_proj.bias", o + "mlp.W_mlp2.bias"),
    Rule("transformer.ln_f.weight", "norm.weight"),
    Rule("transformer.ln_f.bias", "norm.bias"),
    Rule("lm_head.weight", "W_u.weight"),
)

#: Their causal mask, which older files store.
BUFFERS = ("transformer.h.*.attn.bias", "transformer.h.*.attn.masked_bias")

WRITES = {"architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}

GPT2 = Format(
    "gpt2",
    keys=KEYS,
    weights=WEIGHTS,
    required=REQUIRED,
    harmless=HARMLESS,
    buffers=BUFFERS,
    prefix="transformer.",
    writes=WRITES,
)

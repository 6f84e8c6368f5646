"""BART as stored by `transformers`: Algorithm 8 with a W_p and an embedding norm for z and x each, eps and a bias b_u.

Tied, z and x share W_e, which is W_u^T; else there are three tables of tokens.
"""

from __future__ import annotations

from typing import Any

from transformulary.formats import marian
from transformulary.formats.bert import modules
from transformulary.formats.format import NEEDED, Format, Key, Keys
from transformulary.formats.rules import Offset, Rule
from transformulary.paper import EDTransformerConfig


def read_tables(theirs: dict[str, Any]) -> dict[str, Any]:
    """One word says whether W_u and the tables of tokens are one."""
    tied = marian.yes(theirs, "tie_word_embeddings")
    return {"tied": tied, "separate": ["W_p"] if tied else ["W_e", "W_p"]}


def write_tables(ours: dict[str, Any]) -> dict[str, Any]:
    """Their word."""
    return {"tie_word_embeddings": ours["tied"]}


KEYS = (
    *marian.COMMON,
    Key("vocab_size", "N_V", NEEDED),
    Keys(("tie_word_embeddings",), read_tables, write_tables, {"tie_word_embeddings": True}),
    marian.headed("BartForConditionalGeneration", "BartModel"),
)
#: Keys that change the mathematics, and the only value that we compute.
REQUIRED = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "add_final_layer_norm": False,
    "normalize_before": False,
    "normalize_embedding": True,
    "static_position_embeddings": False,
    "extra_pos_embeddings": 2,
    "pruned_heads": {},
}
#: Beside Marian's, what `generate` does.
HARMLESS = marian.HARMLESS - set(REQUIRED) | {
    "early_stopping",
    "force_bos_token_to_be_generated",
    "forced_bos_token_id",
    "length_penalty",
    "min_length",
    "no_repeat_ngram_size",
    "num_labels",
    "prefix",
}

UNREAD = (Offset(2),)
BART = Format(
    "bart",
    keys=KEYS,
    weights=(
        Rule("model.shared.weight", "W_e.weight", only=("tied", True)),
        Rule("model.encoder.embed_tokens.weight", "W_e_z.weight", only=("tied", False)),
        Rule("model.decoder.embed_tokens.weight", "W_e.weight", only=("tied", False)),
        Rule("model.encoder.embed_positions.weight", "W_p_z.weight", UNREAD),
        Rule("model.decoder.embed_positions.weight", "W_p.weight", UNREAD),
        *modules({f"model.{s}coder.layernorm_embedding": f"norm_{x}" for s, x in (("en", "z"), ("de", "x"))}),
        *modules(marian.LAYERS),
        Rule("lm_head.weight", "W_u.weight"),
        Rule(marian.BIAS, "W_u.bias", (marian.Row(),)),
    ),
    fixed={"embedding_norm": True, "eps": 1e-5},
    required=REQUIRED,
    harmless=HARMLESS,
    copies=marian.COPIES,
    unused=("model.shared.weight",),
    prefix="model.",
    sees=frozenset({marian.BIAS}),
    kind=EDTransformerConfig,
)

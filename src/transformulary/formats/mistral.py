"""Mistral as stored by `transformers`: Llama without biases, every layer banded or none."""

from __future__ import annotations

from typing import Any

from transformulary.formats.format import Keys
from transformulary.formats.layers import listed, width, windowed
from transformulary.formats.llama import ATTENTION, MLP, like_llama, shared


def read_mask(theirs: dict[str, Any]) -> dict[str, Any]:
    """sliding_window is how many tokens see each other, itself included; null is all; 4096 where it is missing."""
    return {"mask": windowed(theirs.get("sliding_window", 4096), "sliding_window")}


MISTRAL = like_llama(
    "mistral",
    "MistralForCausalLM",
    (
        *shared(vocab_size=32000, max_position_embeddings=4096 * 32, intermediate_size=14336, num_key_value_heads=8),
        Keys(("sliding_window",), read_mask, lambda ours: {"sliding_window": width(listed(ours))}),
    ),
    fixed={"absent": ["b_u", *ATTENTION, *MLP]},
    required={"attention_bias": False, "mlp_bias": False},
)

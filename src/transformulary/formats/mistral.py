"""Mistral as stored by `transformers`: Llama without biases, every layer banded or none."""

from __future__ import annotations

from typing import Any

from transformulary.formats.format import NEEDED, Keys
from transformulary.formats.layers import listed, width, windowed
from transformulary.formats.llama import ATTENTION, MLP, like_llama, shared


def read_mask(theirs: dict[str, Any]) -> dict[str, Any]:
    """sliding_window is how many tokens see each other, itself included; null is all."""
    return {"mask": windowed(theirs["sliding_window"], "sliding_window")}


MISTRAL = like_llama(
    "mistral",
    "MistralForCausalLM",
    (
        *shared(ell_max=4096 * 32, H_kv=NEEDED),
        Keys(
            ("sliding_window",),
            read_mask,
            lambda ours: {"sliding_window": width(listed(ours))},
            {"sliding_window": 4096},
        ),
    ),
    fixed={"absent": ["b_u", *ATTENTION, *MLP]},
    required={"attention_bias": False, "mlp_bias": False},
)

"""Qwen2 and Qwen3 as stored by `transformers`: Llama with some layers banded.

Qwen2 has biases of queries, keys and values, Qwen3 a norm of every query and key.
"""

from __future__ import annotations

from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats.format import NEEDED, Keys, flag
from transformulary.formats.layers import checked, cycle, listed, width, windowed
from transformulary.formats.llama import MLP, biases, like_llama, shared
from transformulary.paper import Local

KINDS = ("full_attention", "sliding_attention")


def read_mask(theirs: dict[str, Any]) -> dict[str, Any]:
    """layer_types says which layers are banded, or else the first max_window_layers ones are not."""
    L = checked(theirs["num_hidden_layers"])
    window = theirs["sliding_window"] if flag(theirs, "use_sliding_window") else None
    whole = theirs["max_window_layers"]
    if type(whole) is not int:
        raise ConfigError(f"max_window_layers = {whole!r} is no number of layers.")
    kinds = theirs.get("layer_types")
    if kinds is None:
        kinds = [KINDS[window is not None and l >= whole] for l in range(L)]
    if not isinstance(kinds, list) or len(kinds) != L or not all(kind in KINDS for kind in kinds):
        raise ConfigError(f"layer_types = {kinds!r} does not say for each of {L} layers which of {KINDS} it is.")
    if window is None and KINDS[1] in kinds:
        raise ConfigError("layer_types names sliding_attention, and there is no sliding_window.")
    return {"mask": cycle([windowed(window if kind == KINDS[1] else None, "sliding_window") for kind in kinds])}


def write_mask(ours: dict[str, Any]) -> dict[str, Any]:
    """Their words for the masks of all layers."""
    masks = listed(ours)
    banded = [isinstance(mask, Local) for mask in masks]
    return {
        "use_sliding_window": any(banded),
        "sliding_window": width(masks),
        "max_window_layers": banded.index(True) if any(banded) else ours["L"],
        "layer_types": [KINDS[band] for band in banded],
    }


MASK = Keys(
    ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"),
    read_mask,
    write_mask,
    {"use_sliding_window": False, "sliding_window": 4096, "max_window_layers": 28},
)
QWEN2 = like_llama(
    "qwen2",
    "Qwen2ForCausalLM",
    (*shared(ell_max=32768, H_kv=NEEDED), MASK),
    fixed={"absent": ["b_u", "b_o", *MLP]},
    required={"use_mrope": False},
)

QWEN3 = like_llama(
    "qwen3",
    "Qwen3ForCausalLM",
    (*shared(ell_max=32768, H_kv=NEEDED, d_attn=NEEDED), MASK, biases("attention_bias")),
    fixed={"qk_norm": True},
    required={"mlp_bias": False},
)

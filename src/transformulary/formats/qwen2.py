"""Qwen2 and Qwen3 as stored by `transformers`: Llama with some layers banded.

Qwen2 has biases of queries, keys and values, Qwen3 a norm of every query and key.
"""

from __future__ import annotations

from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats.format import Keys, flag
from transformulary.formats.layers import checked, cycle, listed, width, windowed
from transformulary.formats.llama import BIASES, HEADS, MLP, like_llama, shared
from transformulary.paper import Local

KINDS = ("full_attention", "sliding_attention")


def read_mask(theirs: dict[str, Any]) -> dict[str, Any]:
    """layer_types says which layers are banded, or else the first max_window_layers ones are not."""
    L = checked(theirs.get("num_hidden_layers", 32))
    window = theirs.get("sliding_window", 4096) if flag(theirs, "use_sliding_window") else None
    whole = theirs.get("max_window_layers", 28)
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


SIZES: dict[str, Any] = {
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
}
MASK = Keys(("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"), read_mask, write_mask)
QWEN2 = like_llama(
    "qwen2",
    "Qwen2ForCausalLM",
    (*shared(**SIZES), MASK),
    fixed={"absent": ["b_u", "b_o", *MLP]},
    required={"use_mrope": False},
)

#: Its heads are 128 wide where nothing is said, whatever d_e is.
WIDE = Keys(HEADS.theirs, lambda theirs: HEADS.read({"head_dim": 128, **theirs}), HEADS.write)
QWEN3 = like_llama(
    "qwen3",
    "Qwen3ForCausalLM",
    (*shared(WIDE, **SIZES), MASK, BIASES),
    fixed={"qk_norm": True},
    required={"mlp_bias": False},
)

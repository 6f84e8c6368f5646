"""nanoGPT's ckpt.pt: GPT-2's mathematics with exact GELU, its linear layers as PyTorch stores them; read, not written.

`model_args` says the sizes.  Checkpoints from before `bias` was one of them computed another GELU: they are refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from transformulary.errors import ConfigError
from transformulary.formats.format import NEEDED, Format, Key, Keys
from transformulary.formats.gpt2 import BUFFERS, WEIGHTS

BIASES = ["b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "beta_1", "beta_2", "beta"]


def read_bias(theirs: dict[str, Any]) -> dict[str, Any]:
    """Without `bias` neither linear layers nor norms have any."""
    given = theirs.get("bias")
    if type(given) is not bool:
        raise ConfigError(f"bias = {given!r} is neither true nor false.")
    return {"absent": ["b_u", *([] if given else BIASES)]}


def read_width(theirs: dict[str, Any]) -> dict[str, Any]:
    """d_mlp is always four times d_e."""
    return {"d_e": theirs["n_embd"], "d_mlp": 4 * theirs["n_embd"]}


NANOGPT = Format(
    "nanogpt",
    keys=(
        Key("vocab_size", "N_V", NEEDED),
        Key("block_size", "ell_max", NEEDED),
        Key("n_layer", "L", NEEDED),
        Key("n_head", "H", NEEDED),
        Keys(("n_embd",), read_width, lambda ours: {"n_embd": ours["d_e"]}, {"n_embd": NEEDED}),
        Keys(("bias",), read_bias, lambda ours: {"bias": "b_o" not in ours["absent"]}),
    ),
    weights=tuple(replace(rule, operations=()) for rule in WEIGHTS),
    fixed={"activation": "gelu", "eps": 1e-5, "tied": True},
    harmless=frozenset({"dropout"}),
    buffers=BUFFERS,
)

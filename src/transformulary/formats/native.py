"""Our own format, for every config that no published format can express: the paper's names, nothing renamed."""

from dataclasses import fields

from transformulary.formats.format import Format, Key, Rule
from transformulary.paper import DTransformerConfig

#: No key has a default: every file that we write has them all, and what one lacks is damage.
KEYS = tuple(Key(f.name, f.name) for f in fields(DTransformerConfig))

#: What config.json tells `transformers` about the folder.
HARMLESS = frozenset({"bos_token_id", "dtype", "eos_token_id"})

_MATRICES = ("attention.W_qkv", "attention.W_qkv.W_q", "attention.W_qkv.W_k", "attention.W_qkv.W_v", "attention.W_o")
_MODULES = (
    "W_e",
    "W_p",
    "norm_x",
    *("layers.{l}." + name for name in ("norm_1", *_MATRICES, "norm_2", "mlp.W_mlp1", "mlp.W_mlp2", "mlp.W_mlp3")),
    "norm",
    "W_u",
)
WEIGHTS = tuple(Rule(name, name) for module in _MODULES for name in (module + ".weight", module + ".bias"))

NATIVE = Format("transformulary", keys=KEYS, weights=WEIGHTS, harmless=HARMLESS)

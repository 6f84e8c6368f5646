"""Our own format, for every config that no published format can express: the paper's names, nothing renamed."""

from dataclasses import fields

from transformulary.formats.format import NEEDED, Format, Key, Rule
from transformulary.formats.names import TENSORS
from transformulary.paper import DTransformerConfig

#: No key has a default: every file that we write has them all, and what one lacks is damage.
KEYS = tuple(Key(f.name, f.name, NEEDED) for f in fields(DTransformerConfig))

#: What config.json tells `transformers` about the folder.
HARMLESS = frozenset({"bos_token_id", "dtype", "eos_token_id"})

WEIGHTS = tuple(Rule(name, name) for name in TENSORS[DTransformerConfig].values())

NATIVE = Format("transformulary", keys=KEYS, weights=WEIGHTS, harmless=HARMLESS)

"""Published checkpoints: each format is one file of tables, read forwards to load and backwards to save.

Nothing here imports torch: configs are read without it, and tensors are handed in.
"""

from transformulary.formats.folder import FORMATS, Described, describe, format_for, read_json
from transformulary.formats.format import TIED, Format, Key, Rule, Source, Transposed, unwrapped
from transformulary.formats.header import Entry, read_header

__all__ = [
    "FORMATS",
    "TIED",
    "Described",
    "Entry",
    "Format",
    "Key",
    "Rule",
    "Source",
    "Transposed",
    "describe",
    "format_for",
    "read_header",
    "read_json",
    "unwrapped",
]

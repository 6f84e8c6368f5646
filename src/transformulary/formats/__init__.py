"""Published checkpoints: each format is one file of tables, read forwards to load and backwards to save.

Nothing here imports torch: configs and tensors are read without it, and tensors to be saved are handed in.
"""

from transformulary.formats.folder import (
    FORMATS,
    READABLE,
    Described,
    assumed,
    config_of,
    describe,
    format_for,
    reader,
    theta_source,
    theta_stored,
    understood,
)
from transformulary.formats.format import Format, Key, Origin, Rule, Transposed, unwrapped
from transformulary.formats.generation import Defaults
from transformulary.formats.header import Entry, read_floats, read_header, read_metadata
from transformulary.formats.names import TIED, apart, member, parts, place, shapes
from transformulary.formats.sources import Source, Stored, open_source
from transformulary.formats.strict import read_json

__all__ = [
    "FORMATS",
    "READABLE",
    "TIED",
    "Defaults",
    "Described",
    "Entry",
    "Format",
    "Key",
    "Origin",
    "Rule",
    "Source",
    "Stored",
    "Transposed",
    "apart",
    "assumed",
    "config_of",
    "describe",
    "format_for",
    "member",
    "open_source",
    "parts",
    "place",
    "read_floats",
    "read_header",
    "read_json",
    "read_metadata",
    "reader",
    "shapes",
    "theta_source",
    "theta_stored",
    "understood",
    "unwrapped",
]

"""Published checkpoints: each format is one file of tables, read forwards to load and backwards to save.

Nothing here imports torch: configs and tensors are read without it, and tensors to be saved are handed in.
"""

from transformulary.formats.folder import (
    FORMATS,
    ON_TOP,
    READABLE,
    Described,
    Outline,
    config_of,
    describe,
    format_for,
    outline,
    reader,
    theta_source,
    theta_stored,
    understood,
    written_as,
)
from transformulary.formats.format import Format, Key
from transformulary.formats.generation import AnswerDefaults, Defaults
from transformulary.formats.header import Entry, read_floats, read_header, read_metadata
from transformulary.formats.names import TIED, apart, member, parts, place, shapes
from transformulary.formats.pooling import Pooling
from transformulary.formats.rules import Head, Origin, Rule, Transposed, classes, unwrapped
from transformulary.formats.sources import INDEX, READERS, Source, Stored, copied, open_source
from transformulary.formats.strict import read_json
from transformulary.formats.users import named_format

__all__ = [
    "FORMATS",
    "INDEX",
    "ON_TOP",
    "READABLE",
    "READERS",
    "TIED",
    "AnswerDefaults",
    "Defaults",
    "Described",
    "Entry",
    "Format",
    "Head",
    "Key",
    "Origin",
    "Outline",
    "Pooling",
    "Rule",
    "Source",
    "Stored",
    "Transposed",
    "apart",
    "classes",
    "config_of",
    "copied",
    "describe",
    "format_for",
    "member",
    "named_format",
    "open_source",
    "outline",
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
    "written_as",
]

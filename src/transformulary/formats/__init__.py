"""Published checkpoints: each format is one file of tables, read forwards to load and backwards to save."""

from transformulary.errors import CheckpointError
from transformulary.formats.format import Format, Key, Rule, Source, Transposed
from transformulary.formats.gpt2 import GPT2
from transformulary.formats.header import Entry, read_header
from transformulary.formats.native import NATIVE
from transformulary.paper import DTransformerConfig

#: In the order of preference: a model is saved in the first format that can express its config.
FORMATS = (GPT2, NATIVE)


def format_of(theirs: dict[str, object]) -> Format:
    """The format of a folder, told by the `model_type` of its config.json.  Raises CheckpointError: none of ours."""
    for known in FORMATS:
        if theirs.get("model_type") == known.model_type:
            return known
    raise CheckpointError(
        f"model_type = {theirs.get('model_type')!r} is none that can be read: "
        f"{', '.join(known.model_type for known in FORMATS)}."
    )


def format_for(config: DTransformerConfig) -> Format:
    """The first format that reads back exactly this config from what it writes."""
    return next(known for known in FORMATS if known.expresses(config))


__all__ = [
    "FORMATS",
    "GPT2",
    "NATIVE",
    "Entry",
    "Format",
    "Key",
    "Rule",
    "Source",
    "Transposed",
    "format_for",
    "format_of",
    "read_header",
]

"""Our own format, for every config that no published format can express: the paper's names, nothing renamed."""

from dataclasses import fields

from transformulary.formats.format import NEEDED, Format, Key
from transformulary.formats.names import TENSORS
from transformulary.formats.rules import Head, Rule
from transformulary.paper import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
)

#: Architecture -> how config.json calls it.
KINDS: dict[type[Config], str] = {
    DTransformerConfig: "transformulary",
    ETransformerConfig: "transformulary_encoder",
    EDTransformerConfig: "transformulary_encoder_decoder",
    PreEDTransformerConfig: "transformulary_encoder_decoder_8a",
}
#: What config.json tells `transformers` about the folder.
HARMLESS = frozenset({"bos_token_id", "decoder_start_token_id", "dtype", "eos_token_id", "pad_token_id"})
_TOKENS = [f"{module}.{kind}" for module in ("W_f", "norm", "W_u") for kind in ("weight", "bias")]
_CLASSES = [f"{module}.{kind}" for module in ("W_pool", "W_c") for kind in ("weight", "bias")]
#: What an encoder may give.
HEADS = (
    Head("classes", "W_c.*", "EClassifier", tuple(Rule(n, n) for n in _CLASSES)),
    Head("tokens", "W_f.*", "ETransformer", tuple(Rule(n, n) for n in _TOKENS)),
    Head("vectors", "", "EEmbedder"),
)


def native(kind: type[Config]) -> Format:
    """The format of one architecture.  No key has a default: every file has them all, and what one lacks is damage."""
    names = TENSORS[kind].values()
    encoder = kind is ETransformerConfig
    return Format(
        KINDS[kind],
        keys=tuple(Key(f.name, f.name, NEEDED) for f in fields(kind)),
        weights=tuple(Rule(name, name) for name in names if not (encoder and name in _TOKENS)),
        heads=HEADS if encoder else (),
        harmless=HARMLESS,
        kind=kind,
    )


NATIVE = tuple(map(native, KINDS))

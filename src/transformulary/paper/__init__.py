"""What the paper says, as data; standard library only."""

from transformulary.paper.choices import SLOTS, Choices
from transformulary.paper.config import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    LayerConfig,
    PreEDTransformerConfig,
    Sizes,
    TwoStacks,
    Widths,
)
from transformulary.paper.counting import (
    Flops,
    cache_bytes,
    cache_bytes_per_token,
    flops,
    flops_per_token,
    number_of_parameters,
    training_bytes,
    training_flops,
    weight_bytes,
)
from transformulary.paper.masks import Causal, Fixed, Full, Local, Mask, Prefix, Strided, Union, parse_mask
from transformulary.paper.parameters import leaves, parameters
from transformulary.paper.practice import PRACTICES, Inference, Training
from transformulary.paper.presets import Preset, preset
from transformulary.paper.reading import Read
from transformulary.paper.symbols import SYMBOLS, Symbol, called, symbol
from transformulary.paper.top import Top

__all__ = [
    "PRACTICES",
    "SLOTS",
    "SYMBOLS",
    "Causal",
    "Choices",
    "Config",
    "DTransformerConfig",
    "EDTransformerConfig",
    "ETransformerConfig",
    "Fixed",
    "Flops",
    "Full",
    "Inference",
    "LayerConfig",
    "Local",
    "Mask",
    "PreEDTransformerConfig",
    "Prefix",
    "Preset",
    "Read",
    "Sizes",
    "Strided",
    "Symbol",
    "Top",
    "Training",
    "TwoStacks",
    "Union",
    "Widths",
    "cache_bytes",
    "cache_bytes_per_token",
    "called",
    "flops",
    "flops_per_token",
    "leaves",
    "number_of_parameters",
    "parameters",
    "parse_mask",
    "preset",
    "symbol",
    "training_bytes",
    "training_flops",
    "weight_bytes",
]

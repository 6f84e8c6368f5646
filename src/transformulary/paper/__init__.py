"""What the paper says, as data; standard library only."""

from transformulary.paper.config import (
    SLOTS,
    Choices,
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
)
from transformulary.paper.masks import Causal, Fixed, Full, Local, Mask, Prefix, Strided, Union, parse_mask
from transformulary.paper.parameters import leaves, parameters

__all__ = [
    "SLOTS",
    "Causal",
    "Choices",
    "Config",
    "DTransformerConfig",
    "EDTransformerConfig",
    "ETransformerConfig",
    "Fixed",
    "Full",
    "Local",
    "Mask",
    "Prefix",
    "Strided",
    "Union",
    "leaves",
    "parameters",
    "parse_mask",
]

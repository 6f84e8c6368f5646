"""The algorithms in PyTorch: batched, fused, one ROW per token; equal to the oracle, which it never imports."""

from transformulary.errors import require

require("torch", "torch", "transformulary.nn")
require("jaxtyping", "torch", "transformulary.nn")

from transformulary.nn.attention import Attention, MHAttention  # noqa: E402
from transformulary.nn.cache import Fresh, Memory, Past, Remember  # noqa: E402
from transformulary.nn.dtransformer import DTransformer  # noqa: E402
from transformulary.nn.edtransformer import EDTransformer, Source  # noqa: E402
from transformulary.nn.etransformer import EClassifier, EEmbedder, Encoder, ETransformer  # noqa: E402
from transformulary.nn.layers import TransformerBlock  # noqa: E402
from transformulary.nn.slots import TABLES  # noqa: E402
from transformulary.nn.transformer import Transformer, evaluating, initialise  # noqa: E402
from transformulary.nn.weights import EDWeights, attention_weights  # noqa: E402

__all__ = [
    "TABLES",
    "Attention",
    "DTransformer",
    "EClassifier",
    "EDTransformer",
    "EDWeights",
    "EEmbedder",
    "ETransformer",
    "Encoder",
    "Fresh",
    "MHAttention",
    "Memory",
    "Past",
    "Remember",
    "Source",
    "Transformer",
    "TransformerBlock",
    "attention_weights",
    "evaluating",
    "initialise",
]

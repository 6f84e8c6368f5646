"""The algorithms in PyTorch: batched, fused, one ROW per token; equal to the oracle, which it never imports."""

from transformulary.errors import require

require("torch", "torch", "transformulary.nn")
require("jaxtyping", "torch", "transformulary.nn")

from transformulary.nn.cache import Fresh, Memory, Remember  # noqa: E402
from transformulary.nn.dtransformer import DTransformer, attention_weights, evaluating, initialise  # noqa: E402
from transformulary.nn.slots import TABLES  # noqa: E402

__all__ = ["TABLES", "DTransformer", "Fresh", "Memory", "Remember", "attention_weights", "evaluating", "initialise"]

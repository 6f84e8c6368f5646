"""What a model costs, as numbers and as the head of a page."""

from __future__ import annotations

from typing import Any

from transformulary.cli._table import size, table
from transformulary.paper import (
    Config,
    ETransformerConfig,
    cache_bytes,
    flops_per_token,
    number_of_parameters,
    training_bytes,
    weight_bytes,
)

#: In which precisions bytes are counted.
PRECISIONS = ("float32", "bfloat16", "int8")


def counts(config: Config) -> dict[str, Any]:
    """Parameters, FLOPs a token in ell_max tokens, bytes by precision; None where there is no such thing."""
    ell = config.ell_max
    work = flops_per_token(config, ell)
    encoder = isinstance(config, ETransformerConfig)
    return {
        "parameters": number_of_parameters(config),
        "flops_per_token": {"ell": ell, "matrices": work.matrices, "attention": work.attention},
        "bytes": {
            dtype: {
                "weights": weight_bytes(config, dtype),
                "cache": None if encoder else cache_bytes(config, ell, dtype=dtype),
                "training": None if dtype == "int8" else training_bytes(config, dtype),
            }
            for dtype in PRECISIONS
        },
    }


def as_text(counted: dict[str, Any], published: str = "") -> str:
    """The counts, a few lines of text."""
    work = counted["flops_per_token"]
    printed = f" (published: {published})" if published else ""
    rows = [["", "weights", f"cache of {work['ell']:,} tokens", "training"]]
    rows += [[dtype, *map(_size, sizes.values())] for dtype, sizes in counted["bytes"].items()]
    return "\n".join([
        f"{counted['parameters']:,} parameters{printed}",
        f"{work['matrices']:,.0f} FLOPs a token for matrices, {work['attention']:,.0f} for attention among "
        f"{work['ell']:,} tokens; three times that in training",
        table(rows, right=range(1, 4)),
    ])  # fmt: skip


def _size(n: int | None) -> str:
    return "-" if n is None else size(n)

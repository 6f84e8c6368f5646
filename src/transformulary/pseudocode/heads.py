"""What stands above a model's algorithms: what it is called, where its numbers are from, what it costs."""

from __future__ import annotations

from typing import Any

from transformulary.paper import (
    Config,
    ETransformerConfig,
    Preset,
    cache_bytes,
    flops_per_token,
    number_of_parameters,
    training_bytes,
    weight_bytes,
)
from transformulary.pseudocode.nodes import Head
from transformulary.tables import size

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


def head(model: Config | Preset, name: str = "") -> Head:
    """What is said of a model.

    Args:
        model: its config, or a preset, which has a name, a source and notes; of an architecture nothing is counted.
        name: what a config is called.
    """
    if not isinstance(model, Preset):
        return Head(name or type(model).__name__, *_costs(model))
    family = model.family
    title, said = f"{family.title} ({model.name})", tuple(filter(None, (family.source, model.note)))
    if not model.sized:
        return Head(title, (*said, f"Sizes: {', '.join(size.name for size in family.presets())}"))
    costs, table = _costs(model.config, model.published)
    return Head(title, (*said, *costs), table)


def _costs(config: Config, published: str = "") -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Sentences, and a table of bytes."""
    counted = counts(config)
    work = counted["flops_per_token"]
    printed = f" (published: {published})" if published else ""
    said = (
        f"{counted['parameters']:,} parameters{printed}",
        f"{work['matrices']:,.0f} FLOPs a token for matrices, {work['attention']:,.0f} for attention among "
        f"{work['ell']:,} tokens; three times that in training",
    )
    rows = [("", "weights", f"cache of {work['ell']:,} tokens", "training")]
    rows += [(dtype, *map(_size, sizes.values())) for dtype, sizes in counted["bytes"].items()]
    return said, tuple(rows)


def _size(n: int | None) -> str:
    return "-" if n is None else size(n)


def sizes(a: Config, b: Config, names: tuple[str, str]) -> tuple[tuple[str, ...], ...]:
    """A table of the hyperparameters in which two models of one architecture differ; without rows if none does."""
    ours, theirs = (({"parameters": number_of_parameters(c)} | c.to_dict()) for c in (a, b))
    rows = [(name, _number(ours[name]), _number(theirs[name])) for name in ours if ours[name] != theirs.get(name)]
    return (("", *names), *rows) if rows else ()


def _number(value: object) -> str:
    return f"{value:,}" if type(value) is int else str(value)

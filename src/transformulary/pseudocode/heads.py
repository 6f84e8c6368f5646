"""What stands above a model's algorithms: what it is called, where its numbers are from, what it costs."""

from __future__ import annotations

from typing import Any

from transformulary.paper import (
    Config,
    Preset,
    cache_bytes,
    flops_per_token,
    number_of_parameters,
    training_bytes,
    weight_bytes,
)
from transformulary.paper.top import GIVES_TOKENS, Top
from transformulary.pseudocode.nodes import Head, Line
from transformulary.pseudocode.prose import plain
from transformulary.tables import size

#: In which precisions bytes are counted.
PRECISIONS = ("float32", "bfloat16", "int8")


def counts(config: Config, top: Top = GIVES_TOKENS) -> dict[str, Any]:
    """Parameters, FLOPs a token in ell_max tokens, bytes by precision; None where there is no such thing."""
    ell = config.ell_max
    work = flops_per_token(config, ell, top=top)
    return {
        "parameters": number_of_parameters(config, top),
        "flops_per_token": {"ell": ell, "matrices": work.matrices, "attention": work.attention},
        "bytes": {
            dtype: {
                "weights": weight_bytes(config, dtype, top),
                "cache": cache_bytes(config, ell, dtype=dtype) or None,
                "training": None if dtype == "int8" else training_bytes(config, dtype, top),
            }
            for dtype in PRECISIONS
        },
    }


def head(model: Config | Preset, name: str = "", says: tuple[str, ...] = (), top: Top = GIVES_TOKENS) -> Head:
    """What is said of a model.

    Args:
        model: its config, or a preset, which has a name, a source and notes; of an architecture nothing is counted.
        name: what a config is called.
        says: what else is said of a config.
        top: what stands on top of the layers, of an encoder that is no preset.
    """
    if not isinstance(model, Preset):
        said = (*costs(model, top=top), *map(plain, says), KEPT)
        return Head(name or type(model).__name__, said, _bytes(model, top))
    family = model.family
    title, said = f"{family.title} ({model.name})", tuple(map(plain, filter(None, (family.source, model.note))))
    if not model.sized:
        return Head(title, (*said, plain(f"Sizes: {', '.join(size.name for size in family.presets())}")))
    return Head(title, (*said, *costs(model.config, model.published), KEPT), _bytes(model.config))


#: Why the bytes of training are the same in both precisions.
KEPT = plain(
    "Training keeps parameters, gradients and AdamW's two moments in float32, also where products are in bfloat16."
)


def costs(config: Config, published: str = "", top: Top = GIVES_TOKENS) -> tuple[Line, ...]:
    """How many parameters a model has, and what a token costs."""
    counted = counts(config, top)
    work = counted["flops_per_token"]
    printed = f" (published: {published})" if published else ""
    said = (
        f"{counted['parameters']:,} parameters{printed}",
        f"{work['matrices']:,.0f} FLOPs a token for matrices, {work['attention']:,.0f} for attention among "
        f"{work['ell']:,} tokens; three times that in training",
    )
    return tuple(map(plain, said))


def _bytes(config: Config, top: Top = GIVES_TOKENS) -> tuple[tuple[str, ...], ...]:
    """A table of bytes."""
    counted = counts(config, top)["bytes"]
    rows = [("", "weights", f"cache of {config.ell_max:,} tokens", "training")]
    return (*rows, *((dtype, *map(_size, sizes.values())) for dtype, sizes in counted.items()))


def _size(n: int | None) -> str:
    return "-" if n is None else size(n)


def sizes(
    a: Config, b: Config, names: tuple[str, str], tops: tuple[Top, Top] = (GIVES_TOKENS, GIVES_TOKENS)
) -> tuple[tuple[str, ...], ...]:
    """A table of the hyperparameters in which two models of one architecture differ; without rows if none does."""
    ours, theirs = (_sizes(c, top) for c, top in zip((a, b), tops, strict=True))
    chosen = [name for name in ours if any(c[name] != c.get(USUAL.get(name, "")) for c in (ours, theirs))]
    rows = [(name, _number(ours[name]), _number(theirs[name])) for name in chosen if ours[name] != theirs[name]]
    return (("", *names), *rows) if rows else ()


def _sizes(config: Config, top: Top) -> dict[str, Any]:
    found = {"parameters": number_of_parameters(config, top), **config.to_dict(), "N_C": top.N_C}
    return found if top.gives == "tokens" else {name: found[name] for name in found if name not in ("d_f", "tied")}


#: Sizes that are no choice where they are what another one is.
USUAL = {"H_kv": "H", "d_mid": "d_attn", "ell_train": "ell_max"}


def _number(value: object) -> str:
    return f"{value:,}" if type(value) is int else str(value)

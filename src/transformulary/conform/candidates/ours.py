"""Where the lines can be seen while one of our fast encoders, or encoder-decoders, runs."""

from __future__ import annotations

from transformulary.paper import ETransformerConfig, PreEDTransformerConfig, TwoStacks

Places = dict[str, str]

#: Lines 10-12 of Algorithm 9, where an encoder has them.
TOKENS = {"9.10": "act:out", "9.11": "norm:out", "9.12": "W_u:out"}


def encoder(config: ETransformerConfig) -> Places:
    """Those of Algorithm 9, up to line 9."""
    normed = {"9.3a": "norm_x:out"} if config.embedding_norm else {}
    return {"9.3": "norm_x:in", **normed, **_post("9", "layers", {"norm_1": 5, "norm_2": 7})}


def encoder_decoder(config: TwoStacks) -> Places:
    """Those of Algorithm 8, or 8a."""
    if isinstance(config, PreEDTransformerConfig):
        ends = {"8a.10": "norm_enc:out", "8a.22": "norm_dec:out", "8a.23": "W_u:out"}
        lines = _pre("encoder", 3, "12") | _pre("decoder", 13, "345")
        number, first = "8a", 13
    else:
        ends = {"8.21": "W_u:out"}
        lines = _post("8", "encoder", {"norm_1": 5, "norm_2": 7})
        lines |= _post("8", "decoder", {"norm_3": 14, "norm_4": 16, "norm_5": 18})
        number, first = "8", 12
    embedded = {f"{number}.3": "norm_z:in", f"{number}.{first}": "norm_x:in"}
    normed = {f"{number}.3a": "norm_z:out", f"{number}.{first}a": "norm_x:out"} if config.embedding_norm else {}
    return embedded | normed | lines | ends


def _post(number: str, stack: str, norms: dict[str, int]) -> Places:
    """Layers that end with norms: each norm is given the sum of the line before it."""
    found = {}
    for norm, line in norms.items():
        found[f"{number}.{line}[l]"] = f"{stack}.{{l}}.{norm}:in"
        found[f"{number}.{line + 1}[l]"] = f"{stack}.{{l}}.{norm}:out"
    return found


def _pre(stack: str, first: int, norms: str) -> Places:
    """Layers that begin with norms; `first`: the line of the embedding."""
    found = {}
    for k, norm in enumerate(norms):
        line = first + 2 + 2 * k
        found[f"8a.{line}[l]"] = f"{stack}.{{l}}.norm_{norm}:out"
        if k:
            found[f"8a.{line - 1}[l]"] = f"{stack}.{{l}}.norm_{norm}:in"
    return found | {f"8a.{first + 1 + 2 * len(norms)}[l]": f"{stack}.{{l}}:out"}

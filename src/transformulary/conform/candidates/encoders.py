"""Where the lines can be seen while `transformers`' BERT, Marian, BART and T5 run."""

from __future__ import annotations

Places = dict[str, str]

BERT = {
    "9.3": "embeddings.LayerNorm:in",
    "9.3a": "embeddings.LayerNorm:out",
    "9.5[l]": "encoder.layer.{l}.attention.output.LayerNorm:in",
    "9.6[l]": "encoder.layer.{l}.attention.output.LayerNorm:out",
    "9.7[l]": "encoder.layer.{l}.output.LayerNorm:in",
    "9.8[l]": "encoder.layer.{l}.output.LayerNorm:out",
}
TOKENS = {
    "9.10": "cls.predictions.transform.LayerNorm:in",
    "9.11": "cls.predictions.transform.LayerNorm:out",
    "9.12": "cls.predictions.decoder:out",
}
CLASSES = {"9c.1": "bert.pooler:out"}


def under(prefix: str, places: Places) -> Places:
    """The same in a model that has theirs as a part."""
    return {path: prefix + place for path, place in places.items()}


def _of_bart(stack: str, norms: dict[str, int]) -> Places:
    """Layers that end with norms: each norm is given the sum of the line before it."""
    found = {}
    for norm, line in norms.items():
        found[f"8.{line}[l]"] = f"model.{stack}.layers.{{l}}.{norm}_layer_norm:in"
        found[f"8.{line + 1}[l]"] = f"model.{stack}.layers.{{l}}.{norm}_layer_norm:out"
    return found


MARIAN = {
    "8.3": "model.encoder.layers.0:in",
    **_of_bart("encoder", {"self_attn": 5, "final": 7}),
    "8.12": "model.decoder.layers.0:in",
    **_of_bart("decoder", {"self_attn": 14, "encoder_attn": 16, "final": 18}),
}
BART = MARIAN | {
    "8.3": "model.encoder.layernorm_embedding:in",
    "8.3a": "model.encoder.layernorm_embedding:out",
    "8.12": "model.decoder.layernorm_embedding:in",
    "8.12a": "model.decoder.layernorm_embedding:out",
}
#: Marian's sinusoids are stored in float32 whatever the model.
SINUSOIDS = dict.fromkeys(("8.3", "8.12"), "float32")


def _of_t5(stack: str, first: int, parts: int) -> Places:
    """Layers that begin with norms; `first`: the line of the embedding."""
    block, found = f"{stack}.block.{{l}}", {f"8a.{first}": f"{stack}.block.0:in"}
    for k in range(parts):
        line = first + 2 + 2 * k
        found[f"8a.{line}[l]"] = f"{block}.layer.{k}.layer_norm:out"
        found[f"8a.{line + 1}[l]"] = f"{block}.layer.{k + 1}.layer_norm:in" if k + 1 < parts else f"{block}:out"
    return found


T5 = {
    **_of_t5("encoder", 3, 2),
    "8a.10": "encoder.final_layer_norm:out",
    **_of_t5("decoder", 13, 3),
    "8a.22": "decoder.final_layer_norm:out",
    "8a.23": "lm_head:out",
}
#: Its norms are computed in float32 whatever the model.
NORMS = dict.fromkeys((f"8a.{line}" for line in (5, 7, 10, 15, 17, 19, 22)), "float32")

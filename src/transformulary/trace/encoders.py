"""What `transformers` calls the values of Algorithms 8, 8a, 9 and 9c: BERT, Marian, BART, T5."""

from __future__ import annotations

from transformulary.paper import Config
from transformulary.trace.name import Name, plain


def _attention(line: str, projections: tuple[str, ...], W_o: str, weights: str) -> tuple[Name, ...]:
    """What is within a line that attends: the modules of queries, keys and values, of W_o, and what gives weights."""
    head = f"{line}[l]/5.2[h]"
    parts = zip("123", "qkv", projections, strict=True)
    return (
        *(Name(f"{head}/4.{n}", f"{module}:out", f"[0, :, {{{x}}}].T") for n, x, module in parts),
        Name(f"{head}/4.6:softmax", weights, "[0, {h}].T"),
        Name(f"{head}/4.6", f"{W_o}:in", "[0, :, {z}].T"),
        Name(f"{line}[l]/5.3", f"{W_o}:in"),
        Name(f"{line}[l]/5.4", f"{W_o}:out"),
        Name(f"{line}[l]:MHAttention", f"{W_o}:out"),
    )


_B, _E = "bert.encoder.layer.{l}.", "bert.embeddings."
BERT = (
    Name("9.2[t]:W_e", f"{_E}word_embeddings:out", "[0, {t}]"),
    Name("9.2a[t]:W_s", f"{_E}token_type_embeddings:out", "[0, {t}]"),
    Name("9.3", f"{_E}LayerNorm:in"),
    Name("9.3a", f"{_E}LayerNorm:out"),
    *_attention(
        "9.5", tuple(f"{_B}attention.self.{x}" for x in ("query", "key", "value")), f"{_B}attention.output.dense",
        f"{_B}attention.self:out[1]",
    ),
    Name("9.5[l]", f"{_B}attention.output.LayerNorm:in"),
    Name("9.6[l]", f"{_B}attention.output.LayerNorm:out"),
    Name("9.7[l]:ACTIVATION", f"{_B}intermediate:out", when=plain),
    Name("9.7[l]", f"{_B}output.LayerNorm:in"),
    Name("9.8[l]", f"{_B}output.LayerNorm:out"),
    Name("9.10", "cls.predictions.transform.LayerNorm:in"),
    Name("9.11", "cls.predictions.transform.LayerNorm:out"),
    Name("9.12:logits", "cls.predictions.decoder:out"),
    Name("9c.1", "bert.pooler:out", "[0]"),
    Name("9c.2:logits", "classifier:out", "[0]"),
)  # fmt: skip


def _of_bart(stack: str, first: str, lines: dict[str, str]) -> tuple[Name, ...]:
    """A stack of layers that end with norms: their word for a part of a layer -> the line of its sum."""
    block, found = f"model.{stack}.layers.{{l}}", [Name(f"8.{first}", f"model.{stack}.layers.0:in")]
    for theirs, label in lines.items():
        norm = f"{block}.{theirs}_layer_norm"
        found += [Name(f"8.{label}[l]", f"{norm}:in"), Name(f"8.{int(label) + 1}[l]", f"{norm}:out")]
        if theirs != "final":
            module = f"{block}.{theirs}"
            projections = tuple(f"{module}.{x}_proj" for x in "qkv")
            found += _attention(f"8.{label}", projections, f"{module}.out_proj", f"{module}:out[1]")
    return (*found, Name(f"8.{lines['final']}[l]:ACTIVATION", f"{block}.fc2:in", when=plain))


MARIAN = (
    Name("8.2[t]:W_e", "model.encoder.embed_tokens:out", "[0, {t}]"),
    *_of_bart("encoder", "3", {"self_attn": "5", "final": "7"}),
    Name("8.11[t]:W_e", "model.decoder.embed_tokens:out", "[0, {t}]"),
    *_of_bart("decoder", "12", {"self_attn": "14", "encoder_attn": "16", "final": "18"}),
    Name("8.21:W_u", "lm_head:out"),
    Name("8.21:logits", ":out"),
)


def _gated(c: Config) -> bool:
    return not plain(c)


_NORMS = {"8.3": "encoder", "8.12": "decoder"}
BART = (
    *(name for name in MARIAN if name.path not in _NORMS),
    *(Name(line, f"model.{stack}.layernorm_embedding:in") for line, stack in _NORMS.items()),
    *(Name(f"{line}a", f"model.{stack}.layernorm_embedding:out") for line, stack in _NORMS.items()),
)


def _of_t5(stack: str, first: int, parts: tuple[str, ...], mlp: str) -> tuple[Name, ...]:
    """A stack of layers that begin with norms; `first`: the line of the first embedding."""
    block, found = f"{stack}.block.{{l}}", [Name(f"8a.{first}", f"{stack}.block.0:in")]
    for k, part in enumerate(parts):
        norm, line, module = f"8a.{first + 2 + 2 * k}[l]", f"8a.{first + 3 + 2 * k}", f"{block}.layer.{k}.{part}"
        found += [Name(norm, f"{block}.layer.{k}.layer_norm:out")]
        if part == "DenseReluDense":
            one, two, gate = (f"W_mlp{n}" for n in mlp)
            names = {one: "wi:out", two: "wo:out", "ACTIVATION": "act:out"}
            found += [Name(f"{line}[l]:{ours}", f"{module}.{theirs}", when=plain) for ours, theirs in names.items()]
            gated = {one: "wi_0:out", gate: "wi_1:out", two: "wo:out", "ACTIVATION": "act:out"}
            found += [Name(f"{line}[l]:{ours}", f"{module}.{theirs}", when=_gated) for ours, theirs in gated.items()]
            found += [Name(f"{line}[l]", f"{block}:out")]
        else:
            found += _attention(line, tuple(f"{module}.{x}" for x in "qkv"), f"{module}.o", f"{module}:out[2]")
            found += [Name(f"{line}[l]", f"{block}.layer.{k + 1}.layer_norm:in")]
    return tuple(found)


T5 = (
    *_of_t5("encoder", 3, ("SelfAttention", "DenseReluDense"), "125"),
    Name("8a.10", "encoder.final_layer_norm:out"),
    *_of_t5("decoder", 13, ("SelfAttention", "EncDecAttention", "DenseReluDense"), "346"),
    Name("8a.22", "decoder.final_layer_norm:out"),
    Name("8a.23:logits", "lm_head:out"),
)

"""Configs that print every kind of line: the paper's, and published models' choices at small sizes."""

from transformulary import oracle
from transformulary.paper import (
    Causal,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Fixed,
    Full,
    Local,
    PreEDTransformerConfig,
    Prefix,
    Strided,
)

SMALL = {"N_V": 11, "ell_max": 9, "H": 4, "d_e": 16, "d_mlp": 20}
NO_BIASES = frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"})

CONFIGS = {
    "paper 8": EDTransformerConfig(**SMALL, L_enc=2, L_dec=1),
    "paper 9": ETransformerConfig(**SMALL, L=2, d_f=12),
    "paper 10": DTransformerConfig(**SMALL, L=2),
    "GPT-2": DTransformerConfig(**SMALL, L=2, eps=1e-5, activation="gelu_tanh", tied=True),
    "BERT": ETransformerConfig(
        **SMALL, L=2, eps=1e-12, embedding_norm=True, segments=2, tied=True, absent=frozenset()
    ),
    "Marian": EDTransformerConfig(
        **SMALL, L_enc=2, L_dec=2, eps=1e-5, activation="silu", positions="sinusoid_halves", embedding_scale="sqrt",
        tied=True, absent=frozenset(),
    ),
    "Llama": DTransformerConfig(
        **SMALL, L=2, H_kv=2, eps=1e-5, norm="rms_norm", activation="silu", mlp="gated", positions="rotary",
        base=500000.0, absent=NO_BIASES,
    ),
    "Qwen3": DTransformerConfig(
        **SMALL, L=2, H_kv=2, d_attn=6, eps=1e-6, norm="rms_norm", activation="silu", mlp="gated", positions="rotary",
        qk_norm=True, absent=NO_BIASES,
    ),
    "annalog": EDTransformerConfig(
        **SMALL, L_enc=2, L_dec=2, eps=1e-5, embedding_scale="sqrt", separate={"W_e", "W_p"}, absent=frozenset(),
    ),
    "layer norms of queries and keys": EDTransformerConfig(**SMALL, L_enc=1, L_dec=1, eps=1e-5, qk_norm=True),
    **{
        f"Llama, {kind}": DTransformerConfig(
            **SMALL | {"d_e": 32, "H": 2}, L=1, eps=1e-5, norm="rms_norm", positions="rotary", frequencies=kind,
            factor=8.0, ell_train=4, beta_slow=0.25, beta_fast=4.0, base=100.0,
            attention_factor=1.25 if kind == "yarn" else 1.0,
        )
        for kind in ("linear", "dynamic", "yarn", "llama3")
    },
    "Gopher": DTransformerConfig(**SMALL, L=1, eps=1e-5, norm="rms_norm", positions="relative"),
    "GPT-Neo": DTransformerConfig(
        **SMALL, L=2, eps=1e-5, activation="gelu_tanh", scale="none", tied=True, mask=(Causal(), Local(3)),
        absent=frozenset({"b_q", "b_k", "b_v", "b_u"}),
    ),
    "sparse": DTransformerConfig(
        **SMALL, L=6, d_attn=3, d_mid=2, mask=(Fixed(4, 2), Local(2) | Strided(3), Prefix(3), Full(), Strided(2))
    ),
    "T5's buckets": DTransformerConfig(**SMALL, L=1, positions="bucketed", norm="rms_norm", eps=1e-6),
    "T5's buckets in both stacks": EDTransformerConfig(**SMALL, L_enc=1, L_dec=2, positions="bucketed", scale="none"),
    "T5": PreEDTransformerConfig(
        **SMALL, L_enc=2, L_dec=2, d_attn=3, positions="bucketed", norm="rms_norm", eps=1e-6, scale="none", tied=True,
        unembedding_scale="sqrt",
        absent=frozenset({"b_q", "b_k", "b_v", "b_o", "b_u"} | {f"b_mlp{k}" for k in range(1, 7)}),
    ),
    "pre-norm in both stacks": PreEDTransformerConfig(
        **SMALL, L_enc=1, L_dec=1, eps=1e-5, mlp="gated", embedding_norm=True, absent=frozenset(),
    ),
    "a gate in each stack": EDTransformerConfig(**SMALL, L_enc=1, L_dec=1, mlp="gated", embedding_norm=True),
    **{
        kind: DTransformerConfig(**SMALL | {"d_e": 6, "H": 1}, L=1, positions=kind, eps=1e-5)
        for kind in ("sinusoid", "sinusoid_vaswani", "sinusoid_t2t", "none")
    },
}  # fmt: skip

x, z, s = [3, 1, 4, 1, 5, 9], [2, 7, 1, 8], [0, 0, 1, 1, 0, 1]


def inputs(config):
    """(the algorithm's name, its inputs before theta, those after the config), ids from 0."""
    if isinstance(config, EDTransformerConfig):
        return "EDTransformer", (z, x), ()
    if isinstance(config, PreEDTransformerConfig):
        return "PreEDTransformer", (z, x), ()
    if isinstance(config, ETransformerConfig):
        return "ETransformer", (x,), (s,) if config.segments else ()
    return "DTransformer", (x,), ()


def by_the_oracle(config, theta):
    """P of the oracle."""
    name, before, after = inputs(config)
    return getattr(oracle, name)(*before, theta, config, *after)

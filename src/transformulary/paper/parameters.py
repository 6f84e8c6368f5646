"""The parameters of each architecture with their shapes, as data.

Random values, counts, the heads of the pseudocode's boxes and the declared zeros all come from these
tables.  A name may carry the size that says how many there are, "W_q[H]"; a shape is a list of sizes,
"d_attn d_e", each a size of the config or a product of two, "H*d_mid".  W (calligraphic in the paper,
equation (4)) is the bundle of one multi-head layer.  Keys and values have H_kv heads (the paper: H).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from transformulary.paper.config import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
    TwoStacks,
)
from transformulary.paper.top import GIVES_TOKENS, Top

Shapes = dict[str, "str | Shapes"]

#: The tables of an embedding: for tokens, and for places; z may have its own.
TOKENS, PLACES = ("W_e", "W_e_z"), ("W_p", "W_p_z")
#: Equation (4): one multi-head layer.
HEADS: Shapes = {
    "W_q[H]": "d_attn d_e",
    "b_q[H]": "d_attn",
    "W_k[H_kv]": "d_attn d_e",
    "b_k[H_kv]": "d_attn",
    "W_v[H_kv]": "d_mid d_e",
    "b_v[H_kv]": "d_mid",
    "W_o": "d_e H*d_mid",
    "b_o": "d_e",
}
#: What it has besides where queries and keys are normed: the same for all heads.
QK_NORM: Shapes = {"gamma_q": "d_attn", "beta_q": "d_attn", "gamma_k": "d_attn", "beta_k": "d_attn"}
#: What one head's self-attention has besides when positions are relative (Transformer-XL) or bucketed (T5).
POSITIONAL: dict[str, Shapes] = {
    "relative": {"u[H]": "d_attn", "v[H]": "d_attn", "W_r[H]": "d_attn d_e"},
    "bucketed": {"B[H]": "32"},
}

#: Parameters of lines 10-12 of Algorithm 9, which an encoder has that gives tokens; those of Algorithm 9c, with shapes.
OF_TOKENS = frozenset({"W_f", "b_f", "gamma", "beta", "W_u", "b_u"})
OF_CLASSES = {"W_pool": "d_e d_e", "b_pool": "d_e", "W_c": "N_C d_e", "b_c": "N_C"}


def _norms(numbers: str, L: str) -> Shapes:
    return {f"{name}_{k}[{L}]": "d_e" for k in numbers for name in ("gamma", "beta")}


def _mlp(first: int, L: str, gate: str = "") -> Shapes:
    one, two = first, first + 1
    table: Shapes = {
        f"W_mlp{one}[{L}]": "d_mlp d_e",
        f"b_mlp{one}[{L}]": "d_mlp",
        f"W_mlp{two}[{L}]": "d_e d_mlp",
        f"b_mlp{two}[{L}]": "d_e",
    }
    return table | ({f"W_{gate}[{L}]": "d_mlp d_e", f"b_{gate}[{L}]": "d_mlp"} if gate else {})


def parameters(config: Config, top: Top = GIVES_TOKENS) -> Shapes:
    """Every parameter of one model's algorithm, in the paper's order, without those that it declares absent.

    Those of Algorithm 9c, which classifies what Algorithm 9 gives, are OF_CLASSES.
    """
    c = config
    attention = HEADS | (QK_NORM if c.qk_norm else {})
    self_attention = attention | POSITIONAL.get(c.positions, {})
    tables = {"W_e": "d_e N_V"} | ({"W_p": "d_e ell_max"} if c.positions == "learned" else {})
    of_z = c.separate if isinstance(c, TwoStacks) else frozenset()
    table: Shapes = {n: shape for name, shape in tables.items() for n in (name, f"{name}_z")[: 1 + (name in of_z)]}
    gated = c.mlp == "gated"
    match c:
        case EDTransformerConfig():
            encoder, decoder = _stacks(c, self_attention, attention)
            table |= encoder | decoder
        case PreEDTransformerConfig():
            encoder, decoder = _stacks(c, attention, attention)
            table |= _shared(c, "enc") | encoder | {"gamma_enc": "d_e", "beta_enc": "d_e"}
            table |= _shared(c, "dec") | decoder | {"gamma_dec": "d_e", "beta_dec": "d_e"}
        case ETransformerConfig():
            table |= {"W_s": "d_e segments"} if c.segments else {}
            table |= {"gamma_x": "d_e", "beta_x": "d_e"} if c.embedding_norm else {}
            table |= {"W[L]": self_attention} | _norms("12", "L") | _mlp(1, "L", "mlp3" * gated)
            table |= {"W_f": "d_f d_e", "b_f": "d_f", "gamma": "d_f", "beta": "d_f"}
        case DTransformerConfig():
            table |= {"gamma_x": "d_e", "beta_x": "d_e"} if c.embedding_norm else {}
            table |= {"W[L]": self_attention} | _norms("12", "L") | _mlp(1, "L", "mlp3" * gated)
            table |= {"gamma": "d_e", "beta": "d_e"}
    width = "d_f" if isinstance(c, ETransformerConfig) else "d_e"
    table |= {} if c.tied else {"W_u": f"N_V {width}"}
    return _present(table | {"b_u": "N_V"}, c.absent | (OF_TOKENS if top.gives != "tokens" else frozenset()))


def _stacks(c: TwoStacks, among: Shapes, across: Shapes) -> tuple[Shapes, Shapes]:
    """The layers of an encoder and of a decoder, with the norms of their embeddings."""
    gated = c.mlp == "gated"
    encoder: Shapes = {"gamma_z": "d_e", "beta_z": "d_e"} if c.embedding_norm else {}
    encoder |= {"W_enc[L_enc]": among} | _norms("12", "L_enc") | _mlp(1, "L_enc", "mlp5" * gated)
    decoder: Shapes = {"gamma_x": "d_e", "beta_x": "d_e"} if c.embedding_norm else {}
    decoder |= {"W_dec[L_dec]": among, "W_ed[L_dec]": across}
    return encoder, decoder | _norms("345", "L_dec") | _mlp(3, "L_dec", "mlp6" * gated)


def _shared(c: TwoStacks, stack: str) -> Shapes:
    """What positions add to self-attention, once for a whole stack."""
    by_name = {split(name): shape for name, shape in POSITIONAL.get(c.positions, {}).items()}
    return {f"{name}_{stack}[{count}]": shape for (name, count), shape in by_name.items()}


def _present(table: Shapes, absent: frozenset[str]) -> Shapes:
    kept = {name: shape for name, shape in table.items() if name.split("[")[0] not in absent}
    return {name: shape if isinstance(shape, str) else _present(shape, absent) for name, shape in kept.items()}


def size(expression: str, config: Config) -> int:
    """A size of the config ("d_e"), a number ("32") or a product of two ("H*d_mid")."""
    return prod(int(x) if x.isdigit() else getattr(config, x) for x in expression.split("*"))


def split(name: str) -> tuple[str, str]:
    """ "W_q[H]" -> ("W_q", "H"); "W_e" -> ("W_e", "")."""
    base, _, count = name.rstrip("]").partition("[")
    return base, count


def leaves(table: Shapes, config: Config) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """(name, how many of it there are, shape of one) for every array in a table of parameters."""
    for name, shape in table.items():
        base, count = split(name)
        n = size(count, config) if count else 1
        if isinstance(shape, str):
            yield base, n, tuple(size(s, config) for s in shape.split())
        else:
            yield from ((f"{base}.{inner}", n * k, dims) for inner, k, dims in leaves(shape, config))

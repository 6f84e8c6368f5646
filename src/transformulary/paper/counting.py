"""How large a model is and how much it works: parameters, floating point operations, bytes.

Closed formulas in the sizes of a config, so a model of any size costs nothing to count.

**Counting rule.**  An operation is one addition or one multiplication of a matrix product: an (a x b) times
(b x c) product is 2 a b c of them.  Looking up an embedding, norms, softmax, activations, biases and residual
sums are not counted.  A mask saves nothing: a kernel that skips masked scores does less than is counted here.
Training counts three times the forward pass, since each product has two more in the backward pass: one for the
gradient of either factor (W_r's is counted so too, although no gradient of distances is needed).  The rule is that of
Kaplan et al., arXiv:2001.08361, section 2.1, but exact: the terms that grow with the length are kept, and the
unembedding counts whether it is tied or not.

Sources: Algorithms 4, 5 and 8 to 10 and equation (4) of arXiv:2207.09238.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from transformulary.errors import ConfigError
from transformulary.paper.config import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
    TwoStacks,
)
from transformulary.paper.masks import Mask
from transformulary.paper.parameters import POSITIONAL, leaves
from transformulary.paper.top import GIVES_TOKENS, Top

#: Bytes of one number.
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1}


def number_of_parameters(config: Config, top: Top = GIVES_TOKENS) -> int:
    """How many numbers the parameters of a model with this on top are; a tied unembedding is counted once.

    With every bias, H_kv = H and the paper's choices, for Algorithm 10:
    (2 N_V + ell_max) d_e + L (|W| + 4 d_e + |mlp|) + 2 d_e, where |W| = H (2 d_attn (d_e + 1) + d_mid (d_e + 1))
    + d_e (H d_mid + 1) and |mlp| = 2 d_e d_mlp + d_mlp + d_e.
    """
    c = config
    embedding = c.d_e * (c.N_V + c.ell_max * (c.positions == "learned"))
    unembedding = c.N_V * ((not c.tied) * c.d_e + _has(c, "b_u"))
    embedding_norms = "xz" if isinstance(c, TwoStacks) else "x"
    embedding += sum(_norm(c, f"beta_{k}") for k in embedding_norms) if c.embedding_norm else 0
    match c:
        case EDTransformerConfig() | PreEDTransformerConfig():
            pre = isinstance(c, PreEDTransformerConfig)
            embedding += c.d_e * (c.N_V * ("W_e" in c.separate) + c.ell_max * ("W_p" in c.separate))
            last = pre * (_norm(c, "beta_enc") + _norm(c, "beta_dec") + 2 * _positional(c))
            among = _heads(c) if pre else _self_attention(c)
            encoder = among + _norm(c, "beta_1") + _norm(c, "beta_2") + _mlp(c, 1, 2, 5)
            decoder = among + _heads(c) + sum(_norm(c, f"beta_{k}") for k in "345") + _mlp(c, 3, 4, 6)
            return embedding + c.L_enc * encoder + c.L_dec * decoder + last + unembedding
        case ETransformerConfig():
            embedding += c.d_e * c.segments
            last, unembedding = _on_top(c, top), 0
        case DTransformerConfig():
            last = _norm(c, "beta")
    layer = _self_attention(c) + _norm(c, "beta_1") + _norm(c, "beta_2") + _mlp(c, 1, 2, 3)
    return embedding + c.L * layer + last + unembedding


def _on_top(c: ETransformerConfig, top: Top) -> int:
    """Lines 10-12 of Algorithm 9, or Algorithm 9c, or nothing."""
    if top.gives != "tokens":
        return (c.d_e + 1) * (c.d_e + top.N_C) if top.gives == "classes" else 0
    first = c.d_f * (c.d_e + _has(c, "b_f")) + c.d_f * (1 + _has(c, "beta"))
    return first + c.N_V * ((not c.tied) * c.d_f + _has(c, "b_u"))


def _has(c: Config, name: str) -> int:
    return int(name not in c.absent)


def _heads(c: Config) -> int:
    """|W| of equation (4), all heads of one layer, and the norms of queries and keys where there are."""
    queries = c.H * c.d_attn * (c.d_e + _has(c, "b_q"))
    keys = c.H_kv * c.d_attn * (c.d_e + _has(c, "b_k"))
    values = c.H_kv * c.d_mid * (c.d_e + _has(c, "b_v"))
    norms = c.d_attn * (2 + _has(c, "beta_q") + _has(c, "beta_k")) if c.qk_norm else 0
    return queries + keys + values + c.d_e * (c.H * c.d_mid + _has(c, "b_o")) + norms


def _self_attention(c: Config) -> int:
    return _heads(c) + _positional(c)


def _positional(c: Config) -> int:
    """What positions add in self-attention, as the table of parameters declares it."""
    return sum(n * prod(shape) for _, n, shape in leaves(POSITIONAL.get(c.positions, {}), c))


def _mlp(c: Config, one: int, two: int, gate: int) -> int:
    plain = c.d_mlp * (c.d_e + _has(c, f"b_mlp{one}")) + c.d_e * (c.d_mlp + _has(c, f"b_mlp{two}"))
    return plain + (c.d_mlp * (c.d_e + _has(c, f"b_mlp{gate}")) if c.mlp == "gated" else 0)


def _norm(c: Config, beta: str) -> int:
    return c.d_e * (1 + _has(c, beta))


class Flops(NamedTuple):
    """Floating point operations, in two parts: whole numbers, unless they are per token.

    matrices   products of the sequences with parameters: in proportion to the length
    attention  scores and weighted values, K^T Q and V softmax(S): in proportion to its square
    """

    matrices: float
    attention: float

    @property
    def total(self) -> float:
        return self.matrices + self.attention


def flops(config: Config, ell: int, ell_z: int | None = None, top: Top = GIVES_TOKENS) -> Flops:
    """Work of one forward pass (Algorithm 8, 9 or 10) over one sequence, by the counting rule above.

    Relative positions also multiply W_r with every distance that occurs (`ell` of them if each mask is causal, else
    2 ell - 1), and every score with the key of its distance.

    Args:
        config: sizes of the model.
        ell: length of the sequence in tokens; of the primary sequence x in an encoder-decoder.
        ell_z: length of the context sequence z in tokens; encoder-decoders only, `ell` unless given.
        top: what stands on top of an encoder's layers; classes are computed from one token.

    Returns:
        Floating point operations; a multiply-add counts as 2.

    Raises:
        ConfigError: a length is below 1, or above ell_max where positions are learned; `ell_z` has no meaning.
    """
    c, z = config, _context(config, ell, ell_z)
    last = ell * c.N_V * c.d_e
    match c:
        case EDTransformerConfig() | PreEDTransformerConfig():
            parts = [_layers(c, c.L_enc, z, causal=False), _layers(c, c.L_dec, ell, causal=True)]
            parts += [Flops(c.L_dec * _projections(c, ell, z), c.L_dec * _scores(c, ell, z))]
        case ETransformerConfig():
            parts = [_layers(c, c.L, ell, causal=False)]
            last = {"tokens": ell * c.d_f * (c.d_e + c.N_V), "classes": c.d_e * (c.d_e + top.N_C)}.get(top.gives, 0)
        case DTransformerConfig():
            parts = [_layers(c, n, ell, mask.causal) for mask, n in _cycle(c)]
    matrices = sum(part.matrices for part in parts) + last
    return Flops(2 * matrices, 2 * sum(part.attention for part in parts))


def training_flops(config: Config, ell: int, ell_z: int | None = None, top: Top = GIVES_TOKENS) -> Flops:
    """Work of the forward and the backward pass over one sequence: three times `flops`."""
    forward = flops(config, ell, ell_z, top)
    return Flops(3 * forward.matrices, 3 * forward.attention)


def flops_per_token(config: Config, ell: int, ell_z: int | None = None, top: Top = GIVES_TOKENS) -> Flops:
    """Work of one forward pass, divided by the tokens it takes in (of both sequences in an encoder-decoder).

    For a decoder this is also the work of one more token after ell - 1 cached ones.
    """
    forward = flops(config, ell, ell_z, top)
    tokens = ell + (_context(config, ell, ell_z) if isinstance(config, TwoStacks) else 0)
    return Flops(forward.matrices / tokens, forward.attention / tokens)


def _context(c: Config, ell: int, ell_z: int | None) -> int:
    """The length of the context sequence; both lengths checked."""
    if ell_z is not None and not isinstance(c, TwoStacks):
        raise ConfigError(f"ell_z = {ell_z} is given, and {type(c).__name__} has no context sequence.")
    z = ell if ell_z is None else ell_z
    for name, length in (("ell", ell), ("ell_z", z)):
        if length < 1:
            raise ConfigError(f"{name} = {length} must be at least 1.")
        if length > c.ell_max and c.positions == "learned":
            raise ConfigError(f"{name} = {length} is more than ell_max = {c.ell_max}: W_p has no column for the rest.")
    return z


def _cycle(c: DTransformerConfig) -> list[tuple[Mask, int]]:
    """Each mask of the cycle with the number of layers that have it."""
    n = len(c.mask)
    return [(mask, (c.L - k + n - 1) // n) for k, mask in enumerate(c.mask)]


def _layers(c: Config, L: int, ell: int, causal: bool) -> Flops:
    """Multiply-adds of L layers of self-attention and MLP."""
    matrices = _projections(c, ell, ell) + ell * c.d_e * c.d_mlp * (3 if c.mlp == "gated" else 2)
    attention = _scores(c, ell, ell)
    if c.positions == "relative":
        matrices += (ell if causal else 2 * ell - 1) * c.H * c.d_attn * c.d_e
        attention += ell * ell * c.H * c.d_attn
    return Flops(L * matrices, L * attention)


def _projections(c: Config, ell_x: int, ell_z: int) -> int:
    """W_q and W_o meet the tokens that ask, W_k and W_v those that are asked."""
    return c.d_e * (c.d_attn + c.d_mid) * (c.H * ell_x + c.H_kv * ell_z)


def _scores(c: Config, ell_x: int, ell_z: int) -> int:
    return ell_x * ell_z * c.H * (c.d_attn + c.d_mid)


def weight_bytes(config: Config, dtype: str = "float32", top: Top = GIVES_TOKENS) -> int:
    """Bytes of all parameters, every one held as `dtype`: float64, float32, float16, bfloat16 or int8.

    Raises ConfigError for another dtype.
    """
    return number_of_parameters(config, top) * _bytes(dtype)


def training_bytes(config: Config, dtype: str = "float32", top: Top = GIVES_TOKENS) -> int:
    """Bytes of what training keeps from step to step: parameters, their gradients, and the two moments of AdamW.

    Activations come on top.  Where a model computes in float16 or bfloat16, these four are float32 all the same: what a
    step adds to a parameter is often less than half a unit of its last place there.

    Raises ConfigError for int8, in which nothing is trained, and for a dtype as in `weight_bytes`.
    """
    if dtype == "int8":
        raise ConfigError("nothing is trained in int8: a step changes a parameter by less than 1.")
    return 4 * number_of_parameters(config, top) * max(_bytes(dtype), BYTES["float32"])


def cache_bytes(config: Config, ell: int, ell_z: int | None = None, dtype: str = "float32") -> int:
    """Bytes of the keys and values that one sequence of `ell` tokens leaves for the tokens after it.

    Each layer keeps H_kv (d_attn + d_mid) numbers a token; under a local mask only for its `width` nearest tokens.  An
    encoder-decoder also keeps those of the `ell_z` tokens of context.  Where tokens look at later ones (an encoder, a
    mask that is not causal) a new token changes what the others become and nothing can be kept: 0.

    The same holds for dynamic frequencies of rotary positions.

    This is what must be kept.  The fast decoder's own cache keeps every token whatever the mask, in buffers that double
    when they are full: up to twice the bytes of a causal mask, and never fewer than for 64 tokens.

    Raises ConfigError for lengths as in `flops`, and for a dtype as in `weight_bytes`.
    """
    z = _context(config, ell, ell_z)
    match config:
        case EDTransformerConfig() | PreEDTransformerConfig():
            tokens = config.L_dec * (ell + z)
        case ETransformerConfig():
            tokens = 0
        case DTransformerConfig():
            tokens = sum(n * mask.kept(ell) for mask, n in _cycle(config)) if config.remembers else 0
    return tokens * config.H_kv * (config.d_attn + config.d_mid) * _bytes(dtype)


def cache_bytes_per_token(config: Config, dtype: str = "float32") -> int:
    """Bytes by which each token makes the cache longer, until it fills the width of a local mask."""
    if isinstance(config, TwoStacks):
        return config.L_dec * config.H_kv * (config.d_attn + config.d_mid) * _bytes(dtype)
    return cache_bytes(config, 1, dtype=dtype)


def _bytes(dtype: str) -> int:
    if dtype not in BYTES:
        raise ConfigError(f"dtype = {dtype!r} is none of {', '.join(BYTES)}.")
    return BYTES[dtype]

"""Sizes and choices of the three architectures.  The defaults are the paper.

A *size* is a number of elements.  A *choice* (slot) says what one numbered line computes where the
paper or a published model varies it; each slot is a closed table of values, and the same keys are the
keys of the oracle's and of the fast models' tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Self

from transformulary.errors import ConfigError
from transformulary.paper.masks import Causal, Mask, parse_mask

#: slot -> the values it may have; the first is the paper's (Algorithm 8's activation is relu).
SLOTS: dict[str, tuple[str, ...]] = {
    "norm": ("layer_norm", "rms_norm"),
    "activation": ("gelu", "relu", "gelu_tanh", "silu"),
    "mlp": ("plain", "gated"),
    "positions": (
        "learned",
        "none",
        "sinusoid",
        "sinusoid_vaswani",
        "sinusoid_halves",
        "sinusoid_t2t",
        "rotary",
        "relative",
        "bucketed",
    ),
    "scale": ("sqrt", "none"),
    "embedding_scale": ("none", "sqrt"),
}

#: Parameters that a model may lack; each is then a declared 0, and the line that adds it does not print it.
OPTIONAL = frozenset(
    {"b_q", "b_k", "b_v", "b_o", "b_f", "b_u", "W_s", "beta", "beta_x", "beta_z"}
    | {f"b_mlp{i}" for i in range(1, 7)}
    | {f"beta_{k}" for k in range(1, 6)}
)
BETAS = frozenset(name for name in OPTIONAL if name.startswith("beta"))

#: What others call our sizes: only to help in an error message and on the symbols page.
OTHERS_CALL_IT = {
    "hidden_size": "d_e",
    "n_embd": "d_e",
    "d_model": "d_e",
    "vocab_size": "N_V",
    "n_positions": "ell_max",
    "max_position_embeddings": "ell_max",
    "block_size": "ell_max",
    "n_ctx": "ell_max",
    "n_layer": "L",
    "num_hidden_layers": "L",
    "num_layers": "L",
    "encoder_layers": "L_enc",
    "decoder_layers": "L_dec",
    "n_head": "H",
    "num_heads": "H",
    "num_attention_heads": "H",
    "num_key_value_heads": "H_kv",
    "head_dim": "d_attn",
    "n_inner": "d_mlp",
    "intermediate_size": "d_mlp",
    "layer_norm_epsilon": "eps",
    "layer_norm_eps": "eps",
    "rms_norm_eps": "eps",
    "activation_function": "activation",
    "hidden_act": "activation",
    "tie_word_embeddings": "tied",
    "rope_theta": "base",
}


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the lines compute where models differ.  `Choices()` is the paper.

    norm             lines of Algorithm 6: layer_norm, or rms_norm (m = 0 and beta = 0)
    eps              added to the variance inside the root; the paper has none (0)
    activation       element-wise function of the MLP: gelu (exact), relu, gelu_tanh, silu
    mlp              plain, or gated: W_mlp2 (act(W_mlp1 X) * W_mlp3 X)
    positions        where tokens get their position from: Algorithm 2 (learned), nowhere (none), a formula
                     (sinusoid...), or inside attention (rotary, relative, bucketed)
    base             of rotary positions: omega_i = base^(-2 (i - 1) / d_attn)
    scale            of the scores in line 6 of Algorithm 4: sqrt (divide by sqrt(d_attn)) or none
    embedding_scale  of the token embedding: none, or sqrt (multiply by sqrt(d_e))
    embedding_norm   a norm after the embedding (line 3a)
    tied             the unembedding is the transposed token embedding, W_u = W_e^T
    absent           parameters this model does not have: declared 0.  The paper has no output bias b_u
    """

    norm: str = "layer_norm"
    eps: float = 0.0
    activation: str = "gelu"
    mlp: str = "plain"
    positions: str = "learned"
    base: float = 10000.0
    scale: str = "sqrt"
    embedding_scale: str = "none"
    embedding_norm: bool = False
    tied: bool = False
    absent: frozenset[str] = frozenset({"b_u"})

    def __post_init__(self) -> None:
        name = type(self).__name__
        for slot, values in SLOTS.items():
            if getattr(self, slot) not in values:
                raise ConfigError(f"{name}: {slot} = {getattr(self, slot)!r} is none of {', '.join(values)}.")
        for f in fields(self):
            value = getattr(self, f.name)
            if f.type == "bool" and type(value) is not bool:
                raise ConfigError(f"{name}: {f.name} = {value!r} must be true or false.")
            if f.type == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
                raise ConfigError(f"{name}: {f.name} = {value!r} must be a number.")
        if not 0 <= self.eps < float("inf"):
            raise ConfigError(f"{name}: eps = {self.eps} must be 0 or a positive number.")
        if not 0 < self.base < float("inf"):
            raise ConfigError(f"{name}: base = {self.base} must be a positive number.")
        if isinstance(self.absent, str):
            raise ConfigError(f"{name}: absent = {self.absent!r} must be a list of names.")
        implied = BETAS if self.norm == "rms_norm" else frozenset()
        object.__setattr__(self, "absent", frozenset(self.absent) | implied)
        if unknown := self.absent - OPTIONAL:
            raise ConfigError(
                f"{name}: absent names {', '.join(sorted(unknown))}, which no model can lack. "
                f"Those that can be absent: {', '.join(sorted(OPTIONAL))}."
            )


@dataclass(frozen=True, kw_only=True)
class Sizes(Choices):
    """Sizes that all three architectures share; numbers of elements, all at least 1.

    N_V      vocabulary size
    ell_max  longest sequence, in tokens
    H        heads per layer; must divide d_e unless d_attn is given
    d_e      width of an embedding
    d_mlp    width of the hidden layer of the MLP
    H_kv     heads of keys and values; H_kv = H is the paper, fewer are "grouped queries"; divides H
    d_attn   width of a query and of a key, d_e / H unless given
    d_mid    width of a value, d_attn unless given
    """

    N_V: int
    ell_max: int
    H: int
    d_e: int
    d_mlp: int
    H_kv: int = None  # type: ignore[assignment]  # resolved below, like the next two
    d_attn: int = None  # type: ignore[assignment]
    d_mid: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        self._default("H_kv", self.H)
        for f in fields(self):
            value = getattr(self, f.name)
            least = f.metadata.get("least", 1)
            if f.type == "int" and value is not None and (type(value) is not int or value < least):
                raise ConfigError(f"{name}: {f.name} = {value!r} must be a whole number, at least {least}.")
        if self.d_attn is None and self.d_e % self.H:
            divisors = [h for h in range(1, self.d_e + 1) if self.d_e % h == 0] if self.d_e < 10**6 else []
            near = sorted(sorted(divisors, key=lambda h: abs(h - self.H))[:2])
            raise ConfigError(
                f"{name}: H = {self.H} does not divide d_e = {self.d_e}: every head gets d_attn = d_e / H numbers. "
                f"Nearest H that do: {', '.join(map(str, near))}; or give d_attn."
            )
        self._default("d_attn", self.d_e // self.H)
        self._default("d_mid", self.d_attn)
        if self.H % self.H_kv:
            raise ConfigError(
                f"{name}: H_kv = {self.H_kv} does not divide H = {self.H}: "
                f"every key/value head serves H / H_kv query heads."
            )
        if self.positions == "rotary" and self.d_attn % 2:
            raise ConfigError(f"{name}: rotary positions turn pairs of numbers, and d_attn = {self.d_attn} is odd.")
        if self.positions in ("sinusoid", "sinusoid_halves", "sinusoid_t2t", "relative") and self.d_e % 2:
            raise ConfigError(
                f"{name}: {self.positions} positions pair a sine with a cosine, and d_e = {self.d_e} is odd. "
                f"Make d_e even, or use sinusoid_vaswani."
            )

    def _default(self, name: str, value: int) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """The config that `to_dict` describes.  A key that the class does not have is a ConfigError."""
        known = {f.name for f in fields(cls)}
        for key in given:
            if key not in known:
                raise ConfigError(f"{cls.__name__} has no {key!r}. {_hint(key, known)}")
        missing = [f.name for f in fields(cls) if f.name not in given and f.name in REQUIRED_SIZES]
        if missing:
            raise ConfigError(f"{cls.__name__} needs {', '.join(missing)}, which were not given.")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON or TOML can hold it: masks as text, sets as sorted lists."""
        out: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        out["absent"] = sorted(self.absent)
        if isinstance(out.get("mask"), tuple):
            out["mask"] = [str(m) for m in out["mask"]]
        return out


REQUIRED_SIZES = {"N_V", "ell_max", "H", "d_e", "d_mlp", "L", "L_enc", "L_dec"}


def _hint(key: str, known: set[str]) -> str:
    ours = OTHERS_CALL_IT.get(key)
    if ours in known:
        return f"The paper calls it {ours}."
    close = get_close_matches(key, known, 1)
    return f"Did you mean {close[0]}?" if close else f"It has: {', '.join(sorted(known))}."


@dataclass(frozen=True, kw_only=True)
class DTransformerConfig(Sizes):
    """One decoder-only transformer, Algorithm 10 (GPT).

    L     layers
    mask  line 6: one mask, or a cycle of masks that the layers go through (layer l uses mask[(l - 1) % n])
    """

    L: int
    mask: tuple[Mask, ...] = (Causal(),)

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.mask
        masks = (given,) if isinstance(given, str | Mask) else tuple(given)
        if not masks:
            raise ConfigError("DTransformerConfig: mask is an empty list; give one mask or a cycle of masks.")
        parsed = tuple(parse_mask(m) if isinstance(m, str) else m for m in masks)
        object.__setattr__(self, "mask", parsed)


@dataclass(frozen=True, kw_only=True)
class ETransformerConfig(Sizes):
    """One encoder-only transformer, Algorithm 9 (BERT).

    L         layers
    d_f       width of the final projection, d_e unless given
    segments  number of segments (BERT's token types: 2); 0, the paper's choice, is none (line 2a)
    """

    L: int
    d_f: int = None  # type: ignore[assignment]
    segments: int = field(default=0, metadata={"least": 0})

    def __post_init__(self) -> None:
        self._default("d_f", self.d_e)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class EDTransformerConfig(Sizes):
    """One encoder-decoder transformer, Algorithm 8.

    L_enc, L_dec  layers of the encoder and of the decoder
    """

    L_enc: int
    L_dec: int
    activation: str = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions in ("rotary", "relative"):
            raise ConfigError(
                f"EDTransformerConfig: {self.positions} positions compare places in one sequence, and line 16 of "
                f"Algorithm 8 attends from one sequence to another. Use learned, a sinusoid, bucketed or none."
            )


Config = DTransformerConfig | ETransformerConfig | EDTransformerConfig

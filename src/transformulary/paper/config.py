"""Sizes and choices of the three architectures.  The defaults are the paper.

A *size* is a number of elements.  A *choice* (slot) says what one numbered line computes where the
paper or a published model varies it; each slot is a closed table of values, and the same keys are the
keys of the oracle's and of the fast models' tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from sys import float_info
from typing import Any, ClassVar, Self

from transformulary.errors import ConfigError
from transformulary.paper.masks import Causal, Mask, parse_mask
from transformulary.paper.symbols import called

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
    "frequencies": ("geometric", "linear", "dynamic", "yarn", "llama3"),
    "scale": ("sqrt", "none"),
    "embedding_scale": ("none", "sqrt"),
}
#: Positions that pair every sine with a cosine, along the width of an embedding.
PAIRED = frozenset({"sinusoid", "sinusoid_halves", "sinusoid_t2t", "relative"})

#: Parameters that a model may lack; each is then a declared 0, and the line that adds it does not print it.
SHARED = frozenset({"W_p", "b_q", "b_k", "b_v", "b_o", "b_u", "beta_x", "beta_q", "beta_k"})
ONE_STACK = SHARED | {"beta", "beta_1", "beta_2", "b_mlp1", "b_mlp2", "b_mlp3"}
TWO_STACKS = SHARED | {"beta_z"} | {f"beta_{k}" for k in range(1, 6)} | {f"b_mlp{k}" for k in range(1, 7)}
ENCODER = ONE_STACK | {"W_s", "b_f"}


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the lines compute where models differ.  `Choices()` is the paper.

    norm             lines of Algorithm 6: layer_norm, or rms_norm (m = 0 and beta = 0)
    eps              added to the variance inside the root; the paper has none (0)
    activation       element-wise function of the MLP: gelu (exact), relu, gelu_tanh, silu
    mlp              plain, or gated: W_mlp2 (act(W_mlp1 X) * W_mlp3 X)
    positions        where tokens get their position from: Algorithm 2 (learned), nowhere (none), a formula
                     (sinusoid...), or inside attention (rotary, relative, bucketed).  Bucketed deviates from T5 in
                     that every layer has its own B; in Algorithm 8a the layers of a stack share one
    base             of rotary positions: omega_i = base^(-2 (i - 1) / d_attn)
    frequencies      of rotary positions: those of base as they are (geometric), or slowed down for more tokens than a
                     model was trained with: all alike (linear), by the length of the sequence (dynamic, "NTK"), or by
                     how often each turns within ell_train tokens (yarn, llama3); lines 1a to 1d of Algorithm 4r
    factor           by which frequencies are divided where they are slowed down, at least 1
    beta_slow        turns within ell_train tokens below which yarn and llama3 slow a frequency down in full
    beta_fast        turns above which they leave it alone, more than beta_slow; published: 32 (yarn), 4 (llama3)
    attention_factor  of rotated queries and keys; published for yarn: 0.1 log(factor) + 1
    scale            of the scores in line 6 of Algorithm 4: sqrt (divide by sqrt(d_attn)) or none
    embedding_scale  of the token embedding: none, or sqrt (multiply by sqrt(d_e))
    embedding_norm   a norm after the embedding (line 3a)
    qk_norm          a norm of every query and key of every head (lines 1a and 2a of Algorithm 4)
    tied             the unembedding is the transposed token embedding, W_u = W_e^T
    absent           parameters this model does not have: declared 0.  The paper has no output bias b_u.  What the
                     other choices rule out is added: every beta under rms_norm, W_p unless positions are learned

    Raises ConfigError for a value of the wrong kind, out of range, or at odds with another.
    """

    optional: ClassVar[frozenset[str]] = TWO_STACKS | ENCODER
    #: What drops entries while training (`practice.dropping`); a model as such has nothing of the kind.
    dropout: ClassVar[Any] = None

    norm: str = "layer_norm"
    eps: float = 0.0
    activation: str = "gelu"
    mlp: str = "plain"
    positions: str = "learned"
    base: float = 10000.0
    frequencies: str = "geometric"
    factor: float = 1.0
    beta_slow: float = 1.0
    beta_fast: float = 32.0
    attention_factor: float = 1.0
    scale: str = "sqrt"
    embedding_scale: str = "none"
    embedding_norm: bool = False
    qk_norm: bool = False
    tied: bool = False
    absent: frozenset[str] = frozenset({"b_u"})

    def __post_init__(self) -> None:
        for f in fields(self):
            self._check(f.name, str(f.type))
        if not 0 <= self.eps <= float_info.max:
            raise self._wrong("eps", "must be 0 or a positive number")
        for name in ("base", "beta_slow", "attention_factor"):
            if not 0 < getattr(self, name) <= float_info.max:
                raise self._wrong(name, "must be a positive number")
        if not 1 <= self.factor <= float_info.max:
            raise self._wrong("factor", "must be at least 1: positions are brought closer together, not apart")
        if not self.beta_slow < self.beta_fast <= float_info.max:
            raise self._wrong("beta_fast", f"must be more than beta_slow = {self.beta_slow!r}")
        if self.frequencies == "yarn" and self.base == 1:
            raise self._wrong("base", "must not be 1: yarn divides by its logarithm")
        self._set(**{f.name: float(getattr(self, f.name)) for f in fields(self) if f.type == "float"})
        self._resolve_absent()

    def _set(self, **resolved: Any) -> None:
        for name, value in resolved.items():
            object.__setattr__(self, name, value)

    def _wrong(self, name: str, why: str) -> ConfigError:
        return ConfigError(f"{type(self).__name__}: {name} = {getattr(self, name)!r} {why}.")

    def _check(self, name: str, kind: str) -> None:
        value = getattr(self, name)
        if name in SLOTS and value not in SLOTS[name]:
            raise self._wrong(name, f"is none of {', '.join(SLOTS[name])}")
        if kind == "bool" and type(value) is not bool:
            raise self._wrong(name, "must be true or false")
        if kind == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self._wrong(name, "must be a number")

    def _resolve_absent(self) -> None:
        given: Any = self.absent
        if not isinstance(given, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in given):
            raise self._wrong("absent", "must be a list of names of parameters")
        if unknown := sorted(set(given) - self.optional):
            raise ConfigError(
                f"{type(self).__name__}: absent names {', '.join(unknown)}, which this architecture cannot lack. "
                f"Those that can be absent: {', '.join(sorted(self.optional))}."
            )
        if self.positions == "learned" and "W_p" in given:
            raise self._wrong("positions", "needs W_p, which absent names. Say positions = 'none' instead")
        betas = {name for name in self.optional if name.startswith("beta")}
        ruled_out = (betas if self.norm == "rms_norm" else set()) | ({"W_p"} if self.positions != "learned" else set())
        self._set(absent=frozenset(given) | ruled_out)


@dataclass(frozen=True, kw_only=True)
class Widths(Choices):
    """Sizes of one layer; numbers of elements, all at least 1.

    H        heads per layer; must divide d_e unless d_attn is given
    d_e      width of an embedding
    d_mlp    width of the hidden layer of the MLP
    H_kv     heads of keys and values; H_kv = H is the paper, fewer are "grouped queries"; divides H
    d_attn   width of a query and of a key, d_e / H unless given
    d_mid    width of a value, d_attn unless given
    ell_train  tokens that the model was trained with before its frequencies were slowed down
    """

    H: int
    d_e: int
    d_mlp: int
    H_kv: int = None  # type: ignore[assignment]  # resolved below, like the next three
    d_attn: int = None  # type: ignore[assignment]
    d_mid: int = None  # type: ignore[assignment]
    ell_train: int = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        super().__post_init__()
        self._default("H_kv", self.H)
        for f in fields(self):
            value, least = getattr(self, f.name), f.metadata.get("least", 1)
            derived = value is None and f.default is None
            if f.type == "int" and not derived and (type(value) is not int or value < least):
                raise self._wrong(f.name, f"must be a whole number, at least {least}")
        if self.d_attn is None and self.d_e % self.H:
            raise self._wrong(
                "H", f"does not divide d_e = {self.d_e}: every head gets d_attn = d_e / H numbers. {self._better_H()}"
            )
        self._default("d_attn", self.d_e // self.H)
        self._default("d_mid", self.d_attn)
        if self.H % self.H_kv:
            raise self._wrong("H_kv", f"does not divide H = {self.H}: every key/value head serves H / H_kv query heads")
        if self.positions == "rotary" and self.d_attn % 2:
            raise self._wrong("d_attn", "is odd, and rotary positions turn pairs of numbers. Make d_attn even")
        if self.positions == "rotary" and self.frequencies == "dynamic" and self.d_attn == 2:
            raise self._wrong(
                "d_attn", "is too small: dynamic frequencies keep the first pair and slow down the others"
            )
        if self.positions in PAIRED and self.d_e % 2:
            raise self._wrong(
                "d_e",
                f"is odd, and {self.positions} positions pair a sine with a cosine. "
                "Make d_e even, or use sinusoid_vaswani",
            )
        if self.positions == "sinusoid_t2t" and self.d_e < 4:
            raise self._wrong("d_e", "is too small for sinusoid_t2t, whose formula divides by d_e / 2 - 1: at least 4")

    def _default(self, name: str, value: int) -> None:
        if getattr(self, name) is None:
            self._set(**{name: value})

    def _better_H(self) -> str:
        nearby = range(max(1, min(self.H, self.d_e) - 1000), min(self.H + 1000, self.d_e) + 1)
        near = sorted((h for h in nearby if self.d_e % h == 0), key=lambda h: abs(h - self.H))[:2]
        return f"Nearest H that do: {', '.join(map(str, sorted(near)))}; or give d_attn" if near else "Give d_attn"

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON or TOML can hold it: masks as text, sets as sorted lists."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """The config that `to_dict` describes.

        Raises ConfigError for a key that the class does not have, a size that is missing, a wrong value.
        """
        if not isinstance(given, Mapping):
            raise ConfigError(f"{cls.__name__} needs names and values, not {given!r}.")
        known = {f.name for f in fields(cls)}
        for key in given:
            if key not in known:
                raise ConfigError(f"{cls.__name__} has no {key!r}. {_hint(str(key), known)}")
        if missing := [f.name for f in fields(cls) if f.default is MISSING and f.name not in given]:
            raise ConfigError(f"{cls.__name__} cannot do without {', '.join(missing)}: no value was given.")
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class LayerConfig(Widths):
    """One layer alone, or its attention, in a model of your own.

    d_mlp      4 d_e unless given
    eps        1e-5 unless given: with the paper's 0 a token of equal numbers, padding say, has no norm
    positions  those inside attention: rotary, relative, bucketed; else none
    """

    d_mlp: int = None  # type: ignore[assignment]
    eps: float = 1e-5
    positions: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._default("d_mlp", 4 * self.d_e)
        if self.positions not in ("none", "rotary", "relative", "bucketed"):
            raise self._wrong("positions", "are added to an embedding, which a layer alone does not have")
        if self.positions == "rotary" and self.frequencies not in ("geometric", "linear") and not self.ell_train:
            raise self._wrong("frequencies", "need ell_train, the number of tokens that they were learned with")


@dataclass(frozen=True, kw_only=True)
class Sizes(Widths):
    """Sizes that all architectures share.

    N_V      vocabulary size
    ell_max  longest sequence, in tokens; also ell_train unless that is given
    """

    N_V: int
    ell_max: int

    def __post_init__(self) -> None:
        super().__post_init__()
        self._default("ell_train", self.ell_max)


def _plain(value: Any) -> Any:
    match value:
        case frozenset():
            return sorted(value)
        case tuple():
            return [str(mask) for mask in value]
    return value


def _hint(key: str, known: set[str]) -> str:
    ours = [symbol.name for symbol in called(key) if symbol.name in known]
    if ours:
        return f"The paper calls it {ours[0]}."
    close = get_close_matches(key, known, 1)
    return f"Did you mean {close[0]}?" if close else f"It has: {', '.join(sorted(known))}."


@dataclass(frozen=True, kw_only=True)
class DTransformerConfig(Sizes):
    """One decoder-only transformer, Algorithm 10 (GPT).

    L     layers
    mask  line 6: one mask, or a cycle of masks that the layers go through (layer l uses mask[(l - 1) % n]);
          each a Mask or how `parse_mask` spells it
    """

    optional: ClassVar[frozenset[str]] = ONE_STACK

    L: int
    mask: tuple[Mask, ...] = (Causal(),)

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.mask
        masks = given if isinstance(given, list | tuple) else [given]
        if not masks or not all(isinstance(mask, str | Mask) for mask in masks):
            raise self._wrong("mask", "must be one mask or a list of at least one")
        parsed = tuple(parse_mask(mask) if isinstance(mask, str) else mask for mask in masks)
        self._set(mask=parsed)

    @property
    def remembers(self) -> bool:
        """True where later tokens leave the keys and values of earlier ones as they are, so that they can be cached.

        They do not where a token looks at later ones, nor where the frequencies depend on the length.
        """
        lengthens = self.positions == "rotary" and self.frequencies == "dynamic"
        return all(mask.causal for mask in self.mask) and not lengthens


@dataclass(frozen=True, kw_only=True)
class ETransformerConfig(Sizes):
    """One encoder-only transformer, Algorithm 9 (BERT).

    L         layers
    d_f       width of the final projection, d_e unless given
    segments  number of segments (BERT's token types: 2); 0, the paper's choice, is none (line 2a): W_s is absent
    """

    optional: ClassVar[frozenset[str]] = ENCODER

    L: int
    d_f: int = None  # type: ignore[assignment]
    segments: int = field(default=0, metadata={"least": 0})

    def __post_init__(self) -> None:
        self._default("d_f", self.d_e)
        super().__post_init__()
        if self.segments and "W_s" in self.absent:
            raise self._wrong("segments", "needs W_s, which absent names. Say segments = 0 instead")
        if not self.segments:
            self._set(absent=self.absent | {"W_s"})
        if self.tied and self.d_f != self.d_e:
            raise self._wrong("d_f", f"is not d_e = {self.d_e}: tied, W_u = W_e^T, needs them equal")


@dataclass(frozen=True, kw_only=True)
class TwoStacks(Sizes):
    """An encoder and a decoder.

    L_enc, L_dec  layers of the encoder and of the decoder
    """

    optional: ClassVar[frozenset[str]] = TWO_STACKS

    L_enc: int
    L_dec: int
    activation: str = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions in ("rotary", "relative"):
            raise self._wrong(
                "positions",
                "compares places in one sequence, and line 16 of Algorithm 8 attends from one sequence to another. "
                "Use learned, a sinusoid, bucketed or none",
            )


@dataclass(frozen=True, kw_only=True)
class EDTransformerConfig(TwoStacks):
    """One encoder-decoder transformer, Algorithm 8: a norm after each residual sum."""


@dataclass(frozen=True, kw_only=True)
class PreEDTransformerConfig(TwoStacks):
    """One encoder-decoder transformer, Algorithm 8a: a norm before each half of a layer, as in Algorithm 10 (T5).

    Bucketed positions are T5's: the layers of a stack share one B.

    unembedding_scale  of the last X: none, or sqrt (divide by sqrt(d_e); T5 where it is tied)
    """

    optional: ClassVar[frozenset[str]] = TWO_STACKS | {"beta_enc", "beta_dec"}

    unembedding_scale: str = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unembedding_scale not in SLOTS["embedding_scale"]:
            raise self._wrong("unembedding_scale", f"is none of {', '.join(SLOTS['embedding_scale'])}")


Config = DTransformerConfig | ETransformerConfig | EDTransformerConfig | PreEDTransformerConfig

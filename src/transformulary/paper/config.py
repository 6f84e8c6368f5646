"""Sizes and choices of the three architectures.  The defaults are the paper.

A *size* is a number of elements.  A *choice* says what one numbered line computes where the paper or a published model
varies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Self

from transformulary.errors import ConfigError
from transformulary.paper.choices import ENCODER, ONE_STACK, PAIRED, SLOTS, TWO_STACKS, Choices
from transformulary.paper.masks import MOST, Causal, Mask, parse_mask
from transformulary.paper.symbols import called


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
            if f.type == "int" and not derived and value > MOST:
                said = f"{type(self).__name__}: {f.name} has {value.bit_length()} bits, which is absurd."
                raise ConfigError(said, f.name)
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
          each a Mask or how `parse_mask` spells it; those of layers that do not exist are left out
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
        self._set(mask=parsed[: self.L])

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
    separate      of W_e and W_p, those that z has of its own: W_e_z, W_p_z.  The paper has none; tied, W_u is the W_e
                  of x
    """

    optional: ClassVar[frozenset[str]] = TWO_STACKS

    L_enc: int
    L_dec: int
    activation: str = "relu"
    separate: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(separate=self._named("separate", frozenset({"W_e", "W_p"}), "which is no table of an embedding"))
        if "W_p" in self.separate and self.positions != "learned":
            raise self._wrong("positions", "has no W_p, which separate names")
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

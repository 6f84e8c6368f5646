"""What the lines compute where models differ: each choice (slot) is a closed table of values, whose keys are those of
the oracle's and of the fast models' tables.  The defaults are the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from sys import float_info
from typing import Any, ClassVar

from transformulary.errors import ConfigError

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

    @property
    def joint(self) -> bool:
        """Whether queries, keys and values have biases alike: then one matrix of the fast model holds theirs."""
        return len({bias in self.absent for bias in ("b_q", "b_k", "b_v")}) == 1

    def _set(self, **resolved: Any) -> None:
        for name, value in resolved.items():
            object.__setattr__(self, name, value)

    def _wrong(self, name: str, why: str) -> ConfigError:
        return ConfigError(f"{type(self).__name__}: {name} = {getattr(self, name)!r} {why}.", name)

    def _check(self, name: str, kind: str) -> None:
        value = getattr(self, name)
        if name in SLOTS and value not in SLOTS[name]:
            raise self._wrong(name, f"is none of {', '.join(SLOTS[name])}")
        if kind == "bool" and type(value) is not bool:
            raise self._wrong(name, "must be true or false")
        if kind == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise self._wrong(name, "must be a number")

    def _named(self, name: str, known: frozenset[str], why: str) -> frozenset[str]:
        """The parameters that a field names.  Raises ConfigError where it names others than those `known`."""
        given: Any = getattr(self, name)
        if not isinstance(given, list | tuple | set | frozenset) or not all(isinstance(n, str) for n in given):
            raise self._wrong(name, "must be a list of names of parameters")
        if unknown := sorted(set(given) - known):
            raise ConfigError(
                f"{type(self).__name__}: {name} names {', '.join(unknown)}, {why}. "
                f"Those that can be {name}: {', '.join(sorted(known))}."
            )
        return frozenset(given)

    def _resolve_absent(self) -> None:
        given = self._named("absent", self.optional, "which this architecture cannot lack")
        if self.positions == "learned" and "W_p" in given:
            raise self._wrong("positions", "needs W_p, which absent names. Say positions = 'none' instead")
        betas = {name for name in self.optional if name.startswith("beta")}
        ruled_out = (betas if self.norm == "rms_norm" else set()) | ({"W_p"} if self.positions != "learned" else set())
        self._set(absent=given | ruled_out)

"""Algorithm 9: the encoder-only transformer (BERT), and what else is put on top of an encoder."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformulary.errors import AlgorithmError, ConfigError
from transformulary.nn.layers import TransformerBlock
from transformulary.nn.places import boolean
from transformulary.nn.slots import choice, linear
from transformulary.nn.transformer import Ids, Real, Transformer, check_ids, embedding_norm, initialise, unembedding
from transformulary.paper import ETransformerConfig, Full

Segments = Int[Tensor, "B ell"]
Encoded = Float[Tensor, "B ell d_e"]


class Encoder(Transformer):
    """Lines 1-9 of Algorithm 9, with the lettered lines of real BERTs."""

    config: ETransformerConfig

    def __init__(self, config: ETransformerConfig, dropout: float) -> None:
        super().__init__(config, dropout)
        c = self.config = config
        self.W_s = nn.Embedding(c.segments, c.d_e) if c.segments else None
        self.norm_x = embedding_norm(c, "beta_x")
        self.layers = nn.ModuleList(TransformerBlock(c, Full(), dropout, "post") for _ in range(c.L))

    def encode(self, x: Ids, s: Segments | None = None, *, real: Real | None = None) -> Encoded:
        """X after line 9, (B, ell, d_e); arguments and errors as for `ETransformer.forward`."""
        X, at = self.embed(x, self.norm_x, real, more=self.segment(x, s, real))
        for layer in self.layers:  # 4
            X = layer(X, at=at)  # 5-8
        return X

    def segment(self, x: Ids, s: Segments | None, real: Real | None) -> Tensor | float:
        """What line 2a adds."""
        s = check_segments(x, s, self.config.segments, real)
        return 0.0 if s is None or self.W_s is None else self.W_s(s)


def check_segments(x: Tensor, s: Tensor | None, N: int, real: Tensor | None = None) -> Tensor | None:
    """s, with segment 0 where it is padding, and everywhere where none are given.

    Raises AlgorithmError where there is not one of N segments for each token of x, or N is 0.
    """
    if s is None:
        return torch.zeros_like(x, dtype=torch.int64) if N else None
    if N and s.shape == x.shape:
        return check_ids(s, N, real)
    wanted = f"one of {N} is wanted for each token" if N else "this model has none"
    raise AlgorithmError(f"the segments s have shape {tuple(s.shape)}: {wanted}.")


class ETransformer(Encoder):
    """P <- ETransformer(x | theta), Algorithm 9 of arXiv:2207.09238, up to the logits of line 12.

    Args:
        config: sizes and choices.
        dropout: probability of leaving out an element of the embedding, an attention weight, an element of what
            lines 5 and 7 add; while training only.
        generator: draws the initial parameters; torch's global one unless given.

    Raises:
        ConfigError: a dropout outside [0, 1).
    """

    def __init__(
        self, config: ETransformerConfig, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(config, dropout)
        c = config
        self.W_f = linear(c, "b_f", c.d_e, c.d_f)
        self.act = choice("activation", c)()
        self.norm = choice("norm", c)(c, "beta", c.d_f)
        self.W_u = unembedding(self, c.d_f)
        initialise(self, generator)

    def forward(self, x: Ids, s: Segments | None = None, *, real: Real | None = None) -> Float[Tensor, "B ell N_V"]:
        """The logits of line 12; a softmax over the last axis gives the paper's P.

        Args:
            x: token ids, from 0; one sequence per row.
            s: the segment of every token, from 0, only where the model has segments; there segment 0 unless given.
            real: true where a slot of x holds a token, false where it is padding, whatever its id; all do unless given.

        Raises:
            AlgorithmError: x or s is no (B, ell) of whole numbers, or has an id outside its table (which only an eager
                processor checks); a sequence is longer than a learned table of positions; s is of another
                shape, or of no use;
                `real` is not boolean, or of another shape.
        """
        return self.predict(self.encode(x, s, real=real))

    def predict(self, X: Float[Tensor, "*any d_e"]) -> Float[Tensor, "*any N_V"]:
        """Lines 10-12, of any tokens of X after line 9: only those that one asks for need be computed."""
        return self.W_u(self.norm(self.act(self.W_f(X))))  # 10, 11, 12


class EClassifier(Encoder):
    """p <- EClassifier(x | theta): Algorithm 9 up to line 9, then Algorithm 9c, up to the logits of its line 2.

    The paper describes classification and has no algorithm for it (erratum E20); this is BERT's.

    Args:
        config, dropout, generator: as for `ETransformer`; what lines 10-12 alone use means nothing.
        N_C: number of classes.
    """

    def __init__(
        self,
        config: ETransformerConfig,
        N_C: int,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(config, dropout)
        if N_C < 1:
            raise ConfigError(f"N_C = {N_C}: there must be at least one class.")
        self.W_pool = nn.Linear(config.d_e, config.d_e)
        self.W_c = nn.Linear(config.d_e, N_C)
        initialise(self, generator)

    def forward(self, x: Ids, s: Segments | None = None, *, real: Real | None = None) -> Float[Tensor, "B N_C"]:
        """The logits of every class; a softmax over the last axis gives p.  Arguments and errors: `ETransformer`'s."""
        X = self.encode(x, s, real=real)
        return self.W_c(self.dropout(self.W_pool(first(X, real)).tanh()))  # 9c.1, 9c.2


class EEmbedder(Encoder):
    """One vector for each sequence: Algorithm 9 up to line 9, then a mean, for example.

    The paper has nothing of the kind; this is how encoders of sentences are used.

    Args:
        config, dropout, generator: as for `EClassifier`.
        pooling: "mean" of the tokens, the "first" one, or the "max" of each of their numbers.
        normalised: whether vectors have length 1, so that their products are cosines.
    """

    def __init__(
        self,
        config: ETransformerConfig,
        pooling: str = "mean",
        normalised: bool = True,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(config, dropout)
        if pooling not in POOLING:
            raise ConfigError(f"pooling = {pooling!r} is none of {', '.join(POOLING)}.")
        self.pooling, self.normalised = pooling, normalised
        initialise(self, generator)

    def forward(self, x: Ids, s: Segments | None = None, *, real: Real | None = None) -> Float[Tensor, "B d_e"]:
        """The vectors.  Arguments and errors as for `ETransformer.forward`; an empty sequence has a mean of 0."""
        return pool(self.encode(x, s, real=real), real, self.pooling, self.normalised)


def pool(X: Encoded, real: Real | None, pooling: str, normalised: bool) -> Float[Tensor, "B d_e"]:
    """One vector of those of each sequence; arguments as for `EEmbedder`."""
    return LENGTHS[normalised](POOLING[pooling](X, real))


def first(X: Encoded, real: Real | None) -> Float[Tensor, "B d_e"]:
    """X[:, 1], the first token of each sequence, on whichever side its padding is."""
    if real is None:
        return X[:, 0]
    return X[torch.arange(len(X), device=X.device), boolean(real).int().argmax(-1)]


def mean(X: Encoded, real: Real | None) -> Float[Tensor, "B d_e"]:
    """The mean of the tokens of each sequence."""
    if real is None:
        return X.mean(1)
    real = boolean(real)
    return X.masked_fill(~real[..., None], 0).sum(1) / real.sum(-1, keepdim=True).clamp(min=1)


def largest(X: Encoded, real: Real | None) -> Float[Tensor, "B d_e"]:
    """The largest of each of the numbers of a sequence's tokens."""
    return (X if real is None else X.masked_fill(~boolean(real)[..., None], -torch.inf)).amax(1)


POOLING = {"mean": mean, "first": first, "max": largest}


def unit(e: Float[Tensor, "B d_e"]) -> Float[Tensor, "B d_e"]:
    """Vectors of length 1."""
    return e / e.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def unchanged(e: Float[Tensor, "B d_e"]) -> Float[Tensor, "B d_e"]:
    """Vectors as they are."""
    return e


LENGTHS = {True: unit, False: unchanged}

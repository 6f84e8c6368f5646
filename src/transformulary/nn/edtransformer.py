"""Algorithms 8 and 8a: the encoder-decoder transformer, with norms after the sums or before the halves."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformulary.nn.attention import At, Known, MHAttention
from transformulary.nn.cache import NoPast, Past
from transformulary.nn.layers import DecoderLayer, TransformerBlock
from transformulary.nn.places import across
from transformulary.nn.scores import Bucketed, Unbiased
from transformulary.nn.slots import choice
from transformulary.nn.transformer import NO_PAST, Ids, Real, Transformer, embedding_norm, initialise, unembedding
from transformulary.paper import Causal, EDTransformerConfig, Full, PreEDTransformerConfig


class Source(NamedTuple):
    """What the decoder knows of the context z: its keys and values in every layer, and which slots hold tokens."""

    known: list[Known]
    real: Tensor | None

    def select(self, rows: Int[Tensor, " n"]) -> Source:
        """The same for these rows of the batch, each as often as it is named: for the hypotheses of a beam."""
        known = [Known(K[rows], V[rows]) for K, V in self.known]
        return Source(known, None if self.real is None else self.real[rows])


class EDTransformer(Transformer):
    """P <- EDTransformer(z, x | theta), Algorithm 8 of arXiv:2207.09238, up to the logits of line 21.

    With a `PreEDTransformerConfig`, Algorithm 8a up to the logits of line 23.

    Args:
        config: sizes and choices.
        dropout: probability of leaving out an element of an embedding, an attention weight, an element of what a part
            of a layer adds; while training only.
        generator: draws the initial parameters; torch's global one unless given.

    Raises:
        ConfigError: a dropout outside [0, 1).
    """

    config: EDTransformerConfig | PreEDTransformerConfig

    def __init__(
        self,
        config: EDTransformerConfig | PreEDTransformerConfig,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__(config, dropout)
        c = self.config = config
        form = FORMS[type(c)](c)
        self.tables_z = tables_of_z(self)
        encoder = (Full(), dropout, form.order)
        self.norm_z = embedding_norm(c, "beta_z")
        self.scores_enc = form.shared_scores()
        self.encoder = nn.ModuleList(
            TransformerBlock(c, *encoder, scores=form.scores, matrices=(1, 2, 5)) for _ in range(c.L_enc)
        )
        self.norm_enc = form.last_norm("beta_enc")
        self.norm_x = embedding_norm(c, "beta_x")
        self.scores_dec = form.shared_scores()
        self.decoder = nn.ModuleList(DecoderLayer(c, dropout, form.order, form.scores) for _ in range(c.L_dec))
        self.norm_dec = form.last_norm("beta_dec")
        self.W_u = unembedding(self, c.d_e)
        self.divisor, self.branches = form.divisor, form.branches
        initialise(self, generator)

    def forward(
        self,
        z: Int[Tensor, "B ell_z"],
        x: Int[Tensor, "B ell_x"],
        *,
        real_z: Bool[Tensor, "B ell_z"] | Int[Tensor, "B ell_z"] | None = None,
        real_x: Bool[Tensor, "B ell_x"] | Int[Tensor, "B ell_x"] | None = None,
    ) -> Float[Tensor, "B ell_x N_V"]:
        """The logits of the last line; a softmax over the last axis gives the paper's P.

        Args:
            z, x: token ids of the context and of the primary sequence, from 0; one sequence per row.
            real_z, real_x: true where a slot holds a token, false where it is padding, whatever its id; all do unless
                given.

        Raises:
            AlgorithmError: z or x is no (B, ell) of whole numbers, or has an id outside the vocabulary (which only an
                eager processor checks); one is longer than a learned table of positions; a `real` is not boolean, or
                of another shape.
        """
        return self.decode(x, self.read(z, real=real_z), real=real_x)

    def encode(self, z: Ids, *, real: Real | None = None) -> Float[Tensor, "B ell d_e"]:
        """Z after the encoder, (B, ell_z, d_e): lines 1-9, or 1-10 of Algorithm 8a."""
        Z, at = self.embed(z, self.norm_z, real, tables=self.tables_z)
        at = At(at.places, at.turn, self.scores_enc.stack(Full(), at.places, z.shape[1], z.shape[1]))
        for layer in self.encoder:
            Z = layer(Z, at=at)
        return self.norm_enc(Z)

    def read(self, z: Ids, *, real: Real | None = None) -> Source:
        """What the decoder knows of z: for any number of calls of `decode`."""
        Z = self.encode(z, real=real)
        attentions: list[MHAttention] = [layer.cross for layer in self.decoder]  # type: ignore[misc]
        return Source([attention.know(Z) for attention in attentions], real)

    def new_cache(self) -> Past:
        """A past of x for `decode`, still empty: one memory of keys and values per layer."""
        return Past(len(self.decoder))

    def decode(
        self, x: Ids, source: Source, past: NoPast | Past = NO_PAST, *, real: Real | None = None
    ) -> Float[Tensor, "B ell N_V"]:
        """The logits of `forward`, given what is known of z; and of the tokens before x, which are added to `past`."""
        X, at = self.embed(x, self.norm_x, real, past)
        ell_x, slots = x.shape[1], past.length + x.shape[1]
        at = At(at.places, at.turn, self.scores_dec.stack(Causal(), at.places, ell_x, slots))
        at_z = At(across(source.real, ell_x))
        for l, layer in enumerate(self.decoder):
            X = layer(X, source.known[l], at, at_z, past[l])
        return self.W_u(self.norm_dec(X) / self.divisor)


def tables_of_z(model: EDTransformer) -> tuple[str, str]:
    """The names of the tables by which z is embedded; those that it has of its own are made."""
    c = model.config
    rows = {"W_e": c.N_V, "W_p": c.ell_max}
    for name in sorted(c.separate):
        model.add_module(f"{name}_z", nn.Embedding(rows[name], c.d_e))
    W_e, W_p = (f"{name}_z" if name in c.separate else name for name in ("W_e", "W_p"))
    return W_e, W_p


class PostNorm:
    """What is Algorithm 8's own: its layers end with norms, and each has its own scores."""

    order, divisor, scores = "post", 1.0, None

    def __init__(self, c: EDTransformerConfig) -> None:
        self.branches: dict[str, int] = {}

    def last_norm(self, beta: str) -> nn.Module:
        """No norm after the last layer."""
        return nn.Identity()

    def shared_scores(self) -> Unbiased:
        """Nothing that the layers of a stack have in common."""
        return Unbiased()


class PreNorm:
    """What is Algorithm 8a's own: norms before, and scores that all layers of a stack have in common."""

    order, scores = "pre", Unbiased()

    def __init__(self, c: PreEDTransformerConfig) -> None:
        self.c, self.branches = c, {"encoder": 2 * c.L_enc, "decoder": 3 * c.L_dec}
        self.divisor = {"none": 1.0, "sqrt": math.sqrt(c.d_e)}[c.unembedding_scale]

    def last_norm(self, beta: str) -> nn.Module:
        """Lines 10 and 22."""
        return choice("norm", self.c)(self.c, beta, self.c.d_e)

    def shared_scores(self) -> Unbiased | Bucketed:
        """What positions add to the scores of every layer of a stack."""
        return choice("positions", self.c).scores(self.c)


FORMS = {EDTransformerConfig: PostNorm, PreEDTransformerConfig: PreNorm}

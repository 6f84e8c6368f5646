"""Algorithm 10: the decoder-only transformer (GPT)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformulary.errors import ConfigError
from transformulary.nn.cache import NoPast, Past
from transformulary.nn.layers import TransformerBlock
from transformulary.nn.slots import choice
from transformulary.nn.transformer import NO_PAST, Ids, Real, Transformer, embedding_norm, initialise, unembedding
from transformulary.paper import DTransformerConfig


class DTransformer(Transformer):
    """P <- DTransformer(x | theta), Algorithm 10 of arXiv:2207.09238, up to the logits of line 11.

    Args:
        config: sizes and choices.
        dropout: probability of leaving out an element of the embedding, an attention weight, an element
            of what lines 6 and 8 add; while training only.
        generator: draws the initial parameters; torch's global one unless given.

    Raises:
        ConfigError: a dropout outside [0, 1).
    """

    config: DTransformerConfig

    def __init__(
        self, config: DTransformerConfig, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__(config, dropout)
        c = self.config = config
        self.norm_x = embedding_norm(c, "beta_x")
        self.layers = nn.ModuleList(TransformerBlock(c, c.mask[l % len(c.mask)], dropout) for l in range(c.L))
        self.norm = choice("norm", c)(c, "beta", c.d_e)
        self.W_u = unembedding(self, c.d_e)
        self.branches = {"layers": 2 * c.L}
        initialise(self, generator)

    def new_cache(self) -> Past:
        """A past for `forward`, still empty: one memory of keys and values per layer.

        Raises ConfigError if keys change as the text grows: tokens look at later ones, or frequencies are dynamic.
        """
        if ahead := [str(mask) for mask in self.config.mask if not mask.causal]:
            raise ConfigError(
                f"mask {ahead[0]} lets a token look at later ones, so keys and values change as the text grows "
                f"and cannot be remembered: give the model the whole sequence each time."
            )
        if not self.config.remembers:
            raise ConfigError(
                "dynamic frequencies depend on the length, so every key turns anew as the text grows and cannot be "
                "remembered: give the model the whole sequence each time."
            )
        return Past(len(self.layers))

    def forward(self, x: Ids, past: NoPast | Past = NO_PAST, *, real: Real | None = None) -> Float[Tensor, "B ell N_V"]:
        """The logits of line 11; a softmax over the last axis gives the paper's P.

        Args:
            x: token ids, from 0; one sequence per row.
            past: what is known of the tokens before x, from `new_cache`; these are added to it.
            real: true where a slot of x holds a token, false where it is padding, whatever its id; all do unless given.

        Raises:
            AlgorithmError: x is no (B, ell) of whole numbers, or has an id outside the vocabulary (which only
                an eager processor checks); past and x together are longer than a learned table of positions; `real` is
                not boolean, or of another shape.
        """
        X, at = self.embed(x, self.norm_x, real, past)
        for l, layer in enumerate(self.layers):  # 4
            X = layer(X, at=at, past=past[l])  # 5-8
        return self.W_u(self.norm(X))  # 10, 11

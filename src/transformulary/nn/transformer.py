"""What Algorithms 8, 9 and 10 have in common: token ids become vectors, and vectors logits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from transformulary.errors import AlgorithmError
from transformulary.nn.attention import At, probability
from transformulary.nn.cache import NoPast, Past
from transformulary.nn.places import boolean
from transformulary.nn.slots import choice
from transformulary.paper import Config

NO_PAST = NoPast()
Ids = Int[Tensor, "B ell"]
Real = Bool[Tensor, "B ell"] | Int[Tensor, "B ell"]


class Transformer(nn.Module):
    """The tables of the embedding, lines 1 to 3a, and how the last line is made.

    branches  how often something is added to X in a stack whose norms come before, by the first name of its parameters
    """

    config: Config
    branches: dict[str, int]

    def __init__(self, c: Config, dropout: float) -> None:
        super().__init__()
        positions = choice("positions", c)
        self.branches = {}
        self.longest: float = positions.longest(c)
        self.scale: float = choice("embedding_scale", c)(c)
        self.W_e = nn.Embedding(c.N_V, c.d_e)
        self.W_p = positions.embedding(c)
        self.rotation = positions.rotation(c)
        self.dropout = nn.Dropout(probability(dropout))

    def embed(
        self,
        x: Ids,
        norm: nn.Module,
        real: Real | None,
        past: NoPast | Past = NO_PAST,
        more: Float[Tensor, "B ell d_e"] | float = 0.0,
        tables: tuple[str, str] = ("W_e", "W_p"),
    ) -> tuple[Float[Tensor, "B ell d_e"], At]:
        """Lines 1-3a, X (B, ell, d_e), and what its positions are to attention.

        `more` is what line 2a adds; `tables` names those of the tokens and of the places.
        """
        x = check_ids(x, self.config.N_V, real)
        slots = past.length + x.shape[1]
        if slots > self.longest and (end := past.end(x.shape[1], real)) > self.longest:
            raise AlgorithmError(
                f"a sequence of {end} tokens is longer than ell_max = {self.longest}: "
                f"the model has learned no positions beyond. Shorten it."
            )
        places = past.places(x.shape[1], real)
        t = places.t_x(x.shape[1], x.device)
        W_e, W_p = (getattr(self, name) for name in tables)
        E = W_e(x) * self.scale
        X = E + W_p(t).to(E.dtype) + more
        return self.dropout(norm(X)), At(places, self.rotation(t))


def embedding_norm(c: Config, beta: str) -> nn.Module:
    """Line 3a, where a model has one."""
    return choice("norm", c)(c, beta, c.d_e) if c.embedding_norm else nn.Identity()


def unembedding(model: Transformer, width: int) -> nn.Linear:
    """W_u and b_u of the last line; tied, W_u is W_e."""
    W_u = nn.Linear(width, model.config.N_V, bias="b_u" not in model.config.absent)
    if model.config.tied:
        W_u.weight = model.W_e.weight
    return W_u


def check_ids(x: Tensor, N_V: int, real: Tensor | None = None) -> Tensor:
    """x, with token 0 where it is padding.

    Raises AlgorithmError unless x is (B, ell) of token ids; their range is looked at where that waits for nobody.
    """
    if x.dim() != 2:
        raise AlgorithmError(f"x has shape {tuple(x.shape)}, and must be (B, ell): one sequence of token ids per row.")
    if x.dtype not in (torch.int64, torch.int32):
        raise AlgorithmError(f"x has type {str(x.dtype).removeprefix('torch.')}: token ids are whole numbers, int64.")
    if real is not None:
        if real.shape != x.shape:
            raise AlgorithmError(f"real has shape {tuple(real.shape)}, and x has {tuple(x.shape)}: one for each slot.")
        x = x.masked_fill(~boolean(real), 0)
    if x.is_cpu and not torch.compiler.is_compiling() and x.numel():
        least, most = x.aminmax()
        if least < 0 or most >= N_V:
            wrong = int(least if least < 0 else most)
            raise AlgorithmError(f"x has the token id {wrong}, outside the vocabulary [0, N_V) = [0, {N_V}).")
    return x


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Every dropout off inside the block; afterwards each module is in the mode in which it was."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def initialise(
    model: Transformer, generator: torch.Generator | None = None, std: float = 0.02, residual: float = 1.0
) -> None:
    """Random parameters like GPT-2's: matrices N(0, std^2), biases and beta 0, gamma 1.

    Where norms come before, matrices that end a residual branch are smaller by the root of how many branches are
    added up; `residual` multiplies them once more, and with 0 every layer begins as the identity.
    """
    for name, theta in model.named_parameters():
        if theta.dim() == 2:
            branches = model.branches.get(name.partition(".")[0])
            ends = branches and name.endswith(("W_o.weight", "W_mlp2.weight", "W_mlp4.weight"))
            scale = residual / math.sqrt(branches) if branches and ends else 1.0
            nn.init.normal_(theta, std=std * scale, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(theta)

"""Algorithm 10: the decoder-only transformer (GPT)."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformulary.errors import AlgorithmError, ConfigError
from transformulary.nn.attention import MHAttention
from transformulary.nn.cache import Memory, NoPast, Remember
from transformulary.nn.positions import Rotate
from transformulary.nn.slots import choice
from transformulary.paper import DTransformerConfig

NO_PAST = NoPast()


class Layer(nn.Module):
    """Lines 5-8 of Algorithm 10: a norm comes before each half."""

    def __init__(self, c: DTransformerConfig, l: int, dropout: float) -> None:
        super().__init__()
        self.norm_1 = choice("norm", c)(c, "beta_1", c.d_e)
        self.attention = MHAttention(c, c.mask[l % len(c.mask)], dropout)
        self.norm_2 = choice("norm", c)(c, "beta_2", c.d_e)
        self.mlp = choice("mlp", c)(c)
        self.dropout = nn.Dropout(dropout)

    def forward(self, X: Float[Tensor, "B ell d_e"], past: Memory, turn: Rotate) -> Float[Tensor, "B ell d_e"]:
        X = X + self.dropout(self.attention(self.norm_1(X), past, turn))  # 5, 6
        return X + self.dropout(self.mlp(self.norm_2(X)))  # 7, 8


class DTransformer(nn.Module):
    """P <- DTransformer(x | theta), Algorithm 10 of arXiv:2207.09238, up to the logits of line 11.

    Args:
        config: sizes and choices.
        dropout: probability of leaving out an element of the embedding, an attention weight, an element
            of what lines 6 and 8 add; while training only.
        generator: draws the initial parameters; torch's global one unless given.

    Raises:
        ConfigError: a choice that only the oracle has, or a dropout outside [0, 1).
    """

    def __init__(
        self, config: DTransformerConfig, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if not 0 <= dropout < 1:
            raise ConfigError(f"dropout = {dropout} is outside [0, 1): it is the probability of leaving a number out.")
        c = self.config = config
        positions = choice("positions", c)
        self.longest: float = positions.longest(c)
        self.scale: float = choice("embedding_scale", c)(c)
        self.W_e = nn.Embedding(c.N_V, c.d_e)
        self.W_p = positions.embedding(c)
        self.rotation = positions.rotation(c)
        self.norm_x = choice("norm", c)(c, "beta_x", c.d_e) if c.embedding_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(c, l, dropout) for l in range(c.L))
        self.norm = choice("norm", c)(c, "beta", c.d_e)
        self.W_u = nn.Linear(c.d_e, c.N_V, bias="b_u" not in c.absent)
        if c.tied:
            self.W_u.weight = self.W_e.weight
        initialise(self, generator)

    def new_cache(self) -> list[Remember]:
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
        return [Remember() for _ in self.layers]

    def forward(self, x: Int[Tensor, "B ell"], past: Sequence[Memory] | NoPast = NO_PAST) -> Float[Tensor, "B ell N_V"]:
        """The logits of line 11; a softmax over the last axis gives the paper's P.

        Args:
            x: token ids, from 0; one sequence per row.
            past: what is known of the tokens before x, from `new_cache`; these are added to it.

        Raises:
            AlgorithmError: x is no (B, ell) of whole numbers, or has an id outside the vocabulary (which only
                an eager processor checks); past and x together are longer than a learned table of positions.
        """
        X, turn = self.embed(x, past)
        for l, layer in enumerate(self.layers):  # 4
            X = layer(X, past[l], turn)  # 5-8
        return self.W_u(self.norm(X))  # 10, 11

    def embed(self, x: Int[Tensor, "B ell"], past: Sequence[Memory] | NoPast) -> tuple[Tensor, Rotate]:
        """Lines 1-3a: X (B, ell, d_e), and how the positions turn queries and keys."""
        check_ids(x, self.config.N_V)
        start = past[0].length
        end = start + x.shape[1]
        if end > self.longest:
            raise AlgorithmError(
                f"a sequence of {end} tokens is longer than ell_max = {self.longest}: "
                f"the model has learned no positions beyond. Shorten it."
            )
        t = torch.arange(start, end, device=x.device)
        E = self.W_e(x) * self.scale
        X = E + self.W_p(t).to(E.dtype)
        return self.dropout(self.norm_x(X)), self.rotation(t)


def check_ids(x: Tensor, N_V: int) -> None:
    """Raises AlgorithmError unless x is (B, ell) of token ids; their range is looked at where that waits for nobody."""
    if x.dim() != 2:
        raise AlgorithmError(f"x has shape {tuple(x.shape)}, and must be (B, ell): one sequence of token ids per row.")
    if x.dtype not in (torch.int64, torch.int32):
        raise AlgorithmError(f"x has type {str(x.dtype).removeprefix('torch.')}: token ids are whole numbers, int64.")
    if x.is_cpu and not torch.compiler.is_compiling() and x.numel():
        least, most = x.aminmax()
        if least < 0 or most >= N_V:
            wrong = int(least if least < 0 else most)
            raise AlgorithmError(f"x has the token id {wrong}, outside the vocabulary [0, N_V) = [0, {N_V}).")


def attention_weights(model: DTransformer, x: Int[Tensor, "B ell"]) -> list[Float[Tensor, "B H ell ell"]]:
    """The attention weights of each layer, `softmax` of line 6 of Algorithm 4.

    Row t_x of a matrix holds the weights with which token t_x looks at every token; it sums to 1, or is
    all 0 where the token may look at nothing.  Dropout leaves nothing out here: it is switched off meanwhile.

    Raises AlgorithmError as `DTransformer.forward` does.
    """
    weights = []
    with evaluating(model), torch.no_grad():
        X, turn = model.embed(x, NO_PAST)
        for layer in model.layers:
            assert isinstance(layer, Layer)
            weights.append(layer.attention.weights(layer.norm_1(X), NO_PAST.fresh, turn))
            X = layer(X, NO_PAST.fresh, turn)
    return weights


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
    model: DTransformer, generator: torch.Generator | None = None, std: float = 0.02, residual: float = 1.0
) -> None:
    """Random parameters like GPT-2's: matrices N(0, std^2), those that end a residual branch by 1/sqrt(2 L) less.

    `residual` multiplies the latter once more; with 0 every layer begins as the identity.  Biases and beta
    are 0, gamma is 1.
    """
    for name, theta in model.named_parameters():
        if theta.dim() == 2:
            ends_branch = name.endswith(("W_o.weight", "W_mlp2.weight"))
            scale = residual / math.sqrt(2 * model.config.L) if ends_branch else 1.0
            nn.init.normal_(theta, std=std * scale, generator=generator)
        elif name.endswith("bias"):
            nn.init.zeros_(theta)

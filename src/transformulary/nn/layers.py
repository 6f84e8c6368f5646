"""One layer of each kind: attention and an MLP, each added to what comes in, with a norm before or after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import Float
from torch import Tensor, nn

from transformulary.errors import ConfigError
from transformulary.nn.alone import Real, blank, hidden, spoilt
from transformulary.nn.attention import At, Known, MHAttention, layer
from transformulary.nn.cache import FRESH, Memory
from transformulary.nn.scores import Positional, Unbiased
from transformulary.nn.slots import choice
from transformulary.paper import Causal, Full, Mask, TwoStacks, Widths

Tokens = Float[Tensor, "B ell d_e"]


class Order(NamedTuple):
    """Where the norm of half a layer stands: X <- after(norm, X + half(before(norm, X)))."""

    before: Callable[[nn.Module, Tensor], Tensor]
    after: Callable[[nn.Module, Tensor], Tensor]


def normed(norm: nn.Module, X: Tokens) -> Tokens:
    """The norm stands here."""
    return norm(X)


def as_it_is(norm: nn.Module, X: Tokens) -> Tokens:
    """It stands elsewhere."""
    return X


#: Pre-norm is Algorithm 10 (and 8a), post-norm Algorithms 8 and 9.
ORDERS = {"pre": Order(normed, as_it_is), "post": Order(as_it_is, normed)}


class TransformerBlock(nn.Module):
    """Lines 5-8 of Algorithm 10 (`order` pre), or of Algorithm 9 (post).

    In a program of your own: `TransformerBlock(d_e=64, H=4, dropout=0.1)`.

    Args:
        c: sizes and choices; or give the fields of `LayerConfig` by name.
        mask: who may attend to whom.
        dropout: probability of leaving out an attention weight, or an element of what either half adds, while
            training only.
        order: "pre" or "post": whether norms come before the halves or after the sums.
        scores: as for `MHAttention`.
        matrices: the numbers of the MLP's matrices in the paper.
    """

    def __init__(
        self,
        c: Widths | None = None,
        mask: Mask = Full(),  # noqa: B008 - frozen
        dropout: float = 0.0,
        order: str = "pre",
        *,
        scores: Positional | None = None,
        matrices: tuple[int, int, int] = (1, 2, 3),
        **widths: Any,
    ) -> None:
        super().__init__()
        c = layer(c, widths)
        if order not in ORDERS:
            raise ConfigError(f"order = {order!r} is none of {', '.join(ORDERS)}.")
        self.order = ORDERS[order]
        self.norm_1 = choice("norm", c)(c, "beta_1", c.d_e)
        self.attention = MHAttention(c, mask, dropout, scores=scores)
        self.norm_2 = choice("norm", c)(c, "beta_2", c.d_e)
        self.mlp = choice("mlp", c)(c, *matrices)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        X: Tokens,
        *,
        real: Real | None = None,
        mask: Mask | Tensor | None = None,
        weights: bool = False,
        at: At | None = None,
        past: Memory = FRESH,
    ) -> Any:
        """X (B, ell, d_e); or X and the attention weights (B, H, ell, ell).  Arguments and errors: `MHAttention`'s."""
        ill = None
        if at is None:
            self.attention.reads.check(X, None, real, mask)
            ill = hidden(X, mask)
            X = blank(X, real, ill)
        Y = self.attention(self.order.before(self.norm_1, X), real=real, mask=mask, weights=weights, at=at, past=past)
        V, *A = Y if weights else (Y,)
        X = self.order.after(self.norm_1, X + self.dropout(V))  # 5, 6
        X = self.order.after(self.norm_2, X + self.dropout(self.mlp(self.order.before(self.norm_2, X))))  # 7, 8
        X = spoilt(X, ill)
        return (X, *A) if weights else X


class DecoderLayer(nn.Module):
    """Lines 14-19 of Algorithm 8 (post), or lines 15-20 of Algorithm 8a (pre)."""

    def __init__(self, c: TwoStacks, dropout: float, order: str, scores: Positional | None) -> None:
        super().__init__()
        self.order = ORDERS[order]
        self.norm_3 = choice("norm", c)(c, "beta_3", c.d_e)
        self.attention = MHAttention(c, Causal(), dropout, scores=scores)
        self.norm_4 = choice("norm", c)(c, "beta_4", c.d_e)
        self.cross = MHAttention(c, Full(), dropout, scores=Unbiased())
        self.norm_5 = choice("norm", c)(c, "beta_5", c.d_e)
        self.mlp = choice("mlp", c)(c, 3, 4, 6)
        self.dropout = nn.Dropout(dropout)

    def forward(self, X: Tokens, Z: Known, at: At, at_z: At, past: Memory) -> Tokens:
        before, after = self.order
        X = after(self.norm_3, X + self.dropout(self.attention(before(self.norm_3, X), at=at, past=past)))
        X = after(self.norm_4, X + self.dropout(self.cross(before(self.norm_4, X), Z, at=at_z)))
        return after(self.norm_5, X + self.dropout(self.mlp(before(self.norm_5, X))))

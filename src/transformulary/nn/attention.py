"""Algorithms 4 and 5 for every head of every sequence at once."""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformulary.nn.cache import Memory
from transformulary.nn.positions import Rotate
from transformulary.nn.slots import choice, linear
from transformulary.paper import Causal, Config, Full, Mask
from transformulary.paper.masks import no_mask


class Apart(nn.Module):
    """W_q, W_k and W_v one by one, for models that have some of b_q, b_k, b_v and lack others."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.W_q, self.W_k, self.W_v = (
            linear(c, bias, c.d_e, rows) for bias, rows in zip(("b_q", "b_k", "b_v"), heights(c), strict=True)
        )

    def forward(self, X: Float[Tensor, "B ell d_e"]) -> Float[Tensor, "B ell rows"]:
        return torch.cat([self.W_q(X), self.W_k(X), self.W_v(X)], -1)


def heights(c: Config) -> tuple[int, int, int]:
    """Rows of all W_q, of all W_k and of all W_v."""
    return c.H * c.d_attn, c.H_kv * c.d_attn, c.H_kv * c.d_mid


def queries_keys_values(c: Config) -> nn.Module:
    """Lines 1-3 of Algorithm 4; rows: all W_q, then all W_k, then all W_v.  One product where their biases agree."""
    lacks = {bias in c.absent for bias in ("b_q", "b_k", "b_v")}
    return Apart(c) if len(lacks) == 2 else linear(c, "b_q", c.d_e, sum(heights(c)))


class MHAttention(nn.Module):
    """V~ <- MHAttention(X | W, Mask), Algorithm 5 with Algorithm 4 inside.

    `dropout` is the probability of leaving out an attention weight, while training only.
    """

    def __init__(self, c: Config, mask: Mask, dropout: float) -> None:
        super().__init__()
        self.mask, self.dropout = mask, dropout
        self.scale: float = choice("scale", c)(c)
        self.rows, self.widths = heights(c), (c.d_attn, c.d_attn, c.d_mid)
        self.W_qkv = queries_keys_values(c)
        norms = [choice("norm", c)(c, beta, c.d_attn) if c.qk_norm else nn.Identity() for beta in ("beta_q", "beta_k")]
        self.norm_q, self.norm_k = norms
        self.W_o = linear(c, "b_o", c.H * c.d_mid, c.d_e)

    def heads(self, X: Float[Tensor, "B ell d_e"], past: Memory, turn: Rotate) -> tuple[Tensor, Tensor, Tensor]:
        """Q (B, H, ell, d_attn) of these tokens, K and V (B, H_kv, ell_z, .) of these and all earlier ones."""
        parts = self.W_qkv(X).split(self.rows, -1)
        Q, K, V = (part.unflatten(-1, (-1, d)).transpose(1, 2) for part, d in zip(parts, self.widths, strict=True))
        return turn(self.norm_q(Q)), *past.extend(turn(self.norm_k(K)), V)

    def forward(self, X: Float[Tensor, "B ell d_e"], past: Memory, turn: Rotate) -> Float[Tensor, "B ell d_e"]:
        Q, K, V = self.heads(X, past, turn)
        Y = attend(Q, K, V, self.mask, self.scale, self.dropout * self.training)
        return self.W_o(Y.transpose(1, 2).flatten(2))

    def weights(self, X: Float[Tensor, "B ell d_e"], past: Memory, turn: Rotate) -> Float[Tensor, "B H ell ell_z"]:
        """The softmax of line 6 of Algorithm 4, one row per query; a query that may attend to nothing has zeros."""
        Q, K, _ = self.heads(X, past, turn)
        S = Q @ K.repeat_interleave(Q.shape[1] // K.shape[1], 1).mT * self.scale
        allowed = may_attend(self.mask, Q, K)
        return S.masked_fill(~allowed, -torch.inf).softmax(-1).masked_fill(~allowed, 0)


def attend(
    Q: Float[Tensor, "B H ell_x d_attn"],
    K: Float[Tensor, "B H_kv ell_z d_attn"],
    V: Float[Tensor, "B H_kv ell_z d_mid"],
    mask: Mask,
    scale: float,
    dropout: float = 0.0,
) -> Float[Tensor, "B H ell_x d_mid"]:
    """softmax(scale Q K^T) V under the mask, lines 4-6 of Algorithm 4.

    The queries are the LAST ell_x of the ell_z positions, and query head h asks key/value head
    ceil(h H_kv / H).  A query that may attend to nothing gets 0, and no value leaks out of a slot that
    is masked for a query, NaN and infinity included.

    Raises AlgorithmError for a mask that is neither boolean nor made of the integers 0 and 1.
    """
    options: dict[str, Any] = {"dropout_p": dropout, "scale": scale, "enable_gqa": Q.shape[1] != K.shape[1]}
    Y = F.scaled_dot_product_attention(Q, K, V, **_allowed(Q, K, mask), **options)
    return Y if _finite(Y) else _quarantined(Q, K, V, may_attend(mask, Q, K), options)


def may_attend(mask: Mask, Q: Tensor, K: Tensor) -> Bool[Tensor, "..."]:
    """The mask of these queries and keys, true = may attend; it broadcasts to (ell_x, ell_z).

    Raises AlgorithmError, as the oracle does, unless it is boolean or consists of the integers 0 and 1: a kernel would
    add a mask of floats to the scores.
    """
    allowed: Tensor = mask(*positions(Q, K))
    if allowed.dtype == torch.bool:
        return allowed
    if allowed.is_floating_point() or allowed.is_complex() or not bool(((allowed == 0) | (allowed == 1)).all()):
        raise no_mask(str(allowed.dtype).removeprefix("torch."))
    return allowed.bool()


def positions(Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
    """t_z as a row and t_x as a column, so that mask(t_z, t_x) is (ell_x, ell_z)."""
    ell_x, ell_z = Q.shape[2], K.shape[2]
    t_z = torch.arange(ell_z, device=Q.device)
    return t_z, t_z[ell_z - ell_x :, None]


def _allowed(Q: Tensor, K: Tensor, mask: Mask) -> dict[str, Any]:
    """The mask in the cheapest form that the kernel takes."""
    ell_x, ell_z = Q.shape[2], K.shape[2]
    if mask == Full() or (mask == Causal() and ell_x == 1):
        return {}
    if mask == Causal() and ell_x == ell_z:  # is_causal aligns the FIRST query with the first key
        return {"is_causal": True}
    return {"attn_mask": may_attend(mask, Q, K)}


def _finite(Y: Tensor) -> bool:
    """A sum shows every NaN and infinity at the price of one pass; a compiled graph cannot ask."""
    return torch.compiler.is_compiling() or bool(Y.detach().sum().isfinite())


def _quarantined(
    Q: Tensor, K: Tensor, V: Tensor, allowed: Bool[Tensor, "ell_x ell_z"], options: dict[str, Any]
) -> Tensor:
    """The same attention where some key or value is not finite: NaN for the queries that may see one, and only those.

    The kernels multiply a masked value by its weight 0, and 0 times NaN is NaN.
    """
    sound = K.isfinite().all(-1, keepdim=True) & V.isfinite().all(-1, keepdim=True)
    K, V = K.where(sound, 0), V.where(sound, 0)
    Y = F.scaled_dot_product_attention(Q, K, V, attn_mask=allowed, **options)
    ill = (allowed & ~sound.mT).any(-1, keepdim=True).repeat_interleave(Q.shape[1] // K.shape[1], 1)
    return Y.masked_fill(ill, torch.nan)

"""Algorithms 4 and 5 for every head of every sequence at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transformulary.errors import ConfigError
from transformulary.nn.alone import Reads, Real, blank, hidden, spoilt
from transformulary.nn.attend import attend, weigh
from transformulary.nn.cache import FRESH, Memory
from transformulary.nn.places import Places, Table, across, among
from transformulary.nn.positions import Rotate, unmoved
from transformulary.nn.scores import Positional, Scores, Shift, unshifted
from transformulary.nn.slots import choice, linear
from transformulary.nn.sparse import Keys, Values
from transformulary.paper import Full, LayerConfig, Mask, Widths

Tokens = Float[Tensor, "B ell_x d_x"]
Context = Float[Tensor, "B ell_z d_z"]


class Known(NamedTuple):
    """Keys and values of a context Z, computed once and asked as often as one likes."""

    K: Keys
    V: Values


class At:
    """What positions are to attention, the same in every layer of a stack.

    places  which slots hold tokens, and at which positions
    turn    what becomes of queries and keys there
    shift   what becomes of scores there
    """

    def __init__(self, places: Places, turn: Rotate = unmoved, shift: Shift = unshifted) -> None:
        self.places, self.turn, self.shift = places, turn, shift
        self.known: dict[tuple[int, float], Scores] = {}

    def scores(self, mask: Mask, scale: float) -> Scores:
        """The scores under a mask: made once, for all layers that have it."""
        key = id(mask), scale
        if key not in self.known:
            self.known[key] = self.shift(Scores(mask, self.places, scale))
        return self.known[key]


class Joint(nn.Linear):
    """Lines 1-3 of Algorithm 4 in one product; rows: all W_q, then all W_k, then all W_v."""

    def __init__(self, c: Widths) -> None:
        super().__init__(c.d_e, sum(heights(c)), bias="b_q" not in c.absent)
        self.queries = heights(c)[0]

    def q(self, X: Tokens) -> Float[Tensor, "B ell_x rows"]:
        """Line 1."""
        return F.linear(X, self.weight[: self.queries], None if self.bias is None else self.bias[: self.queries])

    def kv(self, Z: Context) -> Float[Tensor, "B ell_z rows"]:
        """Lines 2 and 3."""
        return F.linear(Z, self.weight[self.queries :], None if self.bias is None else self.bias[self.queries :])


class Apart(nn.Module):
    """W_q, W_k and W_v one by one: where one of their biases is absent and another is not, or d_z is not d_e."""

    def __init__(self, c: Widths, d_z: int) -> None:
        super().__init__()
        q, k, v = heights(c)
        self.W_q, self.W_k, self.W_v = (
            linear(c, bias, d_in, rows) for bias, d_in, rows in (("b_q", c.d_e, q), ("b_k", d_z, k), ("b_v", d_z, v))
        )

    def forward(self, X: Tokens) -> Float[Tensor, "B ell_x rows"]:
        return torch.cat([self.W_q(X), self.W_k(X), self.W_v(X)], -1)

    def q(self, X: Tokens) -> Float[Tensor, "B ell_x rows"]:
        """Line 1."""
        return self.W_q(X)

    def kv(self, Z: Context) -> Float[Tensor, "B ell_z rows"]:
        """Lines 2 and 3."""
        return torch.cat([self.W_k(Z), self.W_v(Z)], -1)


def heights(c: Widths) -> tuple[int, int, int]:
    """Rows of all W_q, of all W_k and of all W_v."""
    return c.H * c.d_attn, c.H_kv * c.d_attn, c.H_kv * c.d_mid


class MHAttention(nn.Module):
    """V~ <- MHAttention(X, Z | W, Mask), Algorithm 5 with Algorithm 4 inside.

    In a program of your own: `MHAttention(d_e=64, H=4)`.

    Args:
        c: sizes and choices; or give the fields of `LayerConfig` by name.
        mask: who may attend to whom.
        dropout: probability of leaving out an attention weight, while training only.
        d_z: width of the context Z, d_e unless given.
        scores: what else positions do to them; what c chooses unless given, which it is not between two sequences, and
            where that is the same for a whole stack.
    """

    def __init__(
        self,
        c: Widths | None = None,
        mask: Mask = Full(),  # noqa: B008 - frozen
        dropout: float = 0.0,
        *,
        d_z: int | None = None,
        scores: Positional | None = None,
        **widths: Any,
    ) -> None:
        super().__init__()
        c = layer(c, widths)
        self.mask, self.dropout = mask, probability(dropout)
        self.scale: float = choice("scale", c)(c)
        self.rows, self.widths = list(heights(c)), (c.d_attn, c.d_attn, c.d_mid)
        self.reads = Reads(c.d_e, d_z or c.d_e, c.H)
        self.W_qkv = Joint(c) if c.joint and d_z in (None, c.d_e) else Apart(c, d_z or c.d_e)
        norms = [choice("norm", c)(c, beta, c.d_attn) if c.qk_norm else nn.Identity() for beta in ("beta_q", "beta_k")]
        self.norm_q, self.norm_k = norms
        self.rotation = choice("positions", c).rotation(c)
        self.scores = scores or choice("positions", c).scores(c)
        self.W_o = linear(c, "b_o", c.H * c.d_mid, c.d_e)

    def forward(
        self,
        X: Tokens,
        Z: Context | Known | None = None,
        *,
        real: Real | None = None,
        mask: Mask | Tensor | None = None,
        weights: bool = False,
        at: At | None = None,
        past: Memory = FRESH,
    ) -> Any:
        """The tokens of X look things up in Z, or in X itself.

        Args:
            X: the tokens that ask, one per row.
            Z: the tokens that are asked; X unless given.
            real: true where a slot of Z holds a token, false where it is padding; all do unless given.
            mask: TRUE WHERE A TOKEN MAY ATTEND: a rule like Causal(), or booleans (ell_x, ell_z), (B, ell_x, ell_z) or
                (B, H, ell_x, ell_z).  The one that this was made with unless given.
            weights: also return the attention weights.
            at: what a model has computed of positions, for all of its layers; it says what is real.
            past: the tokens that a model remembers.

        Returns:
            V~ (B, ell_x, d_e); or V~ and the weights (B, H, ell_x, ell_z), one row per query, before dropout.  A query
            that may attend to nothing has weights 0, and b_o for its V~.

        Raises:
            AlgorithmError: a mask, or `real`, is neither boolean nor made of the integers 0 and 1; without `at`, a
                shape does not fit.
        """
        ill = None
        if at is None:
            X, Z, at, ill = self._alone(X, Z, real, mask)
        Q, K, V = self._among(X, at, past) if Z is None else self._across(X, Z)
        Q, scores = self.scores(Q, K, at.scores(rule(mask, self.mask), self.scale))
        Y = attend(Q, K, V, scores, self.dropout * self.training)
        out = spoilt(self.W_o(Y.transpose(1, 2).flatten(2)), ill)
        return (out, weigh(Q, K, scores)) if weights else out

    def know(self, Z: Context) -> Known:
        """Keys and values of a context, for any number of queries later."""
        k, v = torch.split_with_sizes(self.W_qkv.kv(Z), self.rows[1:], -1)
        return Known(self.norm_k(split(k, self.widths[1])), split(v, self.widths[2]))

    def _among(self, X: Tokens, at: At, past: Memory) -> tuple[Tensor, Tensor, Tensor]:
        """Q of these tokens, K and V of these and of all earlier ones."""
        q, k, v = torch.split_with_sizes(self.W_qkv(X), self.rows, -1)
        Q, K = self.norm_q(split(q, self.widths[0])), self.norm_k(split(k, self.widths[1]))
        return at.turn(Q), *past.extend(at.turn(K), split(v, self.widths[2]))

    def _across(self, X: Tokens, Z: Context | Known) -> tuple[Tensor, Tensor, Tensor]:
        return self.norm_q(split(self.W_qkv.q(X), self.widths[0])), *(Z if isinstance(Z, Known) else self.know(Z))

    def _alone(
        self, X: Tokens, Z: Context | Known | None, real: Real | None, mask: Any
    ) -> tuple[Tokens, Any, At, Tensor | None]:
        """Without a model: positions from 0 on, and zeros in place of padding, so that nothing comes out of it."""
        if isinstance(Z, Known):
            return X, Z, At(across(real, X.shape[1])), None
        self.reads.check(X, Z, real, mask)
        ill = hidden(X if Z is None else Z, mask)
        if Z is not None:
            return X, blank(Z, real, ill), At(across(real, X.shape[1])), None
        places = among(real)
        return blank(X, real, ill), None, At(places, self.rotation(places.t_x(X.shape[1], X.device))), ill


class Attention(nn.Module):
    """V~ <- Attention(X, Z | W_qkv, Mask), Algorithm 4: one head, without the projection of Algorithm 5.

    In a program of your own: `Attention(d_x=64, d_attn=16)`.

    Args:
        d_x, d_z: widths of X and of Z; d_z = d_x unless given.
        d_attn, d_out: widths of a query and of what comes out; d_x unless given.
        mask, dropout: as for `MHAttention`.
    """

    def __init__(
        self,
        d_x: int,
        d_z: int | None = None,
        d_attn: int | None = None,
        d_out: int | None = None,
        mask: Mask = Full(),  # noqa: B008 - frozen
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.mask, self.dropout = mask, probability(dropout)
        d_z, d_attn = d_z or d_x, d_attn or d_x
        self.reads = Reads(d_x, d_z, 1)
        self.W_q, self.W_k, self.W_v = nn.Linear(d_x, d_attn), nn.Linear(d_z, d_attn), nn.Linear(d_z, d_out or d_x)

    def forward(
        self,
        X: Tokens,
        Z: Context | None = None,
        *,
        real: Real | None = None,
        mask: Mask | Tensor | None = None,
        weights: bool = False,
    ) -> Any:
        """V~ (B, ell_x, d_out); or V~ and the weights (B, ell_x, ell_z).  Arguments and errors as for `MHAttention`."""
        self.reads.check(X, Z, real, mask)
        places = among(real) if Z is None else across(real, X.shape[1])
        ill = hidden(X if Z is None else Z, mask)
        if Z is None:
            X = Z = blank(X, real, ill)
        else:
            Z, ill = blank(Z, real, ill), None
        Q, K, V = (line[:, None] for line in (self.W_q(X), self.W_k(Z), self.W_v(Z)))
        scores = Scores(rule(mask, self.mask), places, Q.shape[-1] ** -0.5)
        V_tilde = spoilt(attend(Q, K, V, scores, self.dropout * self.training)[:, 0], ill)
        return (V_tilde, weigh(Q, K, scores)[:, 0]) if weights else V_tilde


def layer(c: Any, widths: dict[str, Any]) -> Widths:
    """The config that was given, or the one of these fields.

    Raises ConfigError where it is no config, or both were given, or there is no such layer.
    """
    if c is None:
        return LayerConfig.from_dict(widths)
    if not isinstance(c, Widths) or widths:
        both = f"a config and {', '.join(widths)} are given" if widths else f"{c!r} is no config"
        raise ConfigError(f"{both}: give a config alone, or name every size, d_e=64, H=4 for example.")
    return c


def rule(mask: Mask | Tensor | None, usual: Mask) -> Mask:
    """The mask of a call as a rule; the usual one where none is given."""
    return usual if mask is None else mask if isinstance(mask, Mask) else Table(mask)


def split(Y: Float[Tensor, "B ell rows"], d: int) -> Float[Tensor, "B H ell d"]:
    """Heads lie side by side, d numbers each."""
    return Y.view(*Y.shape[:2], Y.shape[2] // d, d).transpose(1, 2)


def probability(dropout: float) -> float:
    """Raises ConfigError unless it is in [0, 1)."""
    if not 0 <= dropout < 1:
        raise ConfigError(f"dropout = {dropout} is outside [0, 1): it is the probability of leaving a number out.")
    return dropout

"""Lines 4 and 5 of Algorithm 4: which scores count, and what positions inside attention add to them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from transformulary.nn.places import Filled, Places
from transformulary.nn.positions import Sinusoid, vaswani_frequency
from transformulary.nn.sparse import InParts, Keys, Outcome, Queries, Values, in_parts, repeated
from transformulary.paper import Mask, Widths


class Dense(NamedTuple):
    """Attention by the kernel that looks at every pair.

    nearest  how many keys, the last ones, come into question
    options  what the kernel is told of the mask, in the cheapest form that it takes
    """

    nearest: int
    options: dict[str, Any]

    def __call__(self, Q: Queries, K: Keys, V: Values, scale: float, dropout: float) -> Outcome:
        if self.nearest < K.shape[2]:
            K, V = K[:, :, -self.nearest :], V[:, :, -self.nearest :]
        gqa = Q.shape[1] != K.shape[1]
        return F.scaled_dot_product_attention(Q, K, V, dropout_p=dropout, scale=scale, enable_gqa=gqa, **self.options)


class Scores:
    """S = K^T Q, where the mask allows it and where there are tokens, times `scale` before the softmax.

    The layers of a stack that have a mask in common have the plan in common.
    """

    def __init__(self, mask: Mask, places: Places, scale: float) -> None:
        self.mask, self.places, self.scale = mask, places, scale
        self._plan: Dense | InParts | None = None

    def plan(self, Q: Queries, K: Keys) -> Dense | InParts:
        """Made for the first queries and keys; all others have their lengths."""
        if self._plan is None:
            self._plan = self._planned(Q, K)
        return self._plan

    def allowed(self, Q: Queries, K: Keys) -> Bool[Tensor, ...]:
        """Who may attend to whom; it broadcasts to (B, H, ell_x, ell_z)."""
        return self.places.allowed(self.mask, Q.shape[2], K.shape[2], Q.device)

    def scaled(self, Q: Queries, K: Keys) -> Float[Tensor, "B H ell_x ell_z"]:
        """Every score, times `scale`."""
        return Q @ repeated(K, Q).mT * self.scale

    def _planned(self, Q: Queries, K: Keys) -> Dense | InParts:
        ell_x, ell_z = Q.shape[2], K.shape[2]
        n, places = ell_z, self.places
        if places == Filled(ell_z - ell_x):
            n = min(n, self.mask.kept(ell_z) + ell_x - 1)
            places = Filled(n - ell_x)
        if parts := in_parts(self.mask, places, ell_x, n, Q.device):
            return parts
        options = places.cheapest(self.mask, ell_x, n)
        return Dense(n, {"attn_mask": places.allowed(self.mask, ell_x, n, Q.device)} if options is None else options)


class BiasedScores(Scores):
    """S = K^T Q + bias."""

    def __init__(self, scores: Scores, bias: Float[Tensor, "#B H ell_x ell_z"]) -> None:
        super().__init__(scores.mask, scores.places, scores.scale)
        self.bias = bias

    def scaled(self, Q: Queries, K: Keys) -> Float[Tensor, "B H ell_x ell_z"]:
        return (Q @ repeated(K, Q).mT + self.bias) * self.scale

    def _planned(self, Q: Queries, K: Keys) -> Dense | InParts:
        added = (self.bias * self.scale).to(Q.dtype)
        return Dense(K.shape[2], {"attn_mask": added.masked_fill(~self.allowed(Q, K), -math.inf)})


def unshifted(scores: Scores) -> Scores:
    """Scores as they are, wherever the tokens are."""
    return scores


Shift = Callable[[Scores], Scores]


class Unbiased:
    """Scores are K^T Q."""

    def __call__(self, Q: Queries, K: Keys, scores: Scores) -> tuple[Queries, Scores]:
        return Q, scores

    def stack(self, mask: Mask, places: Places, ell_x: int, ell_z: int) -> Shift:
        """What all layers of a stack do to their scores."""
        return unshifted


class Bucketed(nn.Module):
    """T5's: S[t_z, t_x] = k q + B[bucket(t_z - t_x)], 32 numbers for each head."""

    def __init__(self, c: Widths) -> None:
        super().__init__()
        self.B = nn.Parameter(torch.zeros(c.H * 32))

    def forward(self, Q: Queries, K: Keys, scores: Scores) -> tuple[Queries, Scores]:
        return Q, BiasedScores(scores, self.bias(scores.mask, scores.places, Q.shape[2], K.shape[2]))

    def stack(self, mask: Mask, places: Places, ell_x: int, ell_z: int) -> Shift:
        """What all layers of a stack do to their scores, computed once."""
        bias = self.bias(mask, places, ell_x, ell_z)
        return lambda scores: BiasedScores(scores, bias)

    def bias(self, mask: Mask, places: Places, ell_x: int, ell_z: int) -> Float[Tensor, "_ H ell_x ell_z"]:
        """What is added to the scores."""
        t_z, t_x = places.grid(ell_x, ell_z, self.B.device)
        buckets = bucket(t_z - t_x, bool(mask(1, 0))).reshape(-1, ell_x, ell_z)
        return F.embedding(buckets, self.B.view(-1, 32).T).permute(0, 3, 1, 2)


class Relative(nn.Module):
    """Transformer-XL's: S[t_z, t_x] = (q + u) k + (q + v) W_r r, r the sinusoids of t_x - t_z.

    Each distance meets W_r once, and each query each distance; then rows are shifted against one another.
    """

    def __init__(self, c: Widths) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(c.H * c.d_attn))
        self.v = nn.Parameter(torch.zeros(c.H * c.d_attn))
        self.W_r = nn.Linear(c.d_e, c.H * c.d_attn, bias=False)
        self.sinusoid = Sinusoid(c, vaswani_frequency)
        self.H = c.H

    def forward(self, Q: Queries, K: Keys, scores: Scores) -> tuple[Queries, Scores]:
        ell_x, ell_z = Q.shape[2], K.shape[2]
        delta = scores.places.distances(ell_x, ell_z, scores.mask.causal)
        r = self.sinusoid(torch.arange(delta.start, delta.stop, delta.step, device=Q.device)).to(Q.dtype)
        R = self.W_r(r).unflatten(1, (self.H, -1)).transpose(0, 1)
        u, v = (vector.view(self.H, 1, -1) for vector in (self.u, self.v))
        bias = scores.places.pairs((Q + v) @ R.mT, ell_z)
        return Q + u, BiasedScores(scores, bias)


def _buckets(n_b: int) -> list[int]:
    """The bucket of each distance in one direction, up to 128, of n_b buckets."""
    half = n_b // 2
    far = (half + int(math.log(n / half) / math.log(128 / half) * (n_b - half)) for n in range(half, 129))
    return [*range(half), *(min(b, n_b - 1) for b in far)]


ONE_WAY, TWO_WAYS = _buckets(32), _buckets(16)


def bucket(distance: Int[Tensor, "*any"], both_ways: bool) -> Int[Tensor, "*any"]:
    """T5's bucket, from 0 to 31, of the distance t_z - t_x; `both_ways` where later tokens are seen."""
    table = torch.tensor(TWO_WAYS if both_ways else ONE_WAY, device=distance.device)
    n = distance.abs() if both_ways else -distance
    return table[n.clamp(0, 128)] + (16 * (distance > 0) if both_ways else 0)

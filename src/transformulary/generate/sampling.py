"""Line 5 of Algorithm 14: from the logits of one position to the token that comes next.

Small functions of a vector of logits (N_V,); a logit of -inf is a token of probability 0.  The order in which they are
applied is that of `Sampling.__call__`, here and everywhere: temperature, top-k, top-p.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from transformulary.errors import CheckpointError, ConfigError

#: Sums of probabilities are not exact: a mass that falls short of p by no more than this has reached it.
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How the next token is chosen.  `Sampling()` is the paper at tau = 1: from the model's own distribution.

    tau    temperature: q is proportional to p^(1/tau); 0 takes the most probable token (among equals the lowest id),
           infinity any token of positive probability
    top_k  only the k most probable tokens (among equals at the edge the lower ids); 0 is off
    top_p  only the smallest set of most probable tokens whose mass reaches p, after the other two; 1 is off, 0 leaves
           the most probable token

    Raises:
        ConfigError: tau is negative or NaN, top_k is negative or no whole number, top_p is outside [0, 1].
    """

    tau: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        if not self.tau >= 0:
            raise ConfigError(f"temperature = {self.tau}: it must be 0 (the most probable token) or more.")
        if not isinstance(self.top_k, int) or self.top_k < 0:
            raise ConfigError(f"top_k = {self.top_k}: it must be a whole number of tokens, or 0 for all of them.")
        if not 0 <= self.top_p <= 1:
            raise ConfigError(f"top_p = {self.top_p} is outside [0, 1]: it is a probability.")

    def __call__(self, logits: Tensor) -> Tensor:
        """q, the probabilities (N_V,) in float64 with which the next token is drawn.

        Raises:
            CheckpointError: a logit is NaN or +inf, or all are -inf.
        """
        check(logits)
        return top_p(top_k(temperature(logits.double(), self.tau), self.top_k), self.top_p).softmax(0)


def check(logits: Tensor) -> None:
    """Raises CheckpointError unless a softmax of these logits is a distribution."""
    highest = float(logits.max())
    if not math.isfinite(highest):
        raise CheckpointError(
            f"the largest logit is {highest}, so there is no distribution to draw from: the model's parameters are "
            f"damaged, or its training diverged."
        )


def temperature(logits: Tensor, tau: float) -> Tensor:
    """log q, up to a constant, for q proportional to p^(1/tau); never overflows."""
    if tau == 0:
        return top_k(logits, 1)
    return torch.where(logits == -math.inf, logits, (logits - logits.max()) / tau)


def top_k(logits: Tensor, k: int) -> Tensor:
    """The k largest logits, the others -inf; among equals the lower ids stay; k = 0 keeps all."""
    return keep(logits, order(logits)[:k]) if k else logits


def top_p(logits: Tensor, p: float) -> Tensor:
    """The smallest set of largest logits whose mass reaches p, at least one; the others -inf; p = 1 keeps all."""
    if p == 1:
        return logits
    ranked = order(logits)
    mass = logits.softmax(0)[ranked].cumsum(0)
    return keep(logits, ranked[: 1 + int((mass < p - ROUNDING).sum())])


def order(logits: Tensor) -> Tensor:
    """Token ids from the most to the least probable; equals by id."""
    return logits.argsort(descending=True, stable=True)


def keep(logits: Tensor, ids: Tensor) -> Tensor:
    """These logits, and -inf for all other ids."""
    return torch.full_like(logits, -math.inf).index_copy(0, ids, logits[ids])


def draw(q: Tensor, generator: torch.Generator) -> int:
    """One token, drawn with the probabilities q."""
    return int(torch.multinomial(q, 1, generator=generator))

"""Line 5 of Algorithm 14: from the logits of one position to the token that comes next.

Small functions of a vector of logits (N_V,); a logit of -inf is a token of probability 0.  The order in which they are
applied is that of `Sampling.__call__`, here and everywhere: temperature, top-k, top-p.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformulary.errors import CheckpointError
from transformulary.paper.practice import Filters

#: Sums of probabilities are not exact: a mass that falls short of p by no more than this has reached it.
ROUNDING = 1e-12


@dataclass(frozen=True, kw_only=True)
class Sampling(Filters):
    """How the next token is chosen; the fields, and what is raised, are those of `Filters`."""

    def __call__(self, logits: Float[Tensor, "N_V"]) -> Float[Tensor, "N_V"]:
        """q, the probabilities (N_V,) in float64 with which the next token is drawn.

        Raises:
            CheckpointError: a logit is NaN or +inf, or all are -inf.
        """
        check(logits)
        return top_p(top_k(temperature(logits.double(), self.tau), self.top_k), self.top_p).softmax(0)


def check(logits: Float[Tensor, "N_V"]) -> None:
    """Raises CheckpointError unless a softmax of these logits is a distribution."""
    highest = float(logits.max())
    if not math.isfinite(highest):
        raise CheckpointError(
            f"the largest logit is {highest}, so there is no distribution to draw from: the model's parameters are "
            f"damaged, or its training diverged."
        )


def temperature(logits: Float[Tensor, "N_V"], tau: float | int) -> Float[Tensor, "N_V"]:
    """log q, up to a constant, for q proportional to p^(1/tau); never overflows."""
    if tau == 0:
        return keep(logits, logits.argmax(keepdim=True))  # the first of equals
    return torch.where(logits == -math.inf, logits, (logits - logits.max()) / tau)


def top_k(logits: Float[Tensor, "N_V"], k: int) -> Float[Tensor, "N_V"]:
    """The k largest logits, the others -inf; among equals the lower ids stay; k = 0 keeps all."""
    if not 0 < k < len(logits):
        return logits
    least = logits.topk(k).values[-1]
    above = (logits > least).nonzero()[:, 0]
    equal = (logits == least).nonzero()[:, 0]
    return keep(logits, torch.cat([above, equal[: k - len(above)]]))


def top_p(logits: Float[Tensor, "N_V"], p: float | int) -> Float[Tensor, "N_V"]:
    """The smallest set of largest logits whose mass reaches p, at least one; the others -inf; p = 1 keeps all."""
    if p == 1:
        return logits
    q = logits.softmax(0)
    q = q[q > (1 - p) / (2 * len(q))]  # the others together are less than half of 1 - p: none is in the set
    mass = q.sort(descending=True).values.cumsum(0)
    return top_k(logits, 1 + int((mass < p - ROUNDING).sum()))


def keep(logits: Float[Tensor, "N_V"], ids: Int[Tensor, "n"]) -> Float[Tensor, "N_V"]:
    """These logits, and -inf for all other ids."""
    return torch.full_like(logits, -math.inf).index_copy(0, ids, logits[ids])


def draw(q: Float[Tensor, "N_V"], generator: torch.Generator) -> int:
    """One token, drawn with the probabilities q; takes one random number from the generator.

    It is the first token up to which the mass is at least u, uniform in (0, 1]: never one of probability 0.
    """
    mass = q.cumsum(0)
    u = 1 - torch.rand((), dtype=mass.dtype, generator=generator)
    return int(torch.searchsorted(mass, u * mass[-1]))

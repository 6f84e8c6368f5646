"""What one numbered line computes, as closed tables: the keys are those of `transformulary.paper.SLOTS`.

Each entry makes its part of the model from the config, so no `forward` ever tests a choice.
"""

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from transformulary.nn.positions import (
    FREQUENCIES,
    Nowhere,
    Rotary,
    Rotate,
    Sinusoid,
    interleaved,
    no_rotation,
    paper_frequency,
    t2t_frequency,
    vaswani_frequency,
)
from transformulary.nn.scores import Bucketed, Relative, Unbiased
from transformulary.paper import Widths


@dataclass(frozen=True)
class Positions:
    """One value of the slot.

    embedding  what line 2 adds
    rotation   how queries and keys turn at their positions
    scores     what else positions do to the scores of one layer's attention
    longest    the longest sequence
    """

    embedding: Callable[[Any], nn.Module] = lambda c: Nowhere()
    rotation: Callable[[Widths], Callable[[Tensor], Rotate]] = lambda c: no_rotation
    scores: Callable[[Widths], Unbiased | Bucketed | Relative] = lambda c: Unbiased()
    longest: Callable[[Any], float] = lambda c: math.inf


POSITIONS = {
    "learned": Positions(lambda c: nn.Embedding(c.ell_max, c.d_e), longest=lambda c: c.ell_max),
    "none": Positions(),
    "sinusoid": Positions(lambda c: Sinusoid(c, paper_frequency, interleaved, first=1)),
    "sinusoid_vaswani": Positions(lambda c: Sinusoid(c, vaswani_frequency, interleaved)),
    "sinusoid_halves": Positions(lambda c: Sinusoid(c, vaswani_frequency)),
    "sinusoid_t2t": Positions(lambda c: Sinusoid(c, t2t_frequency)),
    "rotary": Positions(rotation=lambda c: Rotary(c)),
    "relative": Positions(scores=Relative),
    "bucketed": Positions(scores=Bucketed),
}


def plain(c: Widths, into: int = 1, out: int = 2, gate: int = 3) -> nn.Module:
    """W_mlp2 act(W_mlp1 X + b_mlp1) + b_mlp2, line 8 of Algorithm 10; the numbers are those of the matrices there."""
    one, two = linear(c, f"b_mlp{into}", c.d_e, c.d_mlp), linear(c, f"b_mlp{out}", c.d_mlp, c.d_e)
    return nn.Sequential(OrderedDict({f"W_mlp{into}": one, "act": choice("activation", c)(), f"W_mlp{out}": two}))


class Gated(nn.Module):
    """W_mlp2 (act(W_mlp1 X + b_mlp1) * (W_mlp3 X + b_mlp3)) + b_mlp2, Llama's line 8."""

    def __init__(self, c: Widths, into: int = 1, out: int = 2, gate: int = 3) -> None:
        super().__init__()
        self.names = [f"W_mlp{k}" for k in (into, gate, out)]
        self.add_module(self.names[0], linear(c, f"b_mlp{into}", c.d_e, c.d_mlp))
        self.add_module(self.names[1], linear(c, f"b_mlp{gate}", c.d_e, c.d_mlp))
        self.act = choice("activation", c)()
        self.add_module(self.names[2], linear(c, f"b_mlp{out}", c.d_mlp, c.d_e))

    def forward(self, X: Float[Tensor, "B ell d_e"]) -> Float[Tensor, "B ell d_e"]:
        into, gate, out = (getattr(self, name) for name in self.names)
        return out(self.act(into(X)) * gate(X))


#: slot -> value -> its maker.
TABLES: dict[str, dict[str, Any]] = {
    "norm": {
        "layer_norm": lambda c, beta, width: nn.LayerNorm(width, eps=c.eps, bias=beta not in c.absent),
        "rms_norm": lambda c, beta, width: nn.RMSNorm(width, eps=c.eps),
    },
    "activation": {
        "gelu": nn.GELU,
        "relu": nn.ReLU,
        "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
        "silu": nn.SiLU,
    },
    "mlp": {"plain": plain, "gated": Gated},
    "positions": POSITIONS,
    "frequencies": FREQUENCIES,
    "scale": {"sqrt": lambda c: 1 / math.sqrt(c.d_attn), "none": lambda c: 1.0},
    "embedding_scale": {"none": lambda c: 1.0, "sqrt": lambda c: math.sqrt(c.d_e)},
}


def choice(slot: str, c: Widths) -> Any:
    """The entry that the config chooses."""
    return TABLES[slot][getattr(c, slot)]


def linear(c: Widths, bias: str, d_in: int, d_out: int) -> nn.Linear:
    """A matrix (d_out, d_in), and the named bias unless the model lacks it."""
    return nn.Linear(d_in, d_out, bias=bias not in c.absent)

"""What one numbered line computes, as closed tables: the keys are those of `transformulary.paper.SLOTS`.

Each entry makes its part of the model from the config, so no `forward` ever tests a choice.
"""

import math
from typing import Any

from jaxtyping import Float
from torch import Tensor, nn

from transformulary.errors import ConfigError
from transformulary.nn.positions import FREQUENCIES, POSITIONS
from transformulary.paper import Config


class Plain(nn.Module):
    """W_mlp2 act(W_mlp1 X + b_mlp1) + b_mlp2, line 8 of Algorithm 10."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.W_mlp1 = linear(c, "b_mlp1", c.d_e, c.d_mlp)
        self.act = choice("activation", c)()
        self.W_mlp2 = linear(c, "b_mlp2", c.d_mlp, c.d_e)

    def forward(self, X: Float[Tensor, "B ell d_e"]) -> Float[Tensor, "B ell d_e"]:
        return self.W_mlp2(self.act(self.W_mlp1(X)))


class Gated(nn.Module):
    """W_mlp2 (act(W_mlp1 X + b_mlp1) * (W_mlp3 X + b_mlp3)) + b_mlp2, Llama's line 8."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.W_mlp1 = linear(c, "b_mlp1", c.d_e, c.d_mlp)
        self.W_mlp3 = linear(c, "b_mlp3", c.d_e, c.d_mlp)
        self.act = choice("activation", c)()
        self.W_mlp2 = linear(c, "b_mlp2", c.d_mlp, c.d_e)

    def forward(self, X: Float[Tensor, "B ell d_e"]) -> Float[Tensor, "B ell d_e"]:
        return self.W_mlp2(self.act(self.W_mlp1(X)) * self.W_mlp3(X))


#: slot -> value -> its maker.  A value of the paper's table that is not here is the oracle's alone, so far.
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
    "mlp": {"plain": Plain, "gated": Gated},
    "positions": POSITIONS,
    "frequencies": FREQUENCIES,
    "scale": {"sqrt": lambda c: 1 / math.sqrt(c.d_attn), "none": lambda c: 1.0},
    "embedding_scale": {"none": lambda c: 1.0, "sqrt": lambda c: math.sqrt(c.d_e)},
}


def choice(slot: str, c: Config) -> Any:
    """The entry that the config chooses.  Raises ConfigError where the fast models lack it."""
    value, table = getattr(c, slot), TABLES[slot]
    if value not in table:
        raise ConfigError(
            f"{slot} = {value!r} exists in the oracle only, so far; the fast models have {', '.join(table)}."
        )
    return table[value]


def linear(c: Config, bias: str, d_in: int, d_out: int) -> nn.Linear:
    """A matrix (d_out, d_in), and the named bias unless the model lacks it."""
    return nn.Linear(d_in, d_out, bias=bias not in c.absent)

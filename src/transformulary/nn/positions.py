"""Where tokens get their positions from: a table, a formula, a rotation of queries and keys, or nowhere.

Positions t count from 0.  Formulas are evaluated in float64 for the positions that are asked, so they
have no longest sequence and no table that a change of precision could spoil.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformulary.paper import Widths


class Nowhere(nn.Module):
    """No term for the position: a declared 0."""

    def forward(self, t: Int[Tensor, "*B ell"]) -> Float[Tensor, "*B ell 1"]:
        return torch.zeros(*t.shape, 1, device=t.device)


def interleaved(sines: Tensor, cosines: Tensor) -> Tensor:
    """sin, cos, sin, cos, ..."""
    return torch.stack([sines, cosines], -1).flatten(-2)


def halves(sines: Tensor, cosines: Tensor) -> Tensor:
    """All sines, then all cosines."""
    return torch.cat([sines, cosines], -1)


class Sinusoid(nn.Module):
    """sin(w (t + first)) and cos(w (t + first)) for the frequencies w, laid out in one of two ways."""

    def __init__(
        self,
        c: Widths,
        frequency: Callable[[Tensor, Any], Tensor],
        layout: Callable[[Tensor, Tensor], Tensor] = halves,
        first: int = 0,
    ) -> None:
        super().__init__()
        self.c, self.frequency, self.layout, self.first = c, frequency, layout, first

    def forward(self, t: Int[Tensor, "*B ell"]) -> Float[Tensor, "*B ell d_e"]:
        i = torch.arange((self.c.d_e + 1) // 2, dtype=torch.float64, device=t.device)
        angles = (t + self.first)[..., None] * self.frequency(i, self.c)
        return self.layout(angles.sin(), angles.cos())[..., : self.c.d_e]


def paper_frequency(i: Tensor, c: Any) -> Tensor:
    """1 / ell_max^(2i/d_e), i from 1: the unnumbered formula of section 4."""
    return c.ell_max ** (-2 * (i + 1) / c.d_e)


def vaswani_frequency(i: Tensor, c: Widths) -> Tensor:
    """1 / 10000^(2i/d_e), i from 0: the original Transformer."""
    return 10000 ** (-2 * i / c.d_e)


def t2t_frequency(i: Tensor, c: Widths) -> Tensor:
    """1 / 10000^(i/(d_e/2 - 1)), i from 0: tensor2tensor's code; d_e of at least 4."""
    return 10000 ** (-i / (c.d_e / 2 - 1))


Rotate = Callable[[Tensor], Tensor]


def unmoved(Q: Tensor) -> Tensor:
    """Q itself: the rotation by nothing."""
    return Q


def no_rotation(t: Int[Tensor, "*B ell"]) -> Rotate:
    """Queries and keys stay as they are, wherever they are."""
    return unmoved


@dataclass(frozen=True)
class Rotation:
    """Turns the pair (q[i], q[i + d/2]) by the angle omega_i t: lines 3a and 3b of Algorithm 4."""

    cos: Tensor  # (ell, d/2), or (B, 1, ell, d/2)
    sin: Tensor

    def __call__(self, Q: Float[Tensor, "B H ell d"]) -> Float[Tensor, "B H ell d"]:
        a, b = Q.chunk(2, -1)
        precision = torch.promote_types(Q.dtype, torch.float32)
        cos, sin = self.cos.to(precision), self.sin.to(precision)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(Q.dtype)


Frequencies = Float[Tensor, "*rows pairs"]
Lengths = Int[Tensor, "*B 1"]


def geometric(c: Widths, T: Lengths) -> Frequencies:
    """omega_i = base^(-2 i / d_attn), i from 0: line 1 of Algorithm 4r; T is the length of the sequence."""
    i = torch.arange(c.d_attn // 2, dtype=torch.float64, device=T.device)
    return c.base ** (-2 * i / c.d_attn)


def dynamic(c: Widths, T: Lengths) -> Frequencies:
    """As if base were larger, the more so the longer the sequence is beyond ell_train ("NTK")."""
    longer = c.factor * T.clamp(min=c.ell_train).double() / c.ell_train - (c.factor - 1)
    i = torch.arange(c.d_attn // 2, dtype=torch.float64, device=T.device)
    return geometric(c, T) * longer ** (-2 * i / (c.d_attn - 2))


def yarn(c: Widths, T: Lengths) -> Frequencies:
    """As they are up to one pair, slower by `factor` from another on, mixed between them."""
    i = torch.arange(c.d_attn // 2, dtype=torch.float64, device=T.device)
    first, last = max(math.floor(pair(c, c.beta_fast)), 0), min(math.ceil(pair(c, c.beta_slow)), c.d_attn - 1)
    return mixed(geometric(c, T), c.factor, 1 - ramp(i, first, last))


def pair(c: Widths, turns: float) -> float:
    """The number of the pair, from 0 and not whole, that turns so often within ell_train tokens."""
    return c.d_attn * math.log(c.ell_train / (2 * math.pi * turns)) / (2 * math.log(c.base))


def llama3(c: Widths, T: Lengths) -> Frequencies:
    """Slower by `factor` if they turn rarely within ell_train tokens, as they are if often, mixed in between."""
    omega = geometric(c, T)
    return mixed(omega, c.factor, ramp(c.ell_train * omega / (2 * math.pi), c.beta_slow, c.beta_fast))


def mixed(omega: Tensor, factor: float, kept: Tensor) -> Tensor:
    """The part `kept` of each frequency as it is, the rest slower by `factor`."""
    return kept * omega + (1 - kept) * omega / factor


def ramp(x: Tensor, a: int | float, b: int | float) -> Tensor:
    """0 up to a, 1 from b on, a line in between; a step where a = b."""
    return (x > a).double() if a == b else ((x - a) / (b - a)).clamp(0, 1)


FREQUENCIES: dict[str, Callable[[Widths, Lengths], Frequencies]] = {
    "geometric": geometric,
    "linear": lambda c, T: geometric(c, T) / c.factor,
    "dynamic": dynamic,
    "yarn": yarn,
    "llama3": llama3,
}


@dataclass(frozen=True)
class Rotary:
    """The rotation of positions t, the last ones of a sequence."""

    c: Widths

    def __call__(self, t: Int[Tensor, "*B ell"]) -> Rotation:
        omega = FREQUENCIES[self.c.frequencies](self.c, t[..., -1:] + 1)
        angles = t[..., None] * omega[..., None, :]
        angles = angles[:, None] if t.dim() == 2 else angles  # the same for all heads
        return Rotation(self.c.attention_factor * angles.cos(), self.c.attention_factor * angles.sin())

"""What a program gives a layer that stands alone: looked at first, and rid of what is in padding."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformulary.errors import AlgorithmError
from transformulary.nn.places import boolean

Real = Bool[Tensor, "B ell_z"] | Int[Tensor, "B ell_z"]


class Reads(NamedTuple):
    """What a layer can be given: widths of X and of Z, and as many heads as a mask may tell apart."""

    d_x: int
    d_z: int
    H: int

    def check(self, X: Tensor, Z: Tensor | None, real: Tensor | None, mask: Any) -> None:
        """Raises AlgorithmError where shapes do not fit."""
        self._rows("X", X, self.d_x)
        if Z is not None:
            self._rows("Z", Z, self.d_z)
        (B, ell_x, _), ell_z = X.shape, (X if Z is None else Z).shape[1]
        if real is not None and not (real.dim() == 2 and real.shape[1] == ell_z and real.shape[0] in (1, B)):
            raise AlgorithmError(f"real has shape {tuple(real.shape)}, and must be {(B, ell_z)}: one for each slot.")
        sizes = (B, self.H, ell_x, ell_z)
        wanted = {2: sizes[2:], 3: (B, ell_x, ell_z), 4: sizes}
        if isinstance(mask, Tensor) and not fits(mask.shape, wanted.get(mask.dim(), ())):
            told = ", ".join(map(str, wanted.values()))
            raise AlgorithmError(
                f"the mask has shape {tuple(mask.shape)}, and must be one of {told}: a row for each query, a column "
                f"for each key. Which slots are padding is said by real=, true where there is a token."
            )

    def _rows(self, name: str, X: Tensor, d: int) -> None:
        if X.dim() != 3 or X.shape[2] != d:
            hint = f" One sequence alone is {name}[None]." if X.dim() == 2 and X.shape[1] == d else ""
            raise AlgorithmError(
                f"{name} has shape {tuple(X.shape)}, and must be (B, ell, {d}): a row per token.{hint}"
            )


def fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape can be stretched to the wanted one."""
    return len(shape) == len(wanted) and all(n in (1, most) for n, most in zip(shape, wanted, strict=True))


def hidden(X: Float[Tensor, "B ell d"], mask: Any) -> Bool[Tensor, "#B ell"] | None:
    """Slots that the mask of a call shows to no query, and that hold NaN or infinity; None without such a mask.

    Their zero weights do not keep them out of gradients: 0 times NaN is NaN.
    """
    if not isinstance(mask, Tensor):
        return None
    seen = boolean(mask).any(-2)
    return ~((seen.any(1) if seen.dim() == 3 else seen) | X.isfinite().all(-1))


def blank(X: Float[Tensor, "B ell d"], real: Real | None, ill: Tensor | None = None) -> Float[Tensor, "B ell d"]:
    """X with zeros for what is not real, or ill."""
    X = X if real is None else X.masked_fill(~boolean(real)[..., None], 0)
    return X if ill is None else X.masked_fill(ill[..., None], 0)


def spoilt(Y: Float[Tensor, "B ell d"], ill: Bool[Tensor, "B ell"] | None) -> Float[Tensor, "B ell d"]:
    """What comes out of ill tokens is NaN, although zeros stood in for them."""
    return Y if ill is None else Y.masked_fill(ill[..., None], torch.nan)

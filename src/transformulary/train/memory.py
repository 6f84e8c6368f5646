"""What a training would need at least, counted before anything is allocated."""

from __future__ import annotations

import math
import os

from transformulary.errors import ConfigError
from transformulary.paper import DTransformerConfig, training_bytes

#: Bytes of the Python objects of one layer, however narrow it is; about what was measured.
LAYER = 40_000


def refuse_huge(config: DTransformerConfig, precision: str = "float32") -> None:
    """Raise ConfigError for a model whose parameters, gradients and moments cannot be in this machine's memory.

    Activations come on top, so a smaller model may be too large still.  Where the system does not say how much
    memory it has, nothing is refused.
    """
    needed = training_bytes(config, "float64" if precision == "float64" else "float32") + LAYER * config.L
    there = memory()
    if there is not None and needed > there:
        raise ConfigError(
            f"a model of these sizes needs {gigabytes(needed)} for its parameters, gradients and moments, and this "
            f"machine has {gigabytes(there)} of memory. Make N_V, ell_max, L, d_e or d_mlp smaller."
        )


def memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def gigabytes(n: int) -> str:
    """1.5 GB; more than anyone has as a power of ten."""
    return f"{n / 1e9:,.1f} GB" if n < 1e15 else f"over 10^{int((n.bit_length() - 1) * math.log10(2)) - 9} GB"

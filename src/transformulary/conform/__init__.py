"""Comparing implementations with the paper, line by line.

Names are imported when they are first used: vectors are written and compared without PyTorch.
"""

from importlib import import_module
from typing import Any

from transformulary.errors import require

#: Module -> its public names.
_HOMES = {
    "dumps": ["read_dumps"],
    "candidates.candidate": ["Candidate"],
    "candidates.functions": ["Functions"],
    "candidates.places": ["Table"],
    "lockstep": ["Line", "Report", "compare", "see"],
    "ported": ["conform_vectors"],
    "reference": ["Reference"],
    "asserted": ["assert_conforms"],
    "run": ["conform"],
    "theta": ["theta_of"],
    "vectors": ["Row", "compare_values", "compare_vectors", "read_vectors", "write_vectors"],
}
_MODULE = {name: module for module, names in _HOMES.items() for name in names}
_TORCH = {"candidates.functions", "candidates.places", "lockstep", "reference", "asserted", "run", "theta"}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULE[name] in _TORCH:
        require("torch", "torch", "comparing a model with the oracle")
    return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)

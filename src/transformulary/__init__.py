"""Transformulary: the executable edition of "Formal Algorithms for Transformers".

The names below are loaded when they are first used: `import transformulary` costs no time.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: Public name -> the module that defines it.
_HOMES = {
    "Beam": "generate",
    "Causal": "paper",
    "DInference": "generate",
    "DTraining": "train",
    "DTransformer": "nn",
    "DTransformerConfig": "paper",
    "EDInference": "generate",
    "EDTransformer": "nn",
    "EDTransformerConfig": "paper",
    "ETransformer": "nn",
    "ETransformerConfig": "paper",
    "Full": "paper",
    "Local": "paper",
    "PreEDTransformerConfig": "paper",
    "Sampling": "generate",
    "Tokenizer": "tokens",
    "assert_conforms": "conform",
    "classify": "encode",
    "describe": "pages",
    "diff": "pages",
    "embed": "encode",
    "evaluate": "measure",
    "fill": "encode",
    "load": "models",
    "preset": "paper",
    "save": "models",
    "translate": "generate",
}

_PACKAGES = frozenset({"conform", "data", "encode", "formats", "generate", "measure", "nn", "oracle"})
_PACKAGES |= {"paper", "pseudocode", "tokens", "train", "view"}

__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__]

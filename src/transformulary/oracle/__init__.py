"""Algorithms 1-15, literal, in float64 NumPy: the text from which every pseudocode is rendered.

`oracle.DTransformer(x, theta, config)` computes P; `oracle.random_theta(config, rng)` makes parameters;
`oracle.watched(hook)` runs the same algorithms with every line's value in view.  Names are imported when
they are first used, so that reading the source (`oracle.source`, `oracle.path`) needs no NumPy.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "components": [
        "token_embedding", "positional_embedding", "single_query_attention", "Attention", "MHAttention",
        "layer_norm", "unembedding", "RMSnorm", "rotate", "offset",
        "sinusoid", "sinusoid_vaswani", "sinusoid_halves", "sinusoid_t2t",
        "NORM", "ACTIVATION", "SCALE", "POSITION",
    ],
    "transformers": ["EDTransformer", "PreEDTransformer", "ETransformer", "classification", "DTransformer"],
    "learning": [
        "AdaGrad", "Adam", "RMSProp", "batches", "chunks", "learning_rate", "momentum", "update",
        "OPTIMISER", "MEMORY", "SCHEDULE",
    ],
    "procedures": ["EDTraining", "ETraining", "DTraining", "DInference", "EDInference"],
    "theta": ["Theta", "Zero", "random_theta", "theta_from", "gradient", "derivative"],
    "lazy": ["LazyArray", "lazy_theta"],
    "precision": ["ACCUMULATED", "PRECISIONS", "in_precision", "rounded"],
    "watch": ["Variant", "Watch", "watched", "record"],
    "values": ["axes", "numbers"],
    "notation": ["softmax", "GELU", "GELU_tanh", "ReLU", "SiLU"],
}  # fmt: skip
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE)


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)

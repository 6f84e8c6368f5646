"""A fast model's parameters as the oracle's theta: float64, the paper's names, tokens as columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from transformulary.formats import ON_TOP, apart, member, place
from transformulary.nn import Transformer
from transformulary.oracle import Theta
from transformulary.oracle.whole import theta_with
from transformulary.paper import Config, ETransformerConfig

Array = NDArray[np.float64]


def theta_of(model: Transformer) -> Theta:
    """The parameters of a fast model as a point theta for the oracle: copies, in float64."""
    return as_theta(model.config, model.state_dict())


def gradient_of(model: Transformer) -> Theta:
    """The gradients that the last `backward` left in a fast model, at the places of its parameters in theta."""
    return as_theta(model.config, {name: p.grad for name, p in model.named_parameters() if p.grad is not None})


def as_theta(config: Config, tensors: Mapping[str, Tensor]) -> Theta:
    """Tensors by a fast model's names -> arrays by the paper's."""
    arrays = {name: tensor.detach().cpu().double().numpy().copy() for name, tensor in tensors.items()}
    arrays = apart(config, arrays)

    def array(name: str, _: str) -> Array:
        if name in ON_TOP:
            return arrays[ON_TOP[name]]
        value: Array = member(config, name, arrays[place(config, name)[0]])
        return value

    top = isinstance(config, ETransformerConfig) and "W_f.weight" not in arrays
    return theta_with(config, array, "tokens" if not top else "classes" if "W_c.weight" in arrays else "vectors")

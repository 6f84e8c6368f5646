"""A fast model's parameters as the oracle's theta: float64, the paper's names, tokens as columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from transformulary.nn import DTransformer
from transformulary.oracle import Theta, theta_from
from transformulary.paper import DTransformerConfig

Array = NDArray[np.float64]

#: What the paper calls the matrix and the column of one module -> the module.
MODULES = {
    ("W_e", ""): "W_e",
    ("W_p", ""): "W_p",
    ("gamma_x", "beta_x"): "norm_x",
    ("gamma_1[l]", "beta_1[l]"): "layers.{l}.norm_1",
    ("W[l].W_q[h]", "W[l].b_q[h]"): "layers.{l}.attention.W_qkv.W_q",
    ("W[l].W_k[h]", "W[l].b_k[h]"): "layers.{l}.attention.W_qkv.W_k",
    ("W[l].W_v[h]", "W[l].b_v[h]"): "layers.{l}.attention.W_qkv.W_v",
    ("W[l].W_o", "W[l].b_o"): "layers.{l}.attention.W_o",
    ("gamma_2[l]", "beta_2[l]"): "layers.{l}.norm_2",
    ("W_mlp1[l]", "b_mlp1[l]"): "layers.{l}.mlp.W_mlp1",
    ("W_mlp2[l]", "b_mlp2[l]"): "layers.{l}.mlp.W_mlp2",
    ("W_mlp3[l]", "b_mlp3[l]"): "layers.{l}.mlp.W_mlp3",
    ("gamma", "beta"): "norm",
    ("W_u", "b_u"): "W_u",
}
TENSORS = {
    paper: f"{module}.{kind}"
    for names, module in MODULES.items()
    for paper, kind in zip(names, ("weight", "bias"), strict=True)
}
#: Tables with one row per token where the paper has one column.
TRANSPOSED = frozenset({"W_e", "W_p"})


def theta_of(model: DTransformer) -> Theta:
    """The parameters of a fast model as a point theta for the oracle: copies, in float64."""
    return as_theta(model.config, model.state_dict())


def gradient_of(model: DTransformer) -> Theta:
    """The gradients that the last `backward` left in a fast model, at the places of its parameters in theta."""
    return as_theta(model.config, {name: p.grad for name, p in model.named_parameters() if p.grad is not None})


def as_theta(config: DTransformerConfig, tensors: Mapping[str, Tensor]) -> Theta:
    """Tensors by a fast model's names -> arrays by the paper's."""
    c = config
    arrays = {name: tensor.detach().cpu().double().numpy().copy() for name, tensor in tensors.items()}
    arrays = _apart(arrays, {"W_q": c.H * c.d_attn, "W_k": c.H_kv * c.d_attn, "W_v": c.H_kv * c.d_mid})
    heads = {"q": c.H, "k": c.H_kv, "v": c.H_kv}

    def array(name: str, _: str) -> Array:
        indices = [int(index) - 1 for index in re.findall(r"\[(\d+)\]", name)]
        pattern = re.sub(r"\[\d+\]", "[l]", name, count=1)
        pattern = re.sub(r"\[\d+\]", "[h]", pattern)
        value = arrays[TENSORS[pattern].format(l=indices[0] if indices else "")]
        if len(indices) == 2:  # one head of all
            value = np.split(value, heads[pattern[-4]])[indices[1]]
        return value.T if name in TRANSPOSED else value

    return theta_from(c, array)


def _apart(arrays: dict[str, Array], heights: dict[str, int]) -> dict[str, Array]:
    """W_qkv, where a model holds W_q, W_k and W_v as one, cut into the three."""
    apart: dict[str, Array] = {}
    for name, value in arrays.items():
        module, _, kind = name.rpartition(".")
        joint = module.endswith(".W_qkv")
        blocks = np.split(value, np.cumsum(list(heights.values()))[:-1]) if joint else [value]
        names = [f"{module}.{part}.{kind}" for part in heights] if joint else [name]
        apart |= dict(zip(names, blocks, strict=True))
    return apart

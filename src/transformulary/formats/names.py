"""Our tensors: what a fast model's `state_dict` calls each parameter of the paper, and their shapes.

One tensor holds all heads of a matrix, one above another: W_q, W_k and W_v are three tensors here, also where a
model or a file keeps them as one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from transformulary.errors import ConfigError
from transformulary.paper import DTransformerConfig, parameters
from transformulary.paper.parameters import Shapes, size, split

Shape = tuple[int, ...]

#: What the paper calls the matrix and the column of one module -> the module.
MODULES = {
    ("W_e", ""): "W_e",
    ("W_p", ""): "W_p",
    ("gamma_x", "beta_x"): "norm_x",
    ("gamma_1[l]", "beta_1[l]"): "layers.{l}.norm_1",
    ("W[l].W_q[h]", "W[l].b_q[h]"): "layers.{l}.attention.W_qkv.W_q",
    ("W[l].W_k[h]", "W[l].b_k[h]"): "layers.{l}.attention.W_qkv.W_k",
    ("W[l].W_v[h]", "W[l].b_v[h]"): "layers.{l}.attention.W_qkv.W_v",
    ("W[l].gamma_q", "W[l].beta_q"): "layers.{l}.attention.norm_q",
    ("W[l].gamma_k", "W[l].beta_k"): "layers.{l}.attention.norm_k",
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
    if paper
}
#: Tables with one row per token where the paper has one column.
TRANSPOSED = frozenset({"W_e", "W_p"})
#: Our tensors that are another one when the model is tied.
TIED = {"W_u.weight": "W_e.weight"}
#: The tensors that a fast model may hold as one, W_qkv, in this order.
JOINT = ("W_q", "W_k", "W_v")


def shapes(config: DTransformerConfig) -> dict[str, Shape]:
    """{our name: shape} of every tensor that a model has, W_u included where it is W_e.

    Raises ConfigError where the model has a parameter that no file holds.
    """
    c, found = config, dict[str, Shape]()
    tables: dict[str, Shapes] = {"": parameters(c)}
    tables |= {f"{split(name)[0]}[l].": table for name, table in tables[""].items() if isinstance(table, dict)}
    for prefix, table in tables.items():
        for entry, shape in table.items():
            if isinstance(shape, str):
                name, count = split(entry)
                pattern = f"{prefix}{name}" + (f"[{'h' if prefix else 'l'}]" if count else "")
                if pattern not in TENSORS:
                    raise ConfigError(
                        f"positions = {c.positions!r} needs {name}, and no file format has a place for it."
                    )
                dims = [size(s, c) for s in shape.split()]
                heads = size(count, c) if prefix and count else 1
                whole = tuple(reversed(dims)) if pattern in TRANSPOSED else (heads * dims[0], *dims[1:])
                layers = range(c.L) if "[l]" in pattern else range(1)
                found |= {TENSORS[pattern].format(l=l): whole for l in layers}
    return found | ({twin: found[original] for twin, original in TIED.items()} if c.tied else {})


def place(name: str) -> tuple[str, str, int | None]:
    """ "W[3].W_q[2]" -> (our tensor, the paper's pattern, head from 0): where an array of theta is found."""
    indices = [int(index) - 1 for index in re.findall(r"\[(\d+)\]", name)]
    pattern = re.sub(r"\[\d+\]", "[h]", re.sub(r"\[\d+\]", "[l]", name, count=1))
    tensor = TENSORS[pattern].format(l=indices[0] if indices else "")
    return tensor, pattern, indices[1] if len(indices) == 2 else None


def member(config: DTransformerConfig, name: str, tensor: Any) -> Any:
    """The array of theta called `name`, in the tensor that `place` finds: one head of all, tokens as columns."""
    _, pattern, head = place(name)
    if head is None:
        return tensor.T if pattern in TRANSPOSED else tensor
    rows = len(tensor) // (config.H if pattern[-4] == "q" else config.H_kv)
    return tensor[head * rows : (head + 1) * rows]


def apart(config: DTransformerConfig, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors by a fast model's names, with W_qkv cut into W_q, W_k and W_v where a model holds them as one."""
    heights = (config.H * config.d_attn, config.H_kv * config.d_attn, config.H_kv * config.d_mid)
    found = dict[str, Any]()
    for name, tensor in tensors.items():
        module, _, kind = name.rpartition(".")
        if not module.endswith(".W_qkv"):
            found[name] = tensor
            continue
        begin = 0
        for part, height in zip(JOINT, heights, strict=True):
            found[f"{module}.{part}.{kind}"] = tensor[begin : begin + height]
            begin += height
    return found


def parts(name: str) -> list[str]:
    """Our tensors that a fast model's tensor `name` holds: three in W_qkv, else itself."""
    module, _, kind = name.rpartition(".")
    return [f"{module}.{part}.{kind}" for part in JOINT] if module.endswith(".W_qkv") else [name]

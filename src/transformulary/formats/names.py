"""Our tensors: what a fast model's `state_dict` calls each parameter of the paper, and their shapes.

One tensor holds all heads of a matrix, one above another: W_q, W_k and W_v are three tensors here, also where a
model or a file keeps them as one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from transformulary.paper import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
    parameters,
)
from transformulary.paper.parameters import PLACES, TOKENS, size, split

Shape = tuple[int, ...]
Names = dict[str, str]


def _module(matrix: str, column: str, module: str) -> Names:
    """What the paper calls the matrix and the column of one module."""
    return {paper: f"{module}.{kind}" for paper, kind in ((matrix, "weight"), (column, "bias")) if paper}


def _norm(suffix: str, module: str) -> Names:
    return _module(f"gamma{suffix}", f"beta{suffix}", module)


def _attention(W: str, module: str) -> Names:
    """One multi-head layer; and what one has besides where positions change its scores."""
    heads = {
        name: tensor
        for k in "qkv"
        for name, tensor in _module(f"{W}.W_{k}", f"{W}.b_{k}", f"{module}.W_qkv.W_{k}").items()
    }
    norms = {name: tensor for k in "qk" for name, tensor in _norm(f"_{k}", f"{module}.norm_{k}").items()}
    positional = {f"{W}.{name}": f"{module}.scores.{name}" for name in ("u", "v", "B")}
    return (
        heads
        | {f"{W}.{name}": tensor for name, tensor in norms.items()}
        | positional
        | {f"{W}.W_r": f"{module}.scores.W_r.weight"}
        | _module(f"{W}.W_o", f"{W}.b_o", f"{module}.W_o")
    )


def _layer(module: str, norms: str, mlp: str) -> Names:
    found = {name: t for k in norms for name, t in _norm(f"_{k}", f"{module}.norm_{k}").items()}
    return found | {
        name: t for k in mlp for name, t in _module(f"W_mlp{k}", f"b_mlp{k}", f"{module}.mlp.W_mlp{k}").items()
    }


_ENDS = {"W_e": "W_e.weight", "W_p": "W_p.weight"} | _norm("_x", "norm_x") | _module("W_u", "b_u", "W_u")
_ONE = _ENDS | _attention("W", "layers.{l}.attention") | _layer("layers.{l}", "12", "123") | _norm("", "norm")
_TWO = (
    _ENDS
    | {"W_e_z": "W_e_z.weight", "W_p_z": "W_p_z.weight"}
    | _norm("_z", "norm_z")
    | _attention("W_enc", "encoder.{l}.attention")
    | _layer("encoder.{l}", "12", "125")
    | _attention("W_dec", "decoder.{l}.attention")
    | _attention("W_ed", "decoder.{l}.cross")
    | _layer("decoder.{l}", "345", "346")
)
#: Architecture -> what the paper calls a parameter, without layer and head -> our tensor, of layer l.
TENSORS: dict[type[Config], Names] = {
    DTransformerConfig: _ONE,
    ETransformerConfig: _ONE | {"W_s": "W_s.weight"} | _module("W_f", "b_f", "W_f"),
    EDTransformerConfig: _TWO,
    PreEDTransformerConfig: _TWO
    | {f"B_{stack}": f"scores_{stack}.B" for stack in ("enc", "dec")}
    | _norm("_enc", "norm_enc")
    | _norm("_dec", "norm_dec"),
}
#: Tables with one row per token where the paper has one column.
TRANSPOSED = frozenset({*TOKENS, *PLACES, "W_s"})
#: Our tensors that are another one when the model is tied.
TIED = {"W_u.weight": "W_e.weight"}
#: The tensors that a fast model may hold as one, W_qkv, in this order.
JOINT = ("W_q", "W_k", "W_v")
#: Parameters with one member for each head of keys and values, not of queries.
GROUPED = frozenset({"W_k", "b_k", "W_v", "b_v"})


def shapes(config: Config) -> dict[str, Shape]:
    """{our name: shape} of every tensor that a model has, W_u included where it is W_e."""
    c, found = config, dict[str, Shape]()
    for name, layers, heads, shape in _parameters(c):
        dims = [size(s, c) for s in shape.split()]
        whole = tuple(reversed(dims)) if name in TRANSPOSED else (heads * dims[0], *dims[1:])
        found |= {TENSORS[type(c)][name].format(l=l): whole for l in range(layers)}
    return found | ({twin: found[original] for twin, original in TIED.items()} if c.tied else {})


def _parameters(c: Config) -> Iterator[tuple[str, int, int, str]]:
    """(name, layers, heads, shape) of every parameter."""
    for entry, shape in parameters(c).items():
        name, count = split(entry)
        n = size(count, c) if count else 1
        if not isinstance(shape, str):
            for inner, one in shape.items():
                member, heads = split(inner)
                yield f"{name}.{member}", n, size(heads, c) if heads else 1, str(one)
        elif count.startswith("H"):
            yield name, 1, n, shape
        else:
            yield name, n, 1, shape


def place(config: Config, name: str) -> tuple[str, str, int | None]:
    """ "W[3].W_q[2]" -> (our tensor, the name without numbers, head from 0): where an array of theta is found."""
    bare, numbers = re.sub(r"\[\d+\]", "", name), [int(n) - 1 for n in re.findall(r"\[(\d+)\]", name)]
    tensor = TENSORS[type(config)][bare]
    of_layer = int("{l}" in tensor)
    return tensor.format(l=numbers[0] if of_layer else ""), bare, numbers[-1] if len(numbers) > of_layer else None


def member(config: Config, name: str, tensor: Any) -> Any:
    """The array of theta called `name`, in the tensor that `place` finds: one head of all, tokens as columns."""
    _, bare, head = place(config, name)
    if head is None:
        return tensor.T if bare in TRANSPOSED else tensor
    rows = len(tensor) // (config.H_kv if bare.rpartition(".")[2] in GROUPED else config.H)
    return tensor[head * rows : (head + 1) * rows]


def apart(config: Config, tensors: Mapping[str, Any]) -> dict[str, Any]:
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

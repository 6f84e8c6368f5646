"""The parameters of a model as a file of functions gets them: plain arrays by the paper's names, the heads stacked.

Matrices are (out, in); the tables of the embedding are turned as the file holds its tokens.  A bias or a beta that a
model lacks is 0; other parameters that it lacks are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from transformulary.conform.candidates.candidate import Array
from transformulary.oracle import Theta
from transformulary.oracle.theta import Zero, sharing
from transformulary.oracle.whole import Model
from transformulary.paper.parameters import PLACES, TOKENS, parameters, split

#: The size that counts the layers of a stack -> what its layers are called.
STACKS = {"L": "layers", "L_enc": "encoder", "L_dec": "decoder"}
#: The tables of the embedding, which have a column per token in the paper.
TABLES = (*TOKENS, *PLACES, "W_s")
Turn = Callable[[Array], Array]


def one_head(W: Theta) -> SimpleNamespace:
    """W_q, W_k (d_attn, d_e), W_v (d_mid, d_e) and b_q, b_k, b_v; also B, u, v, W_r or gamma_q, where there are any."""
    return SimpleNamespace(**_present(vars(W)))


def heads(W: Theta) -> SimpleNamespace:
    """W_q (H d_attn, d_e), W_k, W_v: the heads one below the other; W_o (d_e, H d_mid); b_q, b_k, b_v, b_o; H, H_kv.

    Also what else there is, a row per head.
    """
    joined = {name: _joined(name, value) for name, value in vars(W).items()}
    return SimpleNamespace(**_present(joined), H=len(W.W_q), H_kv=len(W.W_k))


def on_top(model: Model, turn: Turn, side: str = "x") -> dict[str, Any]:
    """The parameters outside of layers; for side "z", W_e and W_p are those of z.  W_u is there if it is tied, too."""
    theta, counts = model.theta, _counts(model)
    tree = {name: np.stack(value) if isinstance(value, list) else value
            for name, value in vars(theta).items() if counts.get(name) not in STACKS}  # fmt: skip
    tree |= {name.removesuffix("_z"): tree[name] for name in ("W_e_z", "W_p_z") if side == "z" and name in tree}
    if model.gives == "tokens" and model.config.tied:
        tree["W_u"] = theta.W_e.T
    turned = {name: turn(value) for name, value in tree.items() if name in TABLES and not isinstance(value, Zero)}
    return _present(tree | turned)


def one_layer(model: Model, stack: str, l: int) -> SimpleNamespace:
    """Layer l, from 0, of a stack, "L_enc": gamma_1, beta_1 ..., its MLP, and its attention under the paper's name.

    The parameters of its self-attention are also its own.  In every stack its MLP's are called W_mlp1, b_mlp1, W_mlp2,
    b_mlp2, and those of a gate W_mlp3, b_mlp3.
    """
    theta = vars(model.theta)
    tree = {name: theta[name][l] for name, count in _counts(model).items() if count == stack and name in theta}
    bundles = {n: heads(_shared(W, n, theta)) for n, W in tree.items() if isinstance(W, Theta)}
    plain = _present({name: value for name, value in tree.items() if name not in bundles})
    return SimpleNamespace(**vars(next(iter(bundles.values()))), **bundles, **_numbered_anew(plain))


def one_mlp(model: Model, stack: str, l: int) -> SimpleNamespace:
    """Of a layer only its MLP."""
    return SimpleNamespace(**{n: value for n, value in vars(one_layer(model, stack, l)).items() if "_mlp" in n})


def all_weights(model: Model, turn: Turn) -> SimpleNamespace:
    """Everything: what stands outside of layers, and `layers`, or `encoder` and `decoder`."""
    counts = _counts(model)
    stacks = {name: [one_layer(model, size, l) for l in range(getattr(model.config, size))]
              for size, name in STACKS.items() if size in counts.values()}  # fmt: skip
    return SimpleNamespace(**on_top(model, turn), **stacks)


def vector(b: Any, n: int) -> Array:
    """Zeros for a vector that the model lacks."""
    return np.zeros(n) if isinstance(b, Zero) else np.asarray(b)


def _present(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Without parameters that the model lacks; a bias or a beta beside its W or gamma is 0 then."""
    found = {name: value for name, value in tree.items() if not isinstance(value, Zero)}
    lacking = {name: found[_partner(name)] for name in tree.keys() - found.keys() if _partner(name) in found}
    return found | {name: np.zeros(len(beside)) for name, beside in lacking.items()}


def _partner(name: str) -> str:
    """b_mlp1 -> W_mlp1, beta_1 -> gamma_1."""
    return "W" + name[1:] if name.startswith("b_") else name.replace("beta", "gamma")


def _counts(model: Model) -> dict[str, str]:
    """Name -> the size that counts how many there are, also of parameters that the model lacks."""
    counts = dict(map(split, parameters(model.config)))
    return counts | {name: counts[_partner(name)] for name in vars(model.theta) if _partner(name) in counts}


def _joined(name: str, value: Any) -> Any:
    """Of all heads: matrices and biases one below the other, anything else a row per head."""
    if not isinstance(value, list) or isinstance(value[0], Zero):
        return value
    return np.concatenate(value) if name.startswith(("W_", "b_")) else np.stack(value)


def _shared(W: Theta, name: str, theta: Mapping[str, Any]) -> Theta:
    """The bundle W_enc with the B_enc that the layers of its stack have in common."""
    B = theta.get(name.replace("W_", "B_"))
    return W if B is None else sharing(W, B)


def _numbered_anew(plain: Mapping[str, Any]) -> dict[str, Any]:
    """A decoder's W_mlp3, W_mlp4, W_mlp6 as W_mlp1, W_mlp2, W_mlp3, and so the biases."""
    old: Iterable[str] = [name.removeprefix("W_mlp") for name in plain if name.startswith("W_mlp")]
    new = {f"{kind}_mlp{k}": f"{kind}_mlp{n}" for n, k in enumerate(old, 1) for kind in "Wb"}
    return {new.get(name, name): value for name, value in plain.items()}

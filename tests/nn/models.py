"""Small configs and models with parameters that are far from their initial ones, so that every term counts."""

from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import torch

from transformulary import oracle
from transformulary.errors import ConfigError
from transformulary.nn import DTransformer, EDTransformer, ETransformer
from transformulary.paper import (
    Causal,
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    Fixed,
    Full,
    Local,
    PreEDTransformerConfig,
    Prefix,
    Strided,
    TwoStacks,
)

Variants = dict[str, list[dict[str, Any]]]

#: Every choice of every slot, each as the fields that it changes: those that all architectures have.
SHARED: Variants = {
    "norm": [{"norm": "layer_norm"}, {"norm": "rms_norm"}],
    "eps": [{"eps": 0.0}, {"eps": 1e-2}],
    "activation": [{"activation": a} for a in ("gelu", "relu", "gelu_tanh", "silu")],
    "mlp": [{"mlp": "plain"}, {"mlp": "gated"}],
    "positions": [
        {"positions": p}
        for p in ("learned", "none", "sinusoid", "sinusoid_vaswani", "sinusoid_halves", "sinusoid_t2t", "bucketed")
    ],
    "scale": [{"scale": "sqrt"}, {"scale": "none"}],
    "embedding_scale": [{"embedding_scale": "none"}, {"embedding_scale": "sqrt"}],
    "embedding_norm": [{"embedding_norm": False}, {"embedding_norm": True}],
    "qk_norm": [{"qk_norm": False}, {"qk_norm": True}, {"qk_norm": True, "norm": "rms_norm"}],
    "tied": [{"tied": False}, {"tied": True}],
    "heads": [{}, {"H_kv": 1}, {"H_kv": 2, "d_attn": 4, "d_mid": 3}, {"d_mid": 5}, {"H": 3, "d_attn": 6}],
}  # fmt: skip
#: Those of one sequence alone.
ONE_SEQUENCE: Variants = {
    "positions": [*SHARED["positions"], {"positions": "rotary"}, {"positions": "relative"}],
    "frequencies": [
        {"positions": "rotary", "d_attn": 4, "frequencies": f, "ell_train": 4, **numbers}
        for f, numbers in {
            "geometric": {},
            "linear": {"factor": 2.5},
            "dynamic": {"factor": 2.5},
            "yarn": {"factor": 2.5, "base": 20.0, "beta_fast": 0.6, "beta_slow": 0.2, "attention_factor": 1.25},
            "llama3": {"factor": 2.5, "base": 20.0, "beta_fast": 0.6, "beta_slow": 0.2},
        }.items()
    ],
}


def absent(names: str) -> Variants:
    """No b_u, every parameter, and each of some alone absent; all biases absent."""
    each = names.split()
    biases = ("b_u", *(name for name in each if name.startswith("b_")))
    values = [{"absent": {"b_u"}}, {"absent": set()}, *({"absent": {name}} for name in each), {"absent": biases}]
    return {"absent": values}


ATTENTION, ONE_MLP, TWO_MLPS = "b_q b_k b_v b_o beta_x", "b_mlp1 b_mlp2 b_mlp3", "b_mlp1 b_mlp4 b_mlp5 b_mlp6"
VARIANTS: Variants = SHARED | ONE_SEQUENCE | absent(f"{ATTENTION} {ONE_MLP} beta beta_1 beta_2") | {
    "mask": [
        {"mask": m}
        for m in (
            Causal(), Full(), Local(2), Strided(2), Fixed(3, 1), Prefix(3), Local(2) | Strided(3), (Causal(), Local(2)),
        )
    ],
}  # fmt: skip
E_VARIANTS = SHARED | ONE_SEQUENCE | absent(f"{ATTENTION} {ONE_MLP} beta beta_1 beta_2 b_f") | {
    "segments": [{"segments": 0}, {"segments": 3}],
    "d_f": [{}, {"d_f": 5}],
}  # fmt: skip
ED_VARIANTS = SHARED | absent(f"{ATTENTION} {TWO_MLPS} beta_z beta_1 beta_3 beta_4 beta_5") | {
    "layers": [{}, {"L_enc": 1, "L_dec": 3}],
    "separate": [{}, *({"separate": z} for z in (("W_e",), ("W_p",), ("W_e", "W_p")))],
}  # fmt: skip
PRE_VARIANTS = ED_VARIANTS | absent(f"{ATTENTION} {TWO_MLPS} beta_z beta_4 beta_enc beta_dec") | {
    "unembedding_scale": [{"unembedding_scale": "none"}, {"unembedding_scale": "sqrt"}],
}  # fmt: skip

SIZES = {"N_V": 11, "ell_max": 9, "H": 4, "d_e": 8, "d_mlp": 7}
LAYERS = {
    DTransformerConfig: {"L": 2},
    ETransformerConfig: {"L": 2},
    EDTransformerConfig: {"L_enc": 2, "L_dec": 2},
    PreEDTransformerConfig: {"L_enc": 2, "L_dec": 2},
}
ARCHITECTURES = {
    DTransformerConfig: VARIANTS,
    ETransformerConfig: E_VARIANTS,
    EDTransformerConfig: ED_VARIANTS,
    PreEDTransformerConfig: PRE_VARIANTS,
}
FAST = {
    DTransformerConfig: DTransformer,
    ETransformerConfig: ETransformer,
    EDTransformerConfig: EDTransformer,
    PreEDTransformerConfig: EDTransformer,
}


def config(kind: type[Config] = DTransformerConfig, /, **changes: Any) -> Any:
    return kind(**{**SIZES, **LAYERS[kind], **changes})


#: (architecture, what changes) of every config that one choice makes, each once.
EVERY = list({
    config(kind, **change): (kind, change)
    for kind, variants in ARCHITECTURES.items() for values in variants.values() for change in values
}.values())  # fmt: skip


def merged(*changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for change in changes for key, value in change.items()}


def fits(kind: type[Config], chosen: dict[str, Any], change: dict[str, Any]) -> bool:
    """Whether a change can be made beside what is chosen: it overrides nothing, and there is such a model.

    Where line 10 of Algorithm 9 is a ReLU, it may leave nothing of a token, and such a one has no norm without eps.
    """
    if any(chosen.get(key, value) != value for key, value in change.items()):
        return False
    if kind is ETransformerConfig and (chosen | change).items() >= {"activation": "relu", "eps": 0.0}.items():
        return False
    try:
        config(kind, **chosen | change)
    except ConfigError:
        return False
    return True


def pairwise(kind: type[Config]) -> list[dict[str, Any]]:
    """Few changes of a config in which every value of one slot meets every value of each other that it fits."""
    slots, random = ARCHITECTURES[kind], Random(0)
    value = {(slot, k): change for slot, changes in slots.items() for k, change in enumerate(changes)}
    met = [frozenset(pair) for pair in combinations(value, 2) if pair[0][0] != pair[1][0]]
    todo = {pair: None for pair in met if fits(kind, *(value[place] for place in pair))}  # a set that keeps its order
    found = []
    while todo:
        chosen = sorted(next(iter(todo)))
        change = merged(*(value[place] for place in chosen))
        for slot in random.sample(list(slots), len(slots)):
            if slot not in dict(chosen):
                fitting = [place for place in value if place[0] == slot and fits(kind, change, value[place])]
                if fitting:
                    best = max(fitting, key=lambda p: sum(frozenset({p, other}) in todo for other in chosen))
                    chosen.append(best)
                    change |= value[best]
        for pair in combinations(chosen, 2):
            todo.pop(frozenset(pair), None)
        found.append(change)
    return found


def model(c: Config, seed: int = 0, made: Any = None) -> Any:
    """A model in float64 whose parameters are all of the order of 1 / sqrt(d_e), none of them 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    made = (made or FAST[type(c)](c, generator=generator)).double().eval()
    with torch.no_grad():
        for name, theta in made.named_parameters():
            centre = float(theta.dim() == 1 and name.endswith("weight"))  # gamma
            theta.copy_(centre + 0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype))
    return made


def tokens(c: Config, B: int, ell: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(c.N_V, (B, ell), generator=torch.Generator().manual_seed(seed))


def inputs(c: Config, B: int, ell: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """What `forward` takes: x; x and its segments; or z, three tokens shorter, and x."""
    x = tokens(c, B, ell, seed)
    if isinstance(c, ETransformerConfig) and c.segments:
        return x, x % c.segments
    return (tokens(c, B, ell - 3, seed + 1), x) if isinstance(c, TwoStacks) else (x,)


def by_the_oracle(c: Config, theta: oracle.Theta, given: tuple[torch.Tensor, ...]) -> np.ndarray:
    """P of the oracle for the first row."""
    first, *more = (tensor[0].tolist() for tensor in given)
    match c:
        case DTransformerConfig():
            return oracle.DTransformer(first, theta, c)
        case ETransformerConfig():
            return oracle.ETransformer(first, theta, c, *more)
        case EDTransformerConfig():
            return oracle.EDTransformer(first, *more, theta, c)
    return oracle.PreEDTransformer(first, *more, theta, c)

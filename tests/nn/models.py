"""Small configs and models with parameters that are far from their initial ones, so that every term counts."""

from typing import Any

import torch

from transformulary.nn import DTransformer
from transformulary.paper import Causal, DTransformerConfig, Fixed, Full, Local, Prefix, Strided

#: Every choice of every slot that the fast models have, each as the fields that it changes.
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "norm": [{"norm": "layer_norm"}, {"norm": "rms_norm"}],
    "eps": [{"eps": 0.0}, {"eps": 1e-2}],
    "activation": [{"activation": a} for a in ("gelu", "relu", "gelu_tanh", "silu")],
    "mlp": [{"mlp": "plain"}, {"mlp": "gated"}],
    "positions": [
        {"positions": p}
        for p in ("learned", "none", "sinusoid", "sinusoid_vaswani", "sinusoid_halves", "sinusoid_t2t", "rotary")
    ],
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
    "mask": [
        {"mask": m}
        for m in (
            Causal(), Full(), Local(2), Strided(2), Fixed(3, 1), Prefix(3), Local(2) | Strided(3), (Causal(), Local(2)),
        )
    ],
    "scale": [{"scale": "sqrt"}, {"scale": "none"}],
    "embedding_scale": [{"embedding_scale": "none"}, {"embedding_scale": "sqrt"}],
    "embedding_norm": [{"embedding_norm": False}, {"embedding_norm": True}],
    "qk_norm": [{"qk_norm": False}, {"qk_norm": True}, {"qk_norm": True, "norm": "rms_norm"}],
    "tied": [{"tied": False}, {"tied": True}],
    "heads": [{}, {"H_kv": 1}, {"H_kv": 2, "d_attn": 4, "d_mid": 3}, {"d_mid": 5}, {"H": 3, "d_attn": 6}],
    "absent": [{"absent": {"b_u"}}, {"absent": set()}] + [
        {"absent": {name}}
        for name in (
            "b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "beta", "beta_1", "beta_2", "beta_x",
        )
    ] + [{"absent": ("b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u")}],
}  # fmt: skip


def config(**changes: Any) -> DTransformerConfig:
    return DTransformerConfig(**{"N_V": 11, "ell_max": 9, "L": 2, "H": 4, "d_e": 8, "d_mlp": 7, **changes})


def merged(*changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for change in changes for key, value in change.items()}


def model(c: DTransformerConfig, seed: int = 0) -> DTransformer:
    """A model in float64 whose parameters are all of the order of 1 / sqrt(d_e), none of them 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    made = DTransformer(c, generator=generator).double().eval()
    with torch.no_grad():
        for name, theta in made.named_parameters():
            centre = float(theta.dim() == 1 and name.endswith("weight"))  # gamma
            theta.copy_(centre + 0.3 * torch.randn(theta.shape, generator=generator, dtype=theta.dtype))
    return made


def tokens(c: DTransformerConfig, B: int, ell: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(c.N_V, (B, ell), generator=torch.Generator().manual_seed(seed))

"""What a candidate is held against: a configuration, parameters, and a tokenizer if there is one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from transformulary.conform.theta import theta_of
from transformulary.oracle import Theta, random_theta
from transformulary.paper import DTransformerConfig


@dataclass(frozen=True)
class Reference:
    """The model that is right.

    folder  where its files are; None for a preset
    """

    name: str
    config: DTransformerConfig
    theta: Theta
    tokenizer: Any = None
    folder: Path | None = None


_LACKING = frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"})
#: Tiny models with random parameters, for what needs no checkpoint: no two sizes are equal by chance.
PRESETS: dict[str, DTransformerConfig] = {
    "paper": DTransformerConfig(N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20),
    "gpt2": DTransformerConfig(
        N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20, eps=1e-5, activation="gelu_tanh", tied=True,
        absent=frozenset({"b_u"}),
    ),
    "llama": DTransformerConfig(
        N_V=37, ell_max=24, L=2, H=4, H_kv=2, d_e=24, d_mlp=20, eps=1e-6, norm="rms_norm", activation="silu",
        mlp="gated", positions="rotary", absent=_LACKING,
    ),
}  # fmt: skip


def reference(against: Any, seed: int = 0) -> Reference:
    """The reference that `against` means: a folder, the name of a preset, or a Reference.

    Raises CheckpointError if a folder does not hold a model.
    """
    if isinstance(against, Reference):
        return against
    if str(against) in PRESETS and not Path(against).exists():
        config = PRESETS[str(against)]
        return Reference(str(against), config, random_theta(config, np.random.default_rng(seed), 0.3))
    from transformulary.models import load

    loaded = load(against)
    loaded.model.double()
    return Reference(str(against), loaded.model.config, theta_of(loaded.model), loaded.tokenizer, Path(against))


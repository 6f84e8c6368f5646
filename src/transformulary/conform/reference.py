"""What a candidate is held against: a configuration, parameters, and a tokenizer if there is one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from transformulary.conform.theta import theta_of
from transformulary.errors import CheckpointError
from transformulary.formats import describe, open_source, theta_source
from transformulary.models import save
from transformulary.nn import DTransformer, EDTransformer, ETransformer, Transformer
from transformulary.oracle import Theta
from transformulary.oracle.rulings import damaged
from transformulary.oracle.whole import Model, theta_with
from transformulary.paper import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
)
from transformulary.tokens import load_tokenizer, start_token


@dataclass(frozen=True)
class Reference:
    """The model that is right.

    folder  where its files are, or the one GGUF file that it is; None for a preset
    model   the same as a fast model, for `save`
    start   the id that begins what an encoder-decoder writes, if that is known
    """

    name: str
    config: Config
    theta: Theta
    tokenizer: Any = None
    folder: Path | None = None
    model: Any = None
    start: int | None = None

    @property
    def whole(self) -> Model:
        """The model that the oracle runs."""
        return Model(self.config, self.theta)

    def save(self, folder: Path) -> None:
        """Write its checkpoint, in a published format where there is one, in float64."""
        save(folder, self.model, self.tokenizer)


#: The class of a config -> our fast model.
FAST: dict[type[Config], Callable[..., Transformer]] = {
    DTransformerConfig: DTransformer,
    ETransformerConfig: ETransformer,
    EDTransformerConfig: EDTransformer,
    PreEDTransformerConfig: EDTransformer,
}
_LACKING = frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"})
#: Tiny models with random parameters, for what needs no checkpoint: no two sizes are equal by chance.
PRESETS: dict[str, Config] = {
    "paper": DTransformerConfig(N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20),
    "gpt2": DTransformerConfig(
        N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20, eps=1e-5, activation="gelu_tanh", tied=True,
        absent=frozenset({"b_u"}),
    ),
    "llama": DTransformerConfig(
        N_V=37, ell_max=24, L=2, H=4, H_kv=2, d_e=24, d_mlp=20, eps=1e-6, norm="rms_norm", activation="silu",
        mlp="gated", positions="rotary", absent=_LACKING,
    ),
    "transformer": EDTransformerConfig(
        N_V=37, ell_max=24, L_enc=2, L_dec=3, H=2, d_e=12, d_mlp=20, eps=1e-6, tied=True, embedding_scale="sqrt",
        positions="sinusoid_vaswani", absent=frozenset({"b_q", "b_k", "b_v", "b_o", "b_u"}),
    ),
    "bert": ETransformerConfig(
        N_V=37, ell_max=24, L=2, H=2, d_e=12, d_mlp=20, eps=1e-12, embedding_norm=True, segments=2, tied=True,
        absent=frozenset(),
    ),
    "marian": EDTransformerConfig(
        N_V=37, ell_max=24, L_enc=2, L_dec=3, H=2, d_e=12, d_mlp=20, eps=1e-5, activation="silu", tied=True,
        positions="sinusoid_halves", embedding_scale="sqrt", absent=frozenset(),
    ),
    "t5": PreEDTransformerConfig(
        N_V=37, ell_max=24, L_enc=2, L_dec=3, H=3, d_e=12, d_attn=5, d_mlp=20, eps=1e-6, norm="rms_norm", tied=True,
        positions="bucketed", scale="none", unembedding_scale="sqrt",
        absent=_LACKING | {f"b_mlp{k}" for k in range(4, 7)},
    ),
}  # fmt: skip


def reference(against: Any, seed: int = 0) -> Reference:
    """The reference that `against` means: what `open_source` finds, the name of a preset, or a Reference.

    Raises CheckpointError if a folder does not hold a model, or one with a number that is not finite.
    """
    if isinstance(against, Reference):
        return against
    if not isinstance(against, str | Path):
        raise CheckpointError(
            f"a {type(against).__name__} is no model to compare with: it is the name or folder of one, a Reference, "
            f"or one of {', '.join(PRESETS)}."
        )
    if str(against) in PRESETS and not Path(against).exists():
        model = random_model(PRESETS[str(against)], seed)
        return Reference(str(against), model.config, theta_of(model), model=model)
    try:
        source = open_source(against)
    except CheckpointError as error:
        if Path(against).exists():
            raise
        more = f"Without a checkpoint, take one of {', '.join(PRESETS)}."
        raise CheckpointError(f"{str(error).rstrip('.')}. {more}") from None
    described = describe(source)
    config, (_, array) = described.config, theta_source(source)
    theta = theta_with(config, array, described.gives)
    if strange := next((name for name, numbers in theta.items() if not np.isfinite(numbers).all()), ""):
        raise CheckpointError(f"{against}: {damaged(strange)}")
    tokenizer = load_tokenizer(described)
    folder = source.path if source.path.suffix == ".gguf" else source.folder
    return Reference(str(against), config, theta, tokenizer, folder, start=start_token(described))


def random_model(config: Config, seed: int = 0) -> Transformer:
    """A fast model in float64 with normal parameters of deviation 0.3; the gammas have mean 1.

    All are numbers of float32: a model that holds them so, and is made `double()` after, has these very ones.
    """
    generator = torch.Generator().manual_seed(seed)
    model = FAST[type(config)](config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = float("norm" in name and name.endswith("weight"))
            numbers = 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64) + scale
            parameter.copy_(numbers.float())
    return model

"""The theta that training starts from."""

from __future__ import annotations

import torch

from transformulary.nn import DTransformer, initialise
from transformulary.paper import DTransformerConfig
from transformulary.paper.settings import TrainingSettings
from transformulary.train.memory import refuse_huge


def initial_model(config: DTransformerConfig, settings: TrainingSettings) -> DTransformer:
    """A new model with the dropout, the seed and the scale of initial parameters that the settings name.

    Equal config and settings give equal parameters, and no random number of the caller is used.
    Raises ConfigError for a config that this machine has no memory for.
    """
    s = settings
    refuse_huge(config, s.precision)
    with torch.random.fork_rng(devices=[]):
        model = DTransformer(config, s.dropout)
    initialise(model, torch.Generator().manual_seed(s.seed), s.init_std, s.init_residual)
    return model

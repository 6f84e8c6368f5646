"""Algorithm 13 for the fast decoder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import torch

from transformulary import models
from transformulary.data import Corpus
from transformulary.errors import CheckpointError
from transformulary.nn import DTransformer
from transformulary.train.checkpoint import State, save_state
from transformulary.train.evaluate import evaluate
from transformulary.train.events import Evaluated, Event, Finished, Saved
from transformulary.train.run import Run
from transformulary.train.settings import TrainingSettings


def nobody(event: Event) -> None:
    """Listens to no event."""


def never() -> bool:
    """Asks for no stop."""
    return False


def DTraining(
    model: DTransformer,
    corpus: Corpus,
    settings: TrainingSettings | None = None,
    *,
    folder: str | Path | None = None,
    state: State | None = None,
    on_event: Callable[[Event], None] = nobody,
    stop: Callable[[], bool] = never,
) -> DTransformer:
    """theta_hat <- DTraining(x_{1:N_data}, theta): next-token prediction.

    Args:
        model: theta, and where theta_hat is written; float64 is kept, else parameters become float32.
        corpus: token ids to learn from and to measure on.
        settings: everything that Algorithm 13 leaves open; `TrainingSettings()` unless given.
        folder: where checkpoints go (`training.safetensors`, and the model in the ecosystem's files);
            None writes none.
        state: go on from here, bit by bit (`load_state(folder)`), if the settings limit the steps.
        on_event: is told of everything that happens, as it happens.
        stop: is asked after every step; True saves and returns.

    Returns:
        The model.  The caller's random state is what it was before.

    Raises:
        ConfigError: model, text and settings cannot go together.
        DataError: no text has two tokens.
        CheckpointError: `state` is another run's, or a checkpoint cannot be written.
        NonFiniteError: the loss or its gradient is not finite; nothing was updated or saved in that step.

    Source: Algorithm 13 of arXiv:2207.09238; line 6 is AdamW's step on the mean loss of a batch, and ends
    when the settings say, not after N_epochs.
    """
    model = getattr(model, "_orig_mod", model)  # a compiled model wraps the one whose parameters are named
    with torch.random.fork_rng(devices=[]), _training(model):
        run = Run(model, corpus, settings or TrainingSettings(), state)
        on_event(run.started())
        saved, measured = -1, -1
        while not run.over and not (interrupted := stop()):
            on_event(run.update())
            ...
    return model

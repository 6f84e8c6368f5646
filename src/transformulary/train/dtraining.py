"""Algorithm 13 for the fast decoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from transformulary import models
from transformulary.data import Corpus
from transformulary.errors import CheckpointError
from transformulary.formats.state import NAME
from transformulary.nn import DTransformer
from transformulary.paper.settings import TrainingSettings
from transformulary.train.checkpoint import State, save_state
from transformulary.train.evaluate import evaluate
from transformulary.train.events import Event, Finished, Saved
from transformulary.train.run import NonFiniteError, Run


def nobody(event: Event) -> None:
    """Listens to no event."""


def never() -> bool:
    """Asks for no stop."""
    return False


def DTraining(
    model: nn.Module,
    corpus: Corpus,
    settings: TrainingSettings | None = None,
    *,
    folder: str | Path | None = None,
    state: State | None = None,
    about: Mapping[str, Any] | None = None,
    on_event: Callable[[Event], None] = nobody,
    stop: Callable[[], bool] = never,
) -> DTransformer:
    """theta_hat <- DTraining(x_{1:N_data}, theta): next-token prediction.

    Args:
        model: theta, and where theta_hat is written: a DTransformer, compiled or not.
        corpus: token ids to learn from and to measure on.
        settings: everything that Algorithm 13 leaves open; `TrainingSettings()` unless given.
        folder: where checkpoints go (`training.safetensors`, and the model in the ecosystem's files);
            None writes none.
        state: go on from here, bit by bit (`load_state(folder)`), if the settings limit the steps.
        about: plain data to keep with the state, for whoever goes on (`State.about`); unless given, what `state` has.
        on_event: is told of everything that happens, as it happens.
        stop: is asked after every step; True saves and returns.

    Returns:
        The model, in training mode; if it was float64 it still is, else its parameters are float32.
        The caller's random state is what it was before.

    Raises:
        ConfigError: model, text and settings cannot go together.
        DataError: no text has two tokens.
        CheckpointError: `state` is another run's, or a checkpoint cannot be written.
        NonFiniteError: a loss, a gradient or, when they are to be saved, the parameters are not finite; nothing was
            saved after that, and nothing updated if it was the loss or its gradient.

    Source: Algorithm 13 of arXiv:2207.09238; line 6 is AdamW's step on the mean loss of a batch, and ends
    when the settings say, not after N_epochs.
    """
    settings = settings or TrainingSettings()
    with torch.random.fork_rng(devices=[]), threads(settings.threads):
        run = Run(models.bare(model, DTransformer).train(), corpus, settings, state)
        about = state.about if about is None and state else about or {}
        on_event(run.started())
        stopped = False
        while not run.over and not stopped:  # 1, 2
            on_event(run.update())  # 3-6
            stopped = stop()
            if due(run.settings.eval_every, run.step) and not run.over:
                measure(run, on_event)
            if due(run.settings.save_every, run.step) and not run.over and not stopped:
                save(run, folder, about, on_event)
        run.halt()
        run.refuse_ruined()
        if not stopped:
            measure(run, on_event)
        save(run, folder, about, on_event)
        on_event(Finished(run.step, run.seconds, run.tokens, interrupted=stopped and not run.over))
    return run.model  # 9


@contextmanager
def threads(n: int) -> Iterator[None]:
    """PyTorch works with `n` threads inside (0 = as many as before)."""
    before = torch.get_num_threads()
    torch.set_num_threads(n or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def due(every: int, step: int) -> bool:
    """Whether something done `every` steps (0 = never) is to be done after this one."""
    return every > 0 and step % every == 0


def measure(run: Run, on_event: Callable[[Event], None]) -> None:
    """Report the held-out loss, in the precision of training, if there is held-out text.

    Raises NonFiniteError if it is not finite.
    """
    s, corpus = run.settings, run.corpus
    with run.context():
        result = evaluate(
            run.model, corpus.held_out, corpus.tokenizer, batch=s.batch, tokens=s.eval_tokens, step=run.step
        )
    if result and not math.isfinite(result.nats_per_token):
        raise NonFiniteError(
            f"step {run.step}: the held-out loss is {result.nats_per_token}, so this is no model, and it is not saved. "
            f"Try a smaller eta (now {s.eta}) or float32."
        )
    if result:
        run.measured = {"step": run.step, "nats_per_token": result.nats_per_token, "tokens": result.tokens}
        on_event(result)


def save(run: Run, folder: str | Path | None, about: Mapping[str, Any], on_event: Callable[[Event], None]) -> None:
    """Write the state and the model, each file atomically.

    Raises CheckpointError if it cannot be done, NonFiniteError if there is no model to save.
    """
    if folder is None:
        return
    run.refuse_ruined()
    try:
        save_state(folder, replace(run.state(), about=about))
        models.save(folder, run.model, run.corpus.tokenizer)
    except OSError as error:
        raise CheckpointError(
            f"step {run.step} cannot be saved in {folder}: {error.strerror} ({error.filename}). "
            f"What {NAME} held there is whole; make room, or name another folder."
        ) from error
    on_event(Saved(run.step, Path(folder)))

"""Shows the events of a training: a bar on a terminal, lines elsewhere, JSON for machines."""

from __future__ import annotations

import json
import math
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from transformulary.paper.settings import TrainingSettings
    from transformulary.train import Evaluated, Event, Finished, Saved, Started, Stepped


#: Where there is no terminal for a bar, a line says after so many seconds how far training is.
SILENCE = 10.0


class Display:
    """Listens to `DTraining`: progress goes to stderr, the summary (or JSON) to stdout."""

    def __init__(self, settings: TrainingSettings, folder: Path, json: bool = False) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self.settings, self.folder, self.json = settings, folder, json
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
        self.progress = Progress(
            BarColumn(), TextColumn("{task.description}", markup=False), console=self.console, transient=True
        )
        self.progress.disable = not self.console.is_terminal
        self.task = self.progress.add_task("starting", total=1.0)
        self.last: Stepped | None = None
        self.said = 0.0  # seconds of training when a line was last printed where there is no bar
        self.held_out: Evaluated | None = None
        self.interrupted = False

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self.json:
            print(as_json(event), flush=True)
        getattr(self, type(event).__name__.lower())(event)

    def started(self, event: Started) -> None:
        self.said = 0.0
        self.console.print(started(event, self.settings))

    def stepped(self, event: Stepped) -> None:
        self.last = event
        if self.progress.disable and event.seconds - self.said >= SILENCE:
            self.said = event.seconds
            self.console.print(stepped(event))
        done = event.seconds / (event.seconds + event.seconds_left)
        self.progress.update(self.task, completed=done, description=stepped(event))

    def evaluated(self, event: Evaluated) -> None:
        self.held_out = event
        self.console.print(evaluated(event, self.last))

    def saved(self, event: Saved) -> None:
        self.folder = event.folder

    def finished(self, event: Finished) -> None:
        self.interrupted = event.interrupted
        self.progress.stop()
        if not self.json:
            print(summary(event, self.last, self.held_out, self.folder))


def as_json(event: Event) -> str:
    """One line: the event's name and its fields; what is not a finite number is null."""
    values: dict[str, Any] = {"event": type(event).__name__.lower()} | asdict(event)
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            values[key] = None
        elif isinstance(value, Path):
            values[key] = str(value)
    return json.dumps(values)


def started(event: Started, settings: TrainingSettings) -> str:
    """What is trained, on how much, and what decays."""
    decayed = dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name) for name in event.decayed)
    lines = [
        f"{event.parameters:,} parameters, {event.precision} products; "
        f"{event.training_tokens:,} tokens to learn from, {event.held_out_tokens:,} held out",
        f"weight decay {settings.weight_decay:g} on {', '.join(decayed)}",
    ]
    if event.step:
        done = bool(settings.steps) and event.step >= settings.steps
        limit = f", the last of {settings.steps}: nothing is left to do (--steps {2 * event.step} goes on)" * done
        lines.append(f"going on after step {event.step}{limit}")
    if event.held_out_tokens < 2:
        lines.append("no held-out loss: the held-out part is too short to predict anything")
    return "\n".join(lines)


def stepped(event: Stepped) -> str:
    """The text beside the bar."""
    return (
        f"step {event.step}  loss {event.loss:.4f}  {event.tokens_per_second:,.0f} tokens/s  "
        f"rate {event.eta:.2e}  norm {event.gradient_norm:.2f}  {clock(event.seconds_left)} left"
    )


def evaluated(event: Evaluated, last: Stepped | None) -> str:
    """One line per measurement."""
    trained = f", {stepped(last)}" if last else ""
    return f"held out: {losses(event)}{trained}"


def losses(event: Evaluated) -> str:
    """The units of one measurement."""
    per_token = f"{event.nats_per_token:.4f} nats per token"
    if not event.characters:
        return f"{per_token} (they spell no characters)"
    return (
        f"{per_token}, {event.nats_per_character:.4f} nats per character, "
        f"{event.bits_per_character:.4f} bits per character"
    )


def summary(event: Finished, last: Stepped | None, held_out: Evaluated | None, folder: Path) -> str:
    """What was reached, for people."""
    lines = [f"{event.step} steps, {event.tokens:,} tokens learnt from, {clock(event.seconds)}"]
    if last:
        lines.append(f"loss of the last step: {last.loss:.4f} nats per token")
    if held_out:
        lines.append(f"held out ({held_out.tokens:,} tokens, step {held_out.step}): {losses(held_out)}")
    return "\n".join(
        [*lines, f"the model is in {folder}: transformulary generate {shlex.quote(str(folder))} --prompt TEXT"]
    )


def clock(seconds: float) -> str:
    """1:02:03, or 2:03."""
    minutes, s = divmod(round(seconds), 60)
    hours, m = divmod(minutes, 60)
    return f"{hours}:{m:02}:{s:02}" if hours else f"{m}:{s:02}"

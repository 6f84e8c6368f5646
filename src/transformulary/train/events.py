"""What `DTraining` reports while it runs: plain values; whoever listens decides how they look."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Started:
    """Training begins or goes on.

    step            steps done before (0, or the checkpoint's)
    parameters      numbers in theta
    decayed         names of the parameters that weight decay applies to
    training_tokens, held_out_tokens  tokens of the two parts of the text
    precision       of the products: float32, bfloat16, float64
    """

    step: int
    parameters: int
    decayed: tuple[str, ...]
    training_tokens: int
    held_out_tokens: int
    precision: str


@dataclass(frozen=True)
class Stepped:
    """One update was made.

    loss               nats per target, mean over all targets of the update
    targets            number of targets
    eta                learning rate of this step
    gradient_norm      before clipping
    epoch              passes over the text, this one included
    seconds            of training so far, all sessions together
    tokens_per_second  targets of this step over its duration
    seconds_left       estimate
    """

    step: int
    loss: float
    targets: int
    eta: float
    gradient_norm: float
    epoch: int
    seconds: float
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class Evaluated:
    """The held-out loss was measured: nats per token, nats and bits per character, over `tokens` targets.

    Per character it is NaN where the targets spell no characters.
    """

    step: int
    nats_per_token: float
    nats_per_character: float
    bits_per_character: float
    tokens: int
    characters: int


@dataclass(frozen=True)
class Saved:
    """A checkpoint was written that `resume` can go on from."""

    step: int
    folder: Path


@dataclass(frozen=True)
class Finished:
    """Training ended, at its limit or because it was asked to stop (`interrupted`).

    `seconds` are of training; the last measurement and the last checkpoint came after them.
    """

    step: int
    seconds: float
    tokens: int
    interrupted: bool


Event = Started | Stepped | Evaluated | Saved | Finished

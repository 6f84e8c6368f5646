"""The learning rate of every step."""

from __future__ import annotations

import math
from collections.abc import Callable

from transformulary.paper.settings import TrainingSettings

#: schedule -> height above the floor, from 1 to 0, after a fraction p of the way down.
SHAPES: dict[str, Callable[[float], float]] = {
    "cosine": lambda p: (1 + math.cos(math.pi * p)) / 2,
    "linear": lambda p: 1 - p,
    "constant": lambda p: 1.0,
}


def progress(settings: TrainingSettings, step: int, seconds: float = 0.0) -> float:
    """How far the rate is on its way down when step `step` (from 1) begins, from 0 to 1.

    Counted in steps from the end of the warm-up, in seconds from the start; the limit that is nearer counts.
    It is 1 only after the last step, so that no step is wasted at a floor of 0.
    """
    s = settings
    by_steps = (step - s.warmup) / (s.steps + 1 - s.warmup) if s.steps else 0.0
    by_seconds = seconds / s.seconds if s.seconds else 0.0
    return min(1.0, max(0.0, by_steps, by_seconds))


def learning_rate(settings: TrainingSettings, step: int, seconds: float = 0.0) -> float:
    """Rate of step `step` (from 1), which begins after `seconds`: the lower of the way up and the way down.

    The way up is eta * step / warmup, and over after a tenth of the limit in seconds at the latest, so that
    a slow machine gets there too.  Step 1 has a positive rate; after the last step it is eta * floor.
    """
    s = settings
    rise = max(step / s.warmup, 10 * seconds / s.seconds if s.seconds else 0.0) if s.warmup else 1.0
    fall = s.floor + (1 - s.floor) * SHAPES[s.schedule](progress(s, step, seconds))
    return s.eta * min(1.0, rise, fall)

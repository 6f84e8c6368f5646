"""The learning rate of every step."""

import math

import pytest

from transformulary.paper.settings import TrainingSettings
from transformulary.train import learning_rate


def test_table_of_a_short_run():
    """Warm-up 4, peak 1, 10 steps, floor 0.1: a line up to the peak, half a cosine down, the floor for ever."""
    settings = TrainingSettings(steps=10, warmup=4, eta=1.0, floor=0.1)
    fall = [0.1 + 0.9 * (1 + math.cos(math.pi * k / 7)) / 2 for k in range(1, 7)]

    rates = [learning_rate(settings, step) for step in range(1, 14)]

    assert pytest.approx([0.25, 0.5, 0.75, 1.0, *fall, 0.1, 0.1, 0.1], rel=1e-15) == rates


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
@pytest.mark.parametrize("warmup", [0, 1, 5, 12])
def test_no_step_is_wasted(schedule, warmup):
    """Even with a floor of 0, every step from the first to the last has a positive rate, at most the peak."""
    settings = TrainingSettings(steps=12, warmup=warmup, eta=2.0, floor=0.0, schedule=schedule)

    rates = [learning_rate(settings, step) for step in range(1, 13)]

    assert all(0 < rate <= 2.0 for rate in rates)


def test_time_counts_when_it_is_the_limit():
    """With a limit in seconds the rate falls as they pass, whatever the number of steps."""
    settings = TrainingSettings(seconds=90.0, warmup=10, eta=1.0, floor=0.0)

    rates = [learning_rate(settings, step, seconds) for step, seconds in [(1, 0.0), (10, 0.0), (99, 45.0), (99, 91.0)]]

    assert pytest.approx([0.1, 1.0, 0.5, 0.0]) == rates


def test_a_slow_machine_reaches_the_peak():
    """The warm-up is over after a tenth of the seconds, however few steps that is."""
    settings = TrainingSettings(seconds=90.0, warmup=100, eta=1.0, floor=0.0, schedule="constant")

    rates = [learning_rate(settings, step, seconds) for step, seconds in [(1, 0.0), (2, 4.5), (3, 9.0), (4, 60.0)]]

    assert pytest.approx([0.01, 0.5, 1.0, 1.0]) == rates


def test_the_nearer_limit_counts():
    """With both limits the rate follows the one that will be reached first."""
    settings = TrainingSettings(steps=100, seconds=90.0, warmup=0, eta=1.0, floor=0.0, schedule="linear")

    assert pytest.approx(0.5) == learning_rate(settings, 10, 45.0)
    assert pytest.approx(1 - 80 / 101) == learning_rate(settings, 80, 9.0)

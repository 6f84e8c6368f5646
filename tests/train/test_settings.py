"""Settings: defaults, names, ranges."""

import pytest

from transformulary.errors import ConfigError
from transformulary.paper.settings import TrainingSettings


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (1000, 100)),
        ({"steps": 50}, (50, 5)),
        ({"seconds": 90.0}, (0, 100)),
        ({"steps": 7, "seconds": 90.0, "warmup": 7}, (7, 7)),
    ],
)
def test_limits_and_warmup_by_default(given, expected):
    """1000 steps unless a limit is given; a warm-up of 100 steps, at most a tenth of them."""
    settings = TrainingSettings.from_dict(given)

    assert expected == (settings.steps, settings.warmup)


def test_settings_survive_as_plain_data():
    """from_dict(to_dict(s)) == s."""
    settings = TrainingSettings(seconds=3.0, schedule="linear", accumulate=2)

    assert settings == TrainingSettings.from_dict(settings.to_dict())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lr": 1e-3}, "no training setting 'lr'. Did you mean eta?"),
        ({"warm_up": 3}, "no training setting 'warm_up'. Did you mean warmup?"),
        ({"quux": 3}, "no training setting 'quux'. There are: steps, seconds,"),
        ({"steps": 1.5}, "steps = 1.5 must be a whole number"),
        ({"steps": True}, "steps = True must be a whole number"),
        ({"compile": 1}, "compile = 1 must be true or false"),
        ({"eta": "big"}, "eta = 'big' must be a number"),
        ({"eta": 0.0}, "eta = 0.0 is outside (0, inf)"),
        ({"eta": float("nan")}, "eta = nan is outside (0, inf)"),
        ({"dropout": 1.0}, "dropout = 1.0 is outside [0, 1)"),
        ({"batch": 0}, "batch = 0 is outside [1, 2147483648)"),
        ({"precision": "float16"}, "precision = 'float16' is none of auto, float32, bfloat16, float64"),
        ({"batch": 10**26}, "batch = 100000000000000000000000000 is outside"),
        ({"threads": 100_000}, "threads = 100000 is outside [0, 1025)"),
        ({"eta": 10**400}, "eta has 1329 bits"),
        ({"steps": 16**9999}, "steps has 39997 bits"),
        ({"steps": [1]}, "steps = [1] must be a whole number"),
        ({"steps": 0}, "steps = 0 and seconds = 0: training would never end"),
        ({"steps": 5, "warmup": 6}, "warmup = 6 is more than steps = 5"),
    ],
)
def test_impossible_settings(given, message):
    """What is unknown or out of range is an error with the name and the number."""
    with pytest.raises(ConfigError) as error:
        TrainingSettings.from_dict(given)

    assert message in str(error.value)

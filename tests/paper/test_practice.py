"""What practice can be: numbers that there are."""

import math

import pytest

from transformulary.errors import ConfigError
from transformulary.paper import Inference, Training


@pytest.mark.parametrize(
    ("kind", "chosen", "says"),
    [
        (Training, {"alpha": 2.0}, r"alpha = 2\.0 is outside \[0, 1\]"),
        (Training, {"p_drop": -0.1}, r"p_drop = -0\.1 is outside \[0, 1\]"),
        (Training, {"N_acc": 0}, "N_acc = 0 must be 1 or more"),
        (Training, {"g_max": math.inf}, "g_max = inf must be 0 or more, and finite"),
        (Training, {"decay": math.nan}, "decay = nan must be 0 or more"),
        (Inference, {"top_p": 2.0}, r"top_p = 2\.0 is outside \[0, 1\]"),
        (Inference, {"top_k": -3}, "top_k = -3: it must be"),
    ],
)
def test_numbers_that_no_practice_has(kind, chosen, says):
    """A number that is negative, infinite or no number, or a part of more than 1, is refused by its name."""
    with pytest.raises(ConfigError, match=says):
        kind(**({"N_steps": 1} if kind is Training else {}), **chosen)


def test_the_ends_of_what_is_allowed():
    """0 and 1 are parts; a floor may be above the peak."""
    assert Training(N_steps=1, alpha=1.0, p_drop=0.0, eta_floor=2.0).alpha == 1.0
    assert Inference(top_p=1.0, top_k=0) == Inference()

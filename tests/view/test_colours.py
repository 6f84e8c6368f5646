"""The colours of weights."""

import numpy as np
import pytest

from transformulary.view.colours import DARK, LIGHT, palette


@pytest.mark.parametrize(("stops", "sign"), [(LIGHT, -1), (DARK, 1)])
def test_lightness_runs_one_way_in_equal_steps(stops, sign):
    """More weight is darker on a light page and lighter on a dark one, as much for each step, in grey too (CIE L*)."""
    rgb = palette(stops) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    lightness = 116 * np.cbrt(linear @ [0.2126, 0.7152, 0.0722]) - 16

    steps = sign * np.diff(lightness[::15])

    assert steps.min() > 0.6 * steps.mean()
    assert steps.max() < 1.4 * steps.mean()

"""One sequential colour map for weights, for light and for dark pages.

Lightness runs in equal steps in OKLab (B. Ottosson, 2020), so equal steps of weight look equal, also in grey
and to colour-blind eyes; the hue only adds to it.  The end for weight 0 melts into the page.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: lightness, chroma and hue (degrees) at equal steps from weight 0 to weight 1.
Stops = Sequence[tuple[float, float, float]]
LIGHT = [(0.975, 0.015, 200), (0.80, 0.095, 205), (0.625, 0.115, 235), (0.45, 0.145, 270), (0.275, 0.125, 290)]
DARK = [(0.235, 0.035, 280), (0.415, 0.120, 285), (0.595, 0.125, 245), (0.775, 0.120, 195), (0.955, 0.060, 150)]

TO_LMS = np.array(
    [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
)
TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def palette(stops: Stops, n: int = 256) -> NDArray[np.uint8]:
    """(n, 3) sRGB bytes, from weight 0 to weight 1."""
    lightness, chroma, hue = np.array(stops).T
    lab = np.array([lightness, chroma * np.cos(np.radians(hue)), chroma * np.sin(np.radians(hue))])
    at = np.linspace(0, len(stops) - 1, n)
    steps = np.array([np.interp(at, range(len(stops)), row) for row in lab])
    linear = np.clip(TO_RGB @ (TO_LMS @ steps) ** 3, 0, 1)
    gamma = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(255 * gamma.T), np.uint8)

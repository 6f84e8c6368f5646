"""The number of a mistake is found from what it changes, or not at all."""

import numpy as np
import pytest

from transformulary.conform.fit import fit, shorter

TIMES = np.arange(1, 40)


def turned(base):
    """What slow turns, one per row of TIMES, are after all tokens: early tokens first."""
    omega = base ** -np.array([0.25, 0.5, 0.75])
    return np.sin(TIMES[:, None] * omega).ravel()


def faded(number):
    """What a finite constant leaves, far below 1 where it is large."""
    return np.exp(-number) * np.cos(TIMES)


def of(change, wanted, known):
    return fit(change, wanted, [(number, change(number)) for number in known], [6, 12, len(wanted)])


@pytest.mark.parametrize(("change", "number"), [(turned, 137000), (turned, 2345.678), (faded, 7.3), (faded, 31.0)])
def test_any_number_is_found(change, number):
    """To rounding, from numbers that are far away."""
    found = of(change, change(number), [10000, 1e6] if change is turned else [5, 10, 20])

    assert found == pytest.approx(number, rel=1e-10)


def test_what_a_number_does_not_explain():
    """One number always takes away a little of a difference; it is not named for that."""
    other = turned(20000) + np.random.default_rng(0).normal(size=3 * len(TIMES))

    assert of(turned, other, [10000, 1e6]) is None


def test_a_difference_without_numbers():
    """Values of another shape, which have no difference, are not explained by a number."""
    assert of(turned, 0 * turned(20000), [10000, 1e6]) is None


def test_shorter_numbers_come_first():
    """The fewest digits first, the number itself last."""
    assert list(shorter(137.25)) == [100.0, 140.0, 137.0, 137.2, 137.25]


def test_numbers_too_large_to_be_squared():
    """No number explains them, and none that is no number is tried."""
    wanted, asked = np.array([1e300, -1e300, 1.0]), []

    def change(number):
        asked.append(number)
        return faded(number)[:3] * 1e200

    with np.errstate(all="ignore"):
        assert fit(change, wanted, [(2.0, wanted)], [3]) is None

    assert np.isfinite(asked).all()

"""Which known mistakes explain a value, where none does."""

import numpy as np

from transformulary.conform.mistakes import BY_KEY
from transformulary.conform.search import NUMBERS, Search


def test_many_numbers_that_nothing_explains():
    """A value of more numbers than pairs are chosen by, with one mistake that changes it and one that breaks it."""
    ours = np.ones((NUMBERS // 2 + 1, 3))
    values = {"act-GELU": 2 * ours, "act-ReLU": np.full_like(ours, np.nan)}

    found = Search(
        compute=lambda keys: values[next(iter(keys))],
        error=lambda value: float(np.abs(value - 9).max()),
        ours=ours,
        theirs=9 * ours,
        bound=1e-12,
        levels=[[((BY_KEY[key], 0),) for key in values]],
    ).explanation()

    assert found is None

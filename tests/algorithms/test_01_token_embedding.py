"""Algorithm 1: token embedding."""

import numpy as np
import pytest

from transformulary import oracle
from transformulary.errors import AlgorithmError

W_e = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def test_column_of_the_table():
    """e = W_e[:, v]: the second token of the paper is id 1 here."""
    e = oracle.token_embedding(1, W_e)

    np.testing.assert_array_equal(e, [2.0, 5.0])


@pytest.mark.parametrize("v", [-1, 3, 1.0, True, None])
def test_no_such_token(v):
    """An id outside the vocabulary, negative ones included, is an error that names the vocabulary's size."""
    with pytest.raises(AlgorithmError, match=r"vocabulary of N_V = 3 tokens.*0 to 2"):
        oracle.token_embedding(v, W_e)

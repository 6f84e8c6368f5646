"""Weights in two bytes."""

import base64
import zlib
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformulary.errors import DataError
from transformulary.view import whole
from transformulary.view.weights import encode, is_causal, largest, pack, sides, thumbnail
from view.examples import weights


def value(code):
    """What weights.py says that a code means."""
    return 0.0 if code == 0 else None if code == 1 else float(f"{1000 + (code - 2) % 9000}e{(code - 2) // 9000 - 10}")


def unpack(text, ell, causal):
    """The codes (ell, ell) that were packed."""
    high, low = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8).astype(np.uint16).reshape(2, -1)
    codes = np.zeros((ell, ell), np.uint16)
    codes[np.tri(ell, dtype=bool) if causal else np.ones((ell, ell), bool)] = high << 8 | low
    return codes


@given(st.floats(1e-7, 1.0))
def test_a_code_is_the_weight_rounded_to_four_digits(w):
    """What the page shows is the weight rounded to four significant digits, no more and no less."""
    code = int(encode(np.array(w)))

    assert float(f"{w:.3e}") == value(code)


@pytest.mark.parametrize(
    ("w", "code"),
    [(0.0, 0), (5e-324, 1), (9.999e-8, 1), (1e-7, 2), (9.9996e-7, 9002), (0.1, 54002), (0.99994, 63001), (1.0, 63002)],
)
def test_codes_at_the_edges(w, code):
    """Only 0 is 0; what is positive and below 1e-7 stays positive; a carry reaches the next decade."""
    assert code == encode(np.array(w))


def test_codes_are_in_order():
    """A larger weight never has a smaller code, so the largest code of a patch is that of its largest weight."""
    w = np.sort(np.concatenate([np.geomspace(1e-9, 1, 100_000), [0.0]]))

    assert (np.diff(encode(w).astype(int)) >= 0).all()


@pytest.mark.parametrize("ell", [1, 2, 13])
@pytest.mark.parametrize("causal", [True, False])
def test_packing_loses_nothing(ell, causal):
    """All codes come back, of causal weights from half as many bytes."""
    codes = encode(weights(1, 1, ell, causal)[0][0])

    text = pack(codes, causal)

    np.testing.assert_array_equal(unpack(text, ell, causal), codes)
    assert (ell * (ell + 1) if causal else 2 * ell * ell) == len(zlib.decompress(base64.b64decode(text)))


def test_one_weight_above_the_diagonal_is_enough():
    """Half of a matrix is left out only if no head of any layer uses a later key."""
    layers = weights(2, 2, 5)
    before = is_causal(layers)

    layers[1][1, 3, 4] = 1e-30

    assert (before, is_causal(layers)) == (True, False)


@pytest.mark.parametrize(
    ("shape", "n"), [((1, 1), (1, 1)), ((5, 5), (2, 2)), ((7, 3), (7, 2)), ((4, 9), (2, 9)), ((100, 100), (48, 48))]
)
def test_patches_keep_the_largest(shape, n):
    """Each element of a reduced matrix is the largest of its patch, and the patches cover the matrix."""
    matrix = np.random.default_rng(0).random(shape)
    rows, columns = ([i * ell // k for i in range(k + 1)] for ell, k in zip(shape, n, strict=True))

    reduced = largest(matrix, *n)

    patches = [[matrix[a:b, c:d].max() for c, d in pairwise(columns)] for a, b in pairwise(rows)]
    np.testing.assert_array_equal(reduced, patches)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((5, 5), (5, 5)), ((480, 480), (48, 48)), ((480, 240), (48, 24)), ((3, 960), (1, 48)), ((48, 5), (48, 5))],
)
def test_a_picture_has_the_shape_of_its_matrix(shape, expected):
    """Its longer side has at most so many pixels, and no side is empty or has more than there are elements."""
    assert expected == sides(shape, 48)


def test_thumbnails_of_short_prompts_are_whole():
    """Up to 48 tokens a thumbnail has a pixel for every weight."""
    codes = encode(weights(1, 1, 48)[0][0])

    assert bytes((codes >> 8).astype(np.uint8).ravel()) == thumbnail(codes)


@pytest.mark.parametrize(
    ("tokens", "arrays", "what"),
    [
        ([], weights(1, 1, 2), "nothing to show"),
        (["a"], [], "nothing to show"),
        (["a"], weights(1, 1, 2), r"shape \(1, 2, 2\)"),
        (["a", "b"], weights(1, 1, 2) + weights(1, 2, 2), "layer 2"),
        (["a", "b"], [np.zeros((0, 2, 2))], "shape"),
        (["a"], [np.full((1, 1, 1), np.nan)], "nan"),
        (["a"], [np.full((1, 1, 1), -0.5)], "-0.5"),
        (["a"], [np.full((1, 1, 1), 1.5)], "1.5"),
    ],
)
def test_what_is_no_attention_is_refused(tokens, arrays, what):
    """Shapes that do not fit, and numbers that no softmax returns, are an error with the numbers."""
    with pytest.raises(DataError, match=what):
        whole(tokens, arrays)

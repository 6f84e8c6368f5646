"""What a difference looks like is said in words: one pattern, else the tokens, rows and heads that differ."""

import numpy as np
import pytest

from transformulary.conform.description import Base, Heads, describe

RNG = np.random.default_rng(0)
#: A value: six rows, nine tokens.
OURS = RNG.standard_normal((6, 9))
COLUMN = RNG.standard_normal((6, 1))
NUMBERS = np.linspace(0.5, 2, 9)


def changed(*at, by=1.0):
    value = OURS.copy()
    value[at] += by * RNG.standard_normal(value[at].shape)
    return value


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (OURS[:, :8], "it has 6 numbers for each of 8 tokens, and should have 6 for each of 9"),
        (np.where(NUMBERS > 1.5, np.inf, OURS), "18 of 54 numbers are not finite, in tokens 7-9 of 9"),
        (0 * OURS, "it is 0"),
        (0.25 * OURS, "it is the right value times 0.25"),
        ((1 + 1e-5) * OURS, "it is the right value times 1.00001"),
        (OURS + 3, "3 is added to every number"),
        (OURS + COLUMN, "the same column is added to every token"),
        (OURS + NUMBERS, "to every token a number of its own is added"),
        (OURS * NUMBERS, "every token is the right one times a factor of its own, 0.5 to 2"),
        (OURS * np.linspace(3, 2, 6)[:, None], "every row is the right one times a factor of its own, 2 to 3"),
        (np.minimum(OURS, -0.1), "it is cut off at -0.1"),
        (np.maximum(OURS, 0.1), "it is cut off at 0.1"),
        (np.clip(OURS, -0.2, 0.1), "it is cut off at -0.2 and 0.1"),
        (OURS.astype(np.float32), "it is rounded to float32"),
        (OURS.astype(np.float16).astype(float), "it is rounded to float16"),
        (OURS[:, [0, 1, 2, 5, 4, 3, 6, 7, 8]], "tokens 4, 6 of 9 are permuted"),
        (np.hstack([COLUMN, OURS[:, :-1]]), "it is shifted by one token"),
        (np.hstack([OURS[:, 1:], COLUMN]), "it is shifted by one token back"),
        (OURS[:, ::-1], "it is reversed, the last token first"),
        (OURS[::-1], "it is reversed, the last row first"),
        (OURS[[0, 2, 1, 3, 5, 4]], "rows 2-3, 5-6 of 6 are permuted"),
        (OURS[:, [0, 1, 0, 3, 4, 5, 6, 7, 8]], "tokens 3 of 9 are those of others"),
        (changed(slice(None), slice(4, 7)), "tokens 5-7 of 9 differ"),
        (changed(2), "rows 3 of 6 differ"),
        (changed(slice(0, 2), 3), "tokens 4 of 9, rows 1-2 of 6 differ"),
        (changed(by=2e-4), "all rows and tokens differ"),
        (np.where(NUMBERS > 1, 2 * OURS, OURS), "tokens 4-9 of 9 differ, where it is the right value times 2"),
        (OURS**3, "all rows and tokens differ"),
    ],
)  # fmt: skip
def test_a_difference_in_words(theirs, words):
    """The first pattern that leaves nothing unexplained, or where the difference is."""
    assert describe(OURS, theirs) == words


def test_a_square_value_that_is_transposed():
    """Numbers in each other's places are found whatever the numbers are."""
    square = RNG.standard_normal((5, 5))

    assert describe(square, square.T) == "it is transposed"


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (lambda X, added: X + 2 * added, "what the line adds is the right value times 2"),
        (lambda X, added: X, "what the line adds is 0"),
        (lambda X, added: (X + added)[:, ::-1], "it is reversed, the last token first"),
        (lambda X, added: X + COLUMN + added, "the same column is added to every token of what the line adds"),
        (lambda X, added: X / 2 + added, "X is multiplied by 0.5"),
        (lambda X, added: X / 2 + 3 * added, "X is multiplied by 0.5, and what the line adds by 3"),
        (
            lambda X, added: X + added * NUMBERS,
            "every token of what the line adds is the right one times a factor of its own, 0.5 to 2",
        ),
    ],
)  # fmt: skip
def test_what_a_line_adds(theirs, words):
    """Beside a large X, what is wrong is said of X or of what is added to it."""
    X = 1000 * COLUMN * NUMBERS

    assert describe(X + OURS, theirs(X, OURS), Base(X, "X", "what the line adds")) == words


FACTORS = RNG.uniform(1, 2, (3, 9)).repeat(2, axis=0)
W_o, b_o = RNG.standard_normal((8, 6)), RNG.standard_normal(8)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (changed(slice(2, 4), slice(5, 9)), "tokens 6-9 of 9, heads 2 of 3 differ"),
        (OURS[[4, 5, 2, 3, 0, 1]], "heads 3, 2, 1 stand in place of 1 to 3"),
        (OURS[[0, 1, 0, 1, 0, 1]], "heads 1, 1, 1 stand in place of 1 to 3"),
        (OURS * np.repeat([0, 1, 1], 2)[:, None], "head 1 of 3 is 0"),
        (OURS * np.repeat([1, 2, 2], 2)[:, None], "each of heads 2-3 of 3 is the right value times 2"),
        (OURS * np.where(np.arange(6)[:, None] < 4, 1, NUMBERS), "every token of head 3 of 3 is the right one times"),
        (OURS * (1 - np.outer(np.arange(6) < 2, NUMBERS > 1.5)), "tokens 7-9 of 9 differ, where head 1 of 3 is 0"),
        (OURS * FACTORS, "every token of every head is the right one times a factor of its own"),
        (OURS**3, "all rows and tokens differ"),
    ],
)  # fmt: skip
def test_heads(theirs, words):
    """Though W_o mixes the heads, the head that is wrong is found."""
    X = RNG.standard_normal((8, 9))
    ours, theirs = (X + W_o @ joined + b_o[:, None] for joined in (OURS, theirs))

    said = describe(ours, theirs, Base(X, "X", "it"), Heads(W_o, b_o, 3))

    assert said.startswith(words)


@pytest.mark.parametrize(
    "heads",
    [Heads(W_o.T, b_o[:6], 4), Heads(W_o, b_o, 3), Heads(np.ones((6, 6)), b_o[:6], 3)],
    ids=["wide", "outside", "singular"],
)
def test_heads_that_cannot_be_told(heads):
    """Where W_o has more columns than rows, is singular, or could not have given this, nothing is said of heads."""
    assert heads.apart(RNG.standard_normal((len(heads.W_o), 9))) is None


def test_rounding_is_no_difference():
    """What is allowed in a low precision does not hide where the difference is."""
    noisy = changed(slice(None), slice(4, 7)) + 1e-3 * RNG.standard_normal((6, 9))

    assert describe(OURS, noisy, allowed=1e-2) == "tokens 5-7 of 9 differ"


def test_a_transposed_value():
    """Of a value that has its shape the other way round, that is said."""
    says = "it has 3 numbers for each of 2 tokens, and should have 2 for each of 3"

    turned, other = (describe(np.ones((2, 3)), np.ones(shape)) for shape in ((3, 2), (3, 4)))

    assert turned == f"{says}: it is transposed, or TOKENS says the other way round"
    assert "transposed" not in other

"""Stop strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformulary.errors import ConfigError
from transformulary.generate import Stop


def shown(strings, pieces):
    """(the pieces let out, whether a string was found)"""
    stop = Stop(strings)
    out = [stop.push(piece) for piece in pieces]
    return [*out, stop.rest()], stop.found


@pytest.mark.parametrize(
    ("strings", "pieces", "text", "found"),
    [
        (["DEFGHIJ"], ["AB", "C", "DEF", "G", "HI", "J", "K"], "ABC", True),
        (["\nUser:"], ["hello\nUs", "e this"], "hello\nUse this", False),
        (["\nUser:"], ["hello\nUs"], "hello\nUs", False),
        (["aab"], ["a", "a", "a", "b"], "a", True),
        (["b", "abc"], ["abc"], "a", True),  # the one that ends first
        (["c", "bc"], ["abcd"], "a", True),  # they end together: the longer
        ([], ["ab", "", "c"], "abc", False),
    ],
)
def test_examples(strings, pieces, text, found):
    """The text ends before the first stop string; what only began like one is let out in order."""
    out, was_found = shown(strings, pieces)

    assert ("".join(out), was_found) == (text, found)


TEXT = st.text("ab", max_size=12)
STRINGS = st.lists(st.text("ab", min_size=1, max_size=4), max_size=4)


@given(pieces=st.lists(TEXT), strings=STRINGS)
def test_the_pieces_do_not_matter(pieces, strings):
    """However a text is cut into pieces, the same part of it is let out, and that part has no stop string."""
    text = "".join(pieces)

    out, found = shown(strings, pieces)
    characters, _ = shown(strings, list(text))

    assert "".join(out) == "".join(characters)
    assert found == any(s in text for s in strings)
    assert not any(s in "".join(out) for s in strings)


@given(pieces=st.lists(TEXT), strings=STRINGS)
def test_no_beginning_of_the_stop_string_is_let_out(pieces, strings):
    """What is let out never has to be taken back: it is a beginning of the final text at every moment."""
    out, _ = shown(strings, pieces)
    final = "".join(shown(strings, ["".join(pieces)])[0])

    assert all(final.startswith("".join(out[:n])) for n in range(len(out) + 1))


@pytest.mark.parametrize(
    ("strings", "message"), [([""], "empty"), (list("abcde"), "5 stop strings; there may be up to 4")]
)
def test_impossible_strings(strings, message):
    """The empty string, and more than four, are refused."""
    with pytest.raises(ConfigError, match=message):
        Stop(strings)

"""Text that can be seen and does nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformulary.view.visible import INKLESS, one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "␣the"),
        ("\n", "↵"),
        ("\t", "⇥"),
        ("", "∅"),
        ("a<b<c &amp;", "a<b<c␣&amp;"),
        ("\r\n", "⟨U+000D⟩↵"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\ud800", "⟨U+D800⟩"),
        ("日é", "日é"),
    ],
)
def test_tokens_can_be_seen(text, shown):
    """White space has a sign, characters without ink their number, all else is itself."""
    assert shown == visible(text)


@given(st.text(st.characters()))
def test_nothing_shown_acts(text):
    """Whatever the text, what is shown has ink only: no control, no direction, no line break, no half character."""
    assert not INKLESS & {unicodedata.category(c) for c in visible(text)}


def test_headings_keep_their_spaces():
    """A heading reads as text, on one line."""
    assert "a  b↵c" == one_line("a  b\nc")

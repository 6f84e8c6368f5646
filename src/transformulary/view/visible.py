"""Token text as it is shown: every character can be seen, none acts on the page around it."""

from __future__ import annotations

import unicodedata

#: Characters that have a well-known sign of their own.
SIGNS = {" ": "␣", "\n": "↵", "\t": "⇥"}

#: Unicode categories without ink: controls, formats (bidirectional ones too), surrogates, unassigned, separators.
INKLESS = {"Cc", "Cf", "Cs", "Cn", "Zs", "Zl", "Zp"}


def visible(text: str) -> str:
    """`text` with a sign for each space, newline and tab, and ⟨U+XXXX⟩ for every other character without ink.

    The empty string is shown as ∅.  Nothing else changes: 'a<b' stays 'a<b'.
    """
    return "".join(SIGNS.get(c) or (escape(c) if unicodedata.category(c) in INKLESS else c) for c in text) or "∅"


def one_line(text: str) -> str:
    """`visible`, but spaces stay spaces: for headings."""
    return " ".join(visible(word) if word else "" for word in text.split(" "))


def escape(character: str) -> str:
    """The number of a character: ⟨U+200B⟩."""
    return f"⟨U+{ord(character):04X}⟩"

"""Strings that end a text, found while it grows."""

from __future__ import annotations

from collections.abc import Sequence

from transformulary.errors import ConfigError

MOST = 4


class Stop:
    """Text in, in pieces; text out, up to the first of some strings, none of which is ever let out, not even in part.

    Where two occurrences overlap, the one that ends first counts; of those the longer.

    Raises:
        ConfigError: a string is empty, or there are more than four.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        if "" in strings:
            raise ConfigError("a stop string is empty: it would end every text before it begins. Leave it out.")
        if len(strings) > MOST:
            raise ConfigError(f"{len(strings)} stop strings; there may be up to {MOST}.")
        self._strings = strings
        self._held = ""
        self.found = False

    def push(self, piece: str) -> str:
        """What may be shown of the text so far and was not shown yet; nothing more once a string was found."""
        if self.found:
            return ""
        text = self._held + piece
        found = [(text.find(s) + len(s), text.find(s)) for s in self._strings if s in text]
        self.found = bool(found)
        end = min(found)[1] if found else len(text) - self._beginning(text)
        self._held = "" if found else text[end:]
        return text[:end]

    def rest(self) -> str:
        """What was held back, when no more text comes: it only began like a stop string."""
        rest, self._held = self._held, ""
        return rest

    def _beginning(self, text: str) -> int:
        """Length of the longest end of the text with which a stop string begins."""
        longest = max((len(s) - 1 for s in self._strings), default=0)
        ends = (n for n in range(min(longest, len(text)), 0, -1) if any(s.startswith(text[-n:]) for s in self._strings))
        return next(ends, 0)

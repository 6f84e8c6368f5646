"""The text of a sequence of token ids while it grows."""

from __future__ import annotations

from transformulary.tokens.tokenizer import Tokenizer


class Stream:
    """Token ids in, one at a time; pieces of text out, none of which ends inside a character.

    The pieces and `rest()` are together `tokenizer.decode` of all the ids.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # the last ids: enough to decode what follows
        self._given = 0  # how many characters of their text are out
        self._whole: list[int] = []  # the last token that is text by itself, if there was one

    def push(self, token: int) -> str:
        """What the token adds to the text, as far as it is certain: '' while a character is incomplete.

        Raises:
            TokenError: the tokenizer does not have this id.
        """
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
        if "\ufffd" not in self._tokenizer.decode([token]):
            self._whole = [token]
        if text.endswith("\ufffd"):  # a character that later bytes may complete
            return self._give(text.rstrip("\ufffd"))
        piece = self._give(text)
        if self._whole:
            self._ids = [*self._whole]
            self._given = len(self._tokenizer.decode(self._ids))
        return piece

    def rest(self) -> str:
        """What was held back: U+FFFD for a character that was never completed, else ''."""
        return self._give(self._tokenizer.decode(self._ids))

    def _give(self, text: str) -> str:
        piece, self._given = text[self._given :], max(self._given, len(text))
        return piece

"""Texts and a tokenizer -> the token ids to learn from and those held out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from transformulary.data.batches import Documents
from transformulary.data.texts import Piece, split
from transformulary.tokens import Tokenizer


@dataclass(frozen=True)
class Corpus:
    """What a model learns from, what it is measured on, and the tokenizer that made both."""

    tokenizer: Tokenizer
    training: Documents
    held_out: Documents

    @property
    def sha256(self) -> str:
        """Fingerprint of all token ids and of where each text ends."""
        parts = (self.training, self.held_out)
        digest = hashlib.sha256()
        for tensor in (t for part in parts for t in (part.bounds, part.ids)):
            digest.update(tensor.numpy().tobytes())
        return digest.hexdigest()


def corpus(texts: Iterable[str], tokenizer: Tokenizer, held_out: float = 0.1) -> Corpus:
    """Encode `texts`, the last `held_out` of their characters apart from the rest.

    A text is bos, tokens, eos, as far as the vocabulary has these two; what a cut leaves of a text keeps
    its beginning or its end.  Text that spells a special token stays text.

    Raises:
        ConfigError: held_out is outside [0, 1).
        TokenError: the vocabulary cannot spell a text.
    """
    training, rest = split(texts, held_out)
    return Corpus(tokenizer, _documents(training, tokenizer), _documents(rest, tokenizer))


def _documents(pieces: list[Piece], tokenizer: Tokenizer) -> Documents:
    return Documents([_framed(piece, tokenizer) for piece in pieces])


def _framed(piece: Piece, tokenizer: Tokenizer) -> list[int]:
    bos = [tokenizer.bos_token] if piece.first and tokenizer.bos_token is not None else []
    eos = [tokenizer.eos_token] if piece.last and tokenizer.eos_token is not None else []
    return bos + tokenizer.encode(piece.text) + eos

"""Masked tokens and what an encoder takes them for: Algorithm 9, lines 10-12."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

import torch
from torch import Tensor

from transformulary.encode.choices import Choice, most_probable
from transformulary.encode.reading import Texts, batch_of, encoder, read, vocabulary
from transformulary.errors import DataError, TokenError
from transformulary.models import Loaded
from transformulary.nn import ETransformer, evaluating
from transformulary.ragged import BATCH, by_length
from transformulary.tokens import Encoding, Tokenizer


@dataclass(frozen=True)
class Masked:
    """One masked token.

    t        its place among the tokens, from 1
    choices  the most probable tokens, that one first
    was      the token that stands there, where each was masked in turn; None where the text itself has a mask
    """

    t: int
    choices: list[Choice]
    was: Choice | None = None

    @property
    def recovered(self) -> bool:
        """Whether the most probable token is the one that stands there."""
        return self.was is not None and self.was.id == self.choices[0].id


@dataclass(frozen=True)
class Filled:
    """A text, and what its masked tokens are taken for.

    tokens  the ids of all of its tokens, special ones as well
    masked  those that were masked, in order
    """

    tokens: list[int]
    masked: list[Masked]

    @property
    def recovered(self) -> int:
        """How many of the masked tokens are taken for what they are."""
        return sum(masked.recovered for masked in self.masked)


def fill(loaded: Loaded, texts: Texts, k: int = 5, each: bool = False, batch: int = BATCH) -> list[Filled]:
    """What an encoder takes masked tokens for: `transformulary fill`.

    Args:
        loaded: a masked language model (Algorithm 9) with its vocabulary.
        texts: one or several, in which the spelling of a special token, "[MASK]" say, is that token.  Each may be a
            pair of texts, or the list of its ids, special tokens as well.
        k: how many of the most probable tokens are told; 0 are all.
        each: mask each token in turn, special ones aside, and ask whether it is recovered.
        batch: how many texts are computed together, which changes nothing but time and memory.

    Raises:
        CheckpointError: the model is another kind, or has no vocabulary.
        TokenError: the vocabulary has no mask_token, cannot spell a text, or cannot frame two; an id is outside.
        DataError: a text has no mask, is empty, or longer than the model can read.
        ConfigError: k or batch is no such number.
    """
    return [*filled(loaded, texts, k, each, batch)]


def filled(loaded: Loaded, texts: Texts, k: int = 5, each: bool = False, batch: int = BATCH) -> Iterator[Filled]:
    """As `fill`, one after another, as they become known."""
    filling = _Filling(encoder(loaded, ETransformer, "fill"), vocabulary(loaded), k)
    rows = [*read(loaded, texts, special=True)]
    hidden = [(_each if each else _masks)(row, filling.tokenizer, f"text {n}") for n, row in enumerate(rows, 1)]
    asked = (
        _Asked(row, some)
        for row, at in zip(rows, hidden, strict=True)
        for some in ([[t] for t in at] if each else [at])
    )
    answers = chain.from_iterable(by_length(asked, filling, batch))
    for row, at in zip(rows, hidden, strict=True):
        yield Filled(row.ids, [*islice(answers, len(at))])


def _masks(row: Encoding, tokenizer: Tokenizer, name: str) -> list[int]:
    """Where a text has masks."""
    if found := [t for t, i in enumerate(row.ids) if i == tokenizer.mask_token]:
        return found
    mask = tokenizer.special["mask_token"]
    raise DataError(f"{name} has no mask: write {mask} where a token is to be guessed, or have each masked in turn.")


def _each(row: Encoding, tokenizer: Tokenizer, name: str) -> list[int]:
    """Where a text has tokens that are not special."""
    if found := [t for t, i in enumerate(row.ids) if i not in tokenizer.control]:
        return found
    raise DataError(f"{name} has none but special tokens: there is nothing to guess.")


@dataclass(frozen=True)
class _Asked:
    """A text, and where its tokens are asked for."""

    row: Encoding
    at: list[int]

    def __len__(self) -> int:
        return len(self.row)


class _Filling:
    """A model that answers."""

    def __init__(self, model: ETransformer, tokenizer: Tokenizer, k: int) -> None:
        if tokenizer.mask_token is None:
            raise TokenError("the vocabulary has no mask_token, so no token can be hidden: nothing is guessed.")
        self.model, self.tokenizer, self.k, self.mask = model, tokenizer, k, tokenizer.mask_token

    def __call__(self, asked: list[_Asked]) -> Iterator[list[Masked]]:
        """What the model takes the tokens of some texts for, where they are asked for."""
        b, t = zip(*((b, t) for b, one in enumerate(asked) for t in one.at), strict=True)
        with evaluating(self.model), torch.no_grad():
            x, s, real = batch_of(self.model, [self.hidden(one) for one in asked])
            X = self.model.encode(x, s, real=real)
            P = iter(self.model.predict(X[[*b], [*t]]).softmax(-1).cpu())
        for one in asked:
            yield [self.masked(one.row.ids[t], t, p) for t, p in zip(one.at, P, strict=False)]

    def hidden(self, asked: _Asked) -> Encoding:
        """The text with masks there."""
        ids = [*asked.row.ids]
        for t in asked.at:
            ids[t] = self.mask
        return Encoding(ids, asked.row.segments)

    def masked(self, i: int, t: int, p: Tensor) -> Masked:
        """What the token i in place t, from 0, is taken for."""
        was = None if i == self.mask else Choice(i, self.name(i), float(p[i]))
        return Masked(t + 1, most_probable(p, self.k, self.name), was)

    def name(self, i: int) -> str:
        """How a token is spelled; empty in a gap of the vocabulary."""
        return self.tokenizer.decode([i]) if i in self.tokenizer.ids else ""

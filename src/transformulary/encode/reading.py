"""Texts as an encoder reads them: with special tokens around them, in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from torch import Tensor

from transformulary.errors import CheckpointError, DataError, TokenError
from transformulary.models import Loaded, bare
from transformulary.nn import DTransformer, EClassifier, EDTransformer, EEmbedder, Encoder, ETransformer, Transformer
from transformulary.ragged import padded
from transformulary.tokens import Encoding, Tokenizer, why_none

#: A text; two that the model reads as a pair; or the ids of all of its tokens, special ones as well.
Text = str | tuple[str, str] | list[int]
Texts = str | tuple[str, str] | Iterable[Text]
Kind = TypeVar("Kind", bound=Encoder)

#: What each kind of model says of a text.
GIVES = {
    ETransformer: "masked tokens",
    EClassifier: "classes",
    EEmbedder: "vectors",
    DTransformer: "the tokens that follow",
    EDTransformer: "the tokens of another text",
    Encoder: "what tokens mean where they stand",
}


def encoder(loaded: Loaded, kind: type[Kind], verb: str) -> Kind:
    """The model, which is of that kind.  Raises CheckpointError where it is another."""
    model = bare(loaded.model, Transformer)
    if isinstance(model, kind):
        return model
    what = f"{loaded.described.source.path} holds a {loaded.described.format.model_type}"
    raise CheckpointError(
        f"{what} that gives {GIVES[type(model)]}; `{verb}` needs an encoder that gives {GIVES[kind]}."
    )


def vocabulary(loaded: Loaded) -> Tokenizer:
    """The tokenizer of a model.  Raises CheckpointError where it has none."""
    if loaded.tokenizer is None:
        raise CheckpointError(why_none(loaded.described))
    return loaded.tokenizer


def read(loaded: Loaded, texts: Texts, special: bool = False) -> Iterator[Encoding]:
    """The tokens of each text.

    Args:
        loaded: a model with its vocabulary; ids alone need none.
        texts: one, or several.
        special: read what spells a special token as that token.

    Raises:
        CheckpointError: the model has no vocabulary.
        TokenError: the vocabulary cannot spell a text, or does not know how to frame two; an id is outside it.
        DataError: a text is empty, or longer than the model can read.
    """
    for n, text in enumerate([texts] if isinstance(texts, str | tuple) else texts, 1):
        row = _framed(loaded, text, special)
        _check(loaded, row, f"text {n}")
        yield row


def _framed(loaded: Loaded, text: Text, special: bool) -> Encoding:
    if isinstance(text, list):
        return Encoding(text, [0] * len(text))
    tokenizer = vocabulary(loaded)
    one, other = (text, None) if isinstance(text, str) else text
    if other is not None and not tokenizer.pairs:
        raise TokenError("the tokenizer does not say how a pair of texts is read as one. Give one text at a time.")
    return tokenizer.framed(one, other, special)


def _check(loaded: Loaded, row: Encoding, name: str) -> None:
    model, ell = bare(loaded.model, Transformer), len(row.ids)
    if not ell:
        raise DataError(f"{name} is empty: it has no token to look at.")
    if ell > model.longest:
        raise DataError(
            f"{name} has {ell} tokens, and the model has learned positions for ell_max = {model.longest} only. "
            f"Shorten it, or cut it in two."
        )
    if wrong := [i for i in row.ids if not 0 <= i < model.config.N_V]:
        raise TokenError(
            f"{name} has the token id {wrong[0]}, outside the vocabulary [0, N_V) = [0, {model.config.N_V})."
        )


def batch_of(model: Encoder, rows: list[Encoding]) -> tuple[Tensor, Tensor | None, Tensor]:
    """What an encoder takes: ids, segments where it has them, and which slots hold tokens."""
    device = model.W_e.weight.device
    x, real = padded([row.ids for row in rows], device)
    return x, padded([row.segments for row in rows], device)[0] if model.config.segments else None, real

"""Decoders: the next token, with a stated context before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from transformulary.data import corpus
from transformulary.encode.reading import vocabulary
from transformulary.errors import ConfigError, DataError
from transformulary.measure.measured import Measured, Part, Row, asked, together
from transformulary.models import Loaded, decoder
from transformulary.nn import evaluating
from transformulary.ragged import by_length, padded
from transformulary.tokens import Tokenizer


def next_tokens(loaded: Loaded, texts: Sequence[str], context: int, stride: int, batch: int) -> Measured:
    """Nats of every token of each text that has one before it; see `evaluate`."""
    model, tokenizer = decoder(loaded), vocabulary(loaded)
    device = model.W_e.weight.device
    documents = [corpus([text], tokenizer, held_out=0.0).training.ids.tolist() for text in texts]
    rows = [row for document in documents for row in windows(document, context, stride)]
    if not rows:
        raise DataError("the text has no token that comes after another: there is nothing to predict.")

    def run(some: list[Row]) -> Iterator[Part]:
        x, real = padded([row.x[:-1] for row in some], device)
        return asked(model(x, real=None if real.all() else real), some)

    n_bytes = sum(predicted_bytes(*one, tokenizer) for one in zip(texts, documents, strict=True))
    with evaluating(model), torch.no_grad():
        return together("tokens", by_length(rows, run, batch), n_bytes)


def windows(x: list[int], context: int, stride: int) -> Iterator[Row]:
    """Windows of a text, which begin `stride` tokens after each other, with those targets that none before them has.

    Each holds `context` targets at most, and the token before them.
    """
    for start in range(0, max(1, len(x) - 1 - context + stride), stride):
        if len(x) > 1:
            yield Row(x[start : start + context + 1], first=1 + (context - stride if start else 0))


def predicted_bytes(text: str, x: list[int], tokenizer: Tokenizer) -> int:
    """The bytes of a text whose tokens are targets: all, but for those of a first token before which there is none."""
    unpredicted = [i for i in x[:1] if i not in (tokenizer.bos_token, tokenizer.eos_token)]
    return len(text.encode()) - len(tokenizer.decode(unpredicted).encode())


def check_windows(context: int, stride: int, longest: float | int) -> None:
    """Raises ConfigError unless there are such windows."""
    if not 1 <= context <= longest:
        raise ConfigError(f"context = {context} is outside [1, {longest}]: the model reads so many tokens at once.")
    if not 1 <= stride <= context:
        raise ConfigError(f"stride = {stride} is outside [1, {context}]: every token must be in a window.")

"""Decoders: the next token, with a stated context before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from transformulary.data import NO_TOKEN, Documents, corpus, shift
from transformulary.encode.reading import vocabulary
from transformulary.errors import ConfigError, DataError
from transformulary.measure.measured import Measured, asked, together
from transformulary.models import Loaded, decoder
from transformulary.nn import evaluating
from transformulary.tokens import Tokenizer


def next_tokens(loaded: Loaded, texts: Sequence[str], context: int, stride: int, batch: int) -> Measured:
    """Nats of every token of each text that has one before it; see `evaluate`."""
    model, tokenizer = decoder(loaded), vocabulary(loaded)
    device = model.W_e.weight.device
    documents = [corpus([text], tokenizer, held_out=0).training for text in texts]
    if not any(len(document) > 1 for document in documents):
        raise DataError("the text has no token that comes after another: there is nothing to predict.")
    n_bytes = sum(predicted_bytes(*one, tokenizer) for one in zip(texts, documents, strict=True))

    def parts() -> Iterator[tuple[int, float, int]]:
        for document in documents:
            for some in torch.split(windows(len(document), context, stride), batch):
                x, y = shift(document.rows(some[:, :2]))
                new = some[:, :1] + torch.arange(y.shape[1]) + 1 >= some[:, 2:]
                yield asked(model(x.to(device)), y.where(new, NO_TOKEN).to(device))

    with evaluating(model), torch.no_grad():
        return together("tokens", parts(), n_bytes)


def windows(n: int, context: int, stride: int) -> Int[Tensor, "N_windows 3"]:
    """Of n tokens: [start, end, first], windows in which the tokens from `first` on are targets, each of them once.

    They begin `stride` tokens after each other, and hold `context` targets at most and the token before them.
    """
    targets = max(0, n - 1)
    starts = torch.arange(0, max(1, targets - context + stride) if targets else 0, stride)
    ends = (starts + context).clamp(max=targets)
    firsts = (starts + context - stride).where(starts > 0, 0) + 1
    return torch.stack([starts, ends + 1, firsts], 1)


def predicted_bytes(text: str, document: Documents, tokenizer: Tokenizer) -> int:
    """The bytes of a text whose tokens are targets: all, but for those of a first token before which there is none."""
    first = document.ids[:1].tolist()
    silent = {tokenizer.bos_token, tokenizer.eos_token}
    return len(text.encode()) - len(tokenizer.decode([i for i in first if i not in silent]).encode())


def check_windows(context: int, stride: int, longest: float | int) -> None:
    """Raises ConfigError unless there are such windows."""
    if not 1 <= context <= longest:
        raise ConfigError(f"context = {context} is outside [1, {longest}]: the model reads so many tokens at once.")
    if not 1 <= stride <= context:
        raise ConfigError(f"stride = {stride} is outside [1, {context}]: every token must be in a window.")

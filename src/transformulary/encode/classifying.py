"""The classes of texts: Algorithm 9 up to line 9, then Algorithm 9c (erratum E20)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from transformulary.encode.choices import Choice, most_probable
from transformulary.encode.reading import Texts, batch_of, encoder, read
from transformulary.errors import CheckpointError
from transformulary.models import Loaded
from transformulary.nn import EClassifier, evaluating
from transformulary.ragged import BATCH, by_length
from transformulary.tokens import Encoding


def one_of_them(logits: Float[Tensor, "B N_C"]) -> Float[Tensor, "B N_C"]:
    """The probabilities of classes of which one is right: line 3 of Algorithm 9c."""
    return logits.softmax(-1)


def each_or_not(logits: Float[Tensor, "B N_C"]) -> Float[Tensor, "B N_C"]:
    """The probability of each class to be right, whatever the others are."""
    return logits.sigmoid()


#: What a config.json may say that the classes are.
PROBLEMS = {
    None: one_of_them,
    "single_label_classification": one_of_them,
    "multi_label_classification": each_or_not,
}


def classify(loaded: Loaded, texts: Texts, k: int = 0, batch: int = BATCH) -> list[list[Choice]]:
    """The classes of each text, the most probable first: `transformulary classify`.

    Args:
        loaded: a classifier with its vocabulary.
        texts: one or several; each may be a pair of texts, or the list of its ids, special tokens as well.
        k: how many of the most probable classes are told; 0 are all.
        batch: how many texts are computed together, which changes nothing but time and memory.

    Raises:
        CheckpointError: the model is another kind, gives one number only, or has no vocabulary.
        TokenError: the vocabulary cannot spell a text, or cannot frame two; an id is outside.
        DataError: a text is empty, or longer than the model can read.
        ConfigError: k or batch is no such number.
    """
    return [*classified(loaded, texts, k, batch)]


def classified(loaded: Loaded, texts: Texts, k: int = 0, batch: int = BATCH) -> Iterator[list[Choice]]:
    """As `classify`, one after another, as they become known."""
    model, labels, source = encoder(loaded, EClassifier, "classify"), loaded.described.labels, loaded.described.source
    problem = source.config.get("problem_type")
    if problem not in PROBLEMS or len(labels) == 1:
        raise CheckpointError(
            f"{source.path} gives numbers that are no probabilities of classes (problem_type = {problem!r}, "
            f"{len(labels)} of them). `load(path).model(x)` in Python gives them."
        )

    def run(rows: list[Encoding]) -> Iterator[list[Choice]]:
        with evaluating(model), torch.no_grad():
            x, s, real = batch_of(model, rows)
            P = PROBLEMS[problem](model(x, s, real=real)).cpu()
        yield from (most_probable(p, k, labels.__getitem__) for p in P)

    yield from by_length([*read(loaded, texts)], run, batch)

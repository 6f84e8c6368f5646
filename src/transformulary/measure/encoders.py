"""Encoders: each token hidden in turn, and classes of texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from transformulary.encode import classified, filled
from transformulary.encode.reading import encoder, vocabulary
from transformulary.errors import CheckpointError, ConfigError, DataError
from transformulary.measure.measured import Measured, Part, together
from transformulary.models import Loaded
from transformulary.nn import EClassifier, ETransformer
from transformulary.tokens import Tokenizer, chunks


def masked_tokens(loaded: Loaded, texts: Sequence[str], context: int, batch: int) -> Measured:
    """Nats of every token of each text where it alone is hidden; see `evaluate`."""
    encoder(loaded, ETransformer, "evaluate")
    tokenizer = vocabulary(loaded)
    rows = [row for text in texts for row in cut(text, tokenizer, context) if {*row} - tokenizer.control]
    if not rows:
        raise DataError("the text has no tokens but special ones: there is nothing to hide.")

    def parts() -> Iterator[Part]:
        for one in filled(loaded, rows, k=1, each=True, batch=batch):
            nats = [nats_of(masked.was.p) for masked in one.masked if masked.was]
            yield len(nats), sum(nats), one.recovered

    return together("masked tokens", parts())


def nats_of(p: float) -> float:
    """- log p."""
    return -math.log(p) if p else math.inf


def cut(text: str, tokenizer: Tokenizer, context: int) -> Iterator[list[int]]:
    """A text in pieces of `context` tokens, each with the special tokens around it that a text has."""
    ids, framed = tokenizer.encode(text), tokenizer.framed(text).ids
    n = len(framed) - len(ids)
    before = next((k for k in range(n + 1) if framed[k : k + len(ids)] == ids), 0)
    if context <= n:
        raise ConfigError(f"context = {context}: the {n} special tokens around a text leave no room for its own.")
    for piece in chunks(ids, context - n):
        yield [*framed[:before], *piece, *framed[before + len(ids) :]]


def classes(loaded: Loaded, texts: Sequence[str], labels: Sequence[str | int], batch: int) -> Measured:
    """Nats of the class that each text is said to have; see `evaluate`."""
    encoder(loaded, EClassifier, "evaluate")
    names, source = loaded.described.labels, loaded.described.source
    if source.config.get("problem_type") == "multi_label_classification":
        raise CheckpointError(f"{source.path} gives texts several classes at once, and none of them is the right one.")
    if len(texts) != len(labels):
        raise DataError(f"there are {len(texts)} texts and {len(labels)} labels: each text needs one.")
    right = [number(label, names, n) for n, label in enumerate(labels, 1)]

    def parts() -> Iterator[Part]:
        for found, one in zip(classified(loaded, texts, 0, batch), right, strict=True):
            yield 1, next(nats_of(choice.p) for choice in found if choice.id == one), int(found[0].id == one)

    return together("texts", parts())


def number(label: str | int, names: Sequence[str], n: int) -> int:
    """The class that is called so, or has that number.  Raises DataError where there is none, or several are meant."""
    meant = [i for i, name in enumerate(names) if label in (i, name, str(i))]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise DataError(
            f"label {n} is {label!r}, which is the name or the number of several classes, "
            f"{', '.join(map(str, meant))}: give them other names in the id2label of config.json."
        )
    known = ", ".join(names[:10]) + (", ..." if names[10:] else "")
    raise DataError(f"label {n} is {label!r}, which is no class of the model: {known}, or a number below {len(names)}.")

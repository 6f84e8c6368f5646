"""One vector for each text: Algorithm 9 up to line 9, then what the model's files say, or a mean."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from transformulary.encode.choices import check_finite
from transformulary.encode.reading import Texts, batch_of, encoder, read
from transformulary.models import Loaded
from transformulary.nn import EEmbedder, Encoder, evaluating
from transformulary.nn.etransformer import pool, unit
from transformulary.ragged import BATCH, by_length
from transformulary.tokens import Encoding


def embed(loaded: Loaded, texts: Texts, batch: int = BATCH) -> Float[Tensor, "N d_e"]:
    """One vector for each text, in the precision of the model: `transformulary embed`.

    What becomes of the vectors of a text's tokens, padding aside, is what files of sentence-transformers beside the
    model say; without such it is their mean, of length 1, so that products of vectors are cosines.

    Args:
        loaded: any encoder with its vocabulary; what stands on top of its layers is left out.
        texts: one or several; each may be a pair of texts, or the list of its ids, special tokens as well.
        batch: how many texts are computed together, which changes nothing but time and memory.

    Raises:
        CheckpointError: the model is no encoder, or has no vocabulary; a number of a vector is NaN or infinite.
        TokenError: the vocabulary cannot spell a text, or cannot frame two; an id is outside.
        DataError: a text is empty, or longer than the model can read.
        ConfigError: there is no such batch.
    """
    vectors = [*embedded(loaded, texts, batch)]
    return torch.stack(vectors) if vectors else torch.empty(0, loaded.model.config.d_e)


def embedded(loaded: Loaded, texts: Texts, batch: int = BATCH) -> Iterator[Float[Tensor, " d_e"]]:
    """As `embed`, one after another, as they become known."""
    model = encoder(loaded, Encoder, "embed")
    pooling = model if isinstance(model, EEmbedder) else loaded.described.pooling

    def run(rows: list[Encoding]) -> Float[Tensor, "B d_e"]:
        x, s, real = batch_of(model, rows)
        with evaluating(model), torch.no_grad():
            vectors = pool(model.encode(x, s, real=real), real, pooling.pooling, pooling.normalised).cpu()
        check_finite(vectors, "a number of a vector")
        return vectors

    yield from by_length([*read(loaded, texts)], run, batch)


def cosines(e: Float[Tensor, "N d_e"]) -> Float[Tensor, "N N"]:
    """The cosine of the angle between each vector and each other one."""
    return unit(e) @ unit(e).T

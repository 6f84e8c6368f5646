"""Encoder-decoders: the right answer token by token, and how like it the model's own answer is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from transformulary.encode.reading import read, vocabulary
from transformulary.errors import DataError, require
from transformulary.generate import Frame
from transformulary.generate.translation import answer_defaults, encoder_decoder
from transformulary.measure.measured import Measured, Part, Row, asked, together
from transformulary.models import Loaded
from transformulary.nn import evaluating
from transformulary.ragged import by_length, padded


def target_tokens(loaded: Loaded, sources: Sequence[str], targets: Sequence[str], batch: int) -> Measured:
    """Nats of every token of each target after those before it, given its source; see `evaluate`."""
    model, tokenizer = encoder_decoder(loaded, "evaluate"), vocabulary(loaded)
    check_parallel(sources, targets)
    frame, device = answer_defaults(loaded).frame, model.W_e.weight.device
    answers = [[frame.bos_token, *ended(tokenizer.answer(text), frame)] for text in targets]
    for n, x in enumerate(answers, 1):
        if len(x) - 1 > model.longest:
            raise DataError(f"target {n} has {len(x) - 1} tokens, more than ell_max = {model.longest}.")
        if len(x) == 1:
            raise DataError(f"target {n} is empty, and no token ends an answer (eos_token_id): nothing is predicted.")

    def run(some: list[Row]) -> Iterator[Part]:
        z, real_z = padded([row.z for row in some], device)
        x, real_x = padded([row.x[:-1] for row in some], device)
        return asked(model(z, x, real_z=real_z, real_x=real_x), some)

    rows = [Row(x, z=source.ids) for x, source in zip(answers, read(loaded, sources), strict=True)]
    with evaluating(model), torch.no_grad():
        return together("target tokens", by_length(rows, run, batch), sum(len(text.encode()) for text in targets))


def ended(y: list[int], frame: Frame) -> list[int]:
    """An answer with a token that ends it, whether the tokenizer adds one or not; as it is where nothing ends one."""
    return y if y and y[-1] in frame.eos else [*y, *frame.eos[:1]]


def check_parallel(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raises DataError unless there is a target for each source."""
    if len(sources) != len(targets):
        raise DataError(f"there are {len(sources)} sources and {len(targets)} targets: line n of one answers line n.")


@dataclass(frozen=True)
class Score:
    """How like others' texts are: its name, its number, and its signature, which says all that it depends on."""

    name: str
    score: float
    signature: str


def similarity(texts: Sequence[str], targets: Sequence[str]) -> list[Score]:
    """Corpus BLEU and chrF of texts against one target each, by sacrebleu, each with its signature.

    Raises MissingExtra: sacrebleu is not installed.  DataError: there is not a target for each text.
    """
    require("sacrebleu", "eval", "BLEU and chrF")
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    check_parallel(texts, targets)
    scores = []
    for name, metric in (("BLEU", BLEU()), ("chrF", CHRF())):
        score = float(metric.corpus_score([*texts], [[*targets]]).score)
        scores.append(Score(name, score, str(metric.get_signature())))
    return scores

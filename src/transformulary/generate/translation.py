"""Texts that answer texts: Algorithm 15 on an encoder-decoder and its vocabulary, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from transformulary.encode.reading import Texts, read
from transformulary.errors import CheckpointError
from transformulary.formats import AnswerDefaults
from transformulary.generate.edinference import EDInference, Hypothesis
from transformulary.generate.sampling import Sampling
from transformulary.models import Loaded, bare
from transformulary.nn import EDTransformer
from transformulary.paper import TwoStacks
from transformulary.paper.practice import Beam
from transformulary.ragged import BATCH, by_length

#: How many tokens are generated at most where nobody says.
ELL_GEN = 200


@dataclass(frozen=True)
class Translation:
    """What a model answers to a text.

    text           without the tokens that begin and end it; the ids, of a model without a vocabulary
    tokens         all of x^, from bos_token on
    log_p          log p(x^ | z)
    finish_reason  'stop' (an eos), or 'length': it was cut, be it with an eos that the model's files want there
    """

    text: str
    tokens: list[int]
    log_p: float
    finish_reason: str


def translate(
    loaded: Loaded,
    texts: Texts,
    how: Sampling | Beam | None = None,
    ell_gen: int | None = None,
    seed: int | None = None,
    batch: int = BATCH,
) -> list[str]:
    """What an encoder-decoder answers to each text: `transformulary translate`.

    Args:
        loaded: an encoder-decoder with its vocabulary.
        texts: one or several; each may be the list of its ids, special tokens as well.
        how: `Beam(N_beam=4)` searches, `Sampling(tau=0)` takes the most probable token again and again, another
            `Sampling` draws.  None does what the model's generation_config.json says; if it says nothing, the second.
        ell_gen: how many tokens an answer has at most; None is what the model's files say, or else ELL_GEN.
        seed: makes what is drawn repeatable: the n-th text, from 0, is answered as it is alone with seed + n.
        batch: how many texts are computed together, which changes nothing but time and memory.

    Raises:
        CheckpointError: the model is no encoder-decoder, or has no vocabulary; its files say something about how it
            answers that is not computed here, or not which token begins an answer.
        TokenError, DataError: as `encode.classify` does.
        ConfigError: ell_gen, the seed or batch is no such number.
    """
    return [one.text for one in translated(loaded, texts, how, ell_gen, seed, batch)]


def translated(
    loaded: Loaded,
    texts: Texts,
    how: Sampling | Beam | None = None,
    ell_gen: int | None = None,
    seed: int | None = None,
    batch: int = BATCH,
) -> Iterator[Translation]:
    """As `translate`, with the tokens, one after another, as they become known."""
    model, defaults = encoder_decoder(loaded, "translate"), answer_defaults(loaded)
    how = default_way(defaults) if how is None else how
    steps = next(n for n in (ell_gen, defaults.ell_gen, ELL_GEN) if n is not None)
    ids = loaded.tokenizer.ids if loaded.tokenizer else None
    contexts = [row.ids for row in read(loaded, texts)]
    numbers = range(seed, seed + len(contexts)) if seed is not None else [None] * len(contexts)

    def run(rows: list[_Asked]) -> Iterator[Translation]:
        seeds = [row.seed for row in rows if row.seed is not None] or None
        found = EDInference(model, [row.z for row in rows], steps, how, frame=defaults.frame, seed=seeds, ids=ids)
        yield from (spelled(loaded, defaults, one, int(min(steps, model.longest))) for one in found)

    yield from by_length(map(_Asked, contexts, numbers), run, batch)


@dataclass(frozen=True)
class _Asked:
    """A context, and the seed of its answer."""

    z: list[int]
    seed: int | None

    def __len__(self) -> int:
        return len(self.z)


def encoder_decoder(loaded: Loaded, verb: str) -> EDTransformer:
    """The model, which is an encoder-decoder.  Raises CheckpointError where it is another."""
    described = loaded.described
    if isinstance(described.config, TwoStacks):
        return bare(loaded.model, EDTransformer)
    raise CheckpointError(
        f"{described.source.path} holds a {described.format.model_type}, and `{verb}` needs an encoder-decoder."
    )


def answer_defaults(loaded: Loaded) -> AnswerDefaults:
    """What the files of an encoder-decoder say about how it answers.  Raises CheckpointError as `read` there does."""
    source, tokenizer = loaded.described.source, loaded.tokenizer
    ends = (tokenizer.bos_token, tokenizer.eos_token) if tokenizer else (None, None)
    return AnswerDefaults.read(loaded.generation, source.config, ends, loaded.model.config.N_V, source.folder)


def default_way(defaults: AnswerDefaults) -> Sampling | Beam:
    """How a model answers where its user does not say."""
    if defaults.draws:
        return Sampling(**vars(defaults.filters))
    return defaults.beam if defaults.beam.N_beam > 1 else Sampling(tau=0)


def spelled(loaded: Loaded, defaults: AnswerDefaults, found: Hypothesis, ell_gen: int) -> Translation:
    """The text of an x^ that has ell_gen tokens at most: without special tokens, wherever the model put them."""
    frame, x = defaults.frame, found.x[1:]
    ended = bool(x) and x[-1] in frame.eos
    reason = "stop" if ended and frame.forced(len(x), ell_gen) is None else "length"
    x = x[frame.first is not None : len(x) - ended]
    words = loaded.tokenizer
    text = words.decode(i for i in x if i not in words.control) if words else " ".join(map(str, x))
    return Translation(text, found.x, found.log_p, reason)

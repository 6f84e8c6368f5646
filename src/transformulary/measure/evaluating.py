"""One function for every model: how good it is on texts that it has not learned from."""

from __future__ import annotations

from collections.abc import Sequence

from transformulary.errors import ConfigError, DataError
from transformulary.measure.answers import target_tokens
from transformulary.measure.decoders import check_windows, next_tokens
from transformulary.measure.encoders import classes, masked_tokens
from transformulary.measure.measured import Measured
from transformulary.models import Loaded, bare
from transformulary.nn import DTransformer, EClassifier, EDTransformer, ETransformer, Transformer

#: Windows, or texts, that are computed together: few, because every token has its logits of the whole vocabulary.
BATCH = 4
#: What is said where answers are missing.
NEEDS: dict[type, str] = {
    EDTransformer: "which needs an answer for each text: --sources FILE --targets FILE, in Python `answers`.",
    EClassifier: "which needs the class of each text: --labels FILE, in Python `answers`.",
}


def evaluate(
    loaded: Loaded,
    texts: Sequence[str],
    answers: Sequence[str] | Sequence[int] = (),
    *,
    context: int | None = None,
    stride: int | None = None,
    batch: int = BATCH,
) -> Measured:
    """How probable a model takes what is right: `transformulary evaluate`.

    A decoder predicts every token of a text that has one before it: bos_token, where the vocabulary has one, comes
    before the first, and eos_token after the last.  It reads windows of `context` tokens, which begin `stride` tokens
    after each other; of a window, those tokens count that no window before it had.  So all but the first of a text see
    at least `context` - `stride` tokens.

    An encoder (Algorithm 9) has each token of a text hidden in turn, special ones aside, and all others to see: the
    sum is the pseudo-log-likelihood.  Longer texts are cut into pieces of `context` tokens, the special ones around
    each of them included.

    An encoder-decoder is given a text, and predicts every token of its answer after those before it; the token that
    ends the answer is one of them, whether the tokenizer adds it or not.

    A classifier gives every text a class, which is right if it is the answer, a name or a number.

    Args:
        loaded: a model with its vocabulary.
        texts: what it reads.
        answers: of an encoder-decoder, or classifier, one for each text.
        context: how many tokens are read at once; None is ell_max.
        stride: of a decoder; None is `context`: chunks, of which none sees the one before.
        batch: how many windows or texts are computed together, which changes nothing but time and memory.

    Raises:
        CheckpointError: the model is none of these, or has no vocabulary; a probability is NaN.
        DataError: there is nothing to predict; there is not an answer for each text, or none is wanted; a text that is
            not to be cut is too long.
        ConfigError: context, stride or batch is no such number.
        TokenError: the vocabulary cannot spell a text, or has no mask_token.
    """
    if not texts:
        raise DataError("there are no texts: the file is empty, and nothing can be measured.")
    model = bare(loaded.model, Transformer)
    wanted = isinstance(model, EDTransformer | EClassifier)
    if bool(answers) != wanted:
        raise DataError(
            f"{loaded.described.source.path} holds a {loaded.described.format.model_type}, "
            + (NEEDS[type(model)] if wanted else "and the texts themselves are what it predicts.")
        )
    if stride is not None and not isinstance(model, DTransformer):
        raise ConfigError(f"stride = {stride}: only what a decoder reads is read in windows that overlap.")
    if context is not None and wanted:
        raise ConfigError(f"context = {context}: what needs an answer is read whole, and not cut.")
    context = model.config.ell_max if context is None else context
    stride = context if stride is None else stride
    check_windows(context, stride, model.longest)
    match model:
        case DTransformer():
            return next_tokens(loaded, texts, context, stride, batch)
        case ETransformer():
            return masked_tokens(loaded, texts, context, batch)
        case EDTransformer():
            return target_tokens(loaded, texts, [*map(str, answers)], batch)
    return classes(loaded, texts, answers, batch)

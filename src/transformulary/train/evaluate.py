"""The loss on held-out text, measured without a trace."""

from __future__ import annotations

import math

import torch

from transformulary.data import NO_TOKEN, Documents, shift
from transformulary.nn import DTransformer, evaluating
from transformulary.tokens import Tokenizer
from transformulary.train.events import Evaluated
from transformulary.train.loss import count, total_loss


def evaluate(
    model: DTransformer, held_out: Documents, tokenizer: Tokenizer, *, batch: int = 16, tokens: int = 0, step: int = 0
) -> Evaluated | None:
    """Mean loss of Algorithm 13's line 5 over held-out text, per token and per character.

    Args:
        model: reads at most model.config.ell_max tokens at once; no token has an earlier window as context.
        held_out: token ids; every token but a document's first is a target.
        tokenizer: says how many characters the targets spell; special tokens spell none.
        batch: windows per pass.
        tokens: about how many targets to read, in windows spread evenly; 0 = all.
        step: is passed on to the result.

    Returns:
        The measurement, or None if there is no target.  Modes, gradients and random state are left alone.
    """
    ell_max = model.config.ell_max
    windows = held_out.windows(ell_max)
    if len(windows) == 0:
        return None
    if tokens and (n := math.ceil(tokens / ell_max)) < len(windows):
        windows = windows[torch.arange(n) * len(windows) // n]
    nats, targets, characters = 0.0, 0, 0
    with evaluating(model), torch.no_grad():
        for some in torch.split(windows, batch):
            x, y = shift(held_out.rows(some))
            nats += total_loss(model(x), y).item()
            targets += count(y)
            characters += sum(spelled(row, tokenizer) for row in y.tolist())
    per_character = nats / characters if characters else math.nan
    return Evaluated(step, nats / targets, per_character, per_character / math.log(2), targets, characters)


def spelled(ids: list[int], tokenizer: Tokenizer) -> int:
    """How many characters the ordinary tokens among `ids` spell; one that is cut at an edge counts."""
    silent = {NO_TOKEN, tokenizer.mask_token, tokenizer.bos_token, tokenizer.eos_token}
    return len(tokenizer.decode([i for i in ids if i not in silent]))

"""Algorithm 14: a decoder-only transformer continues a sequence of tokens."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from operator import index

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from transformulary.errors import AlgorithmError, ConfigError, TokenError
from transformulary.generate.sampling import Sampling, draw
from transformulary.nn import DTransformer, Past, evaluating

#: What follows a sequence: the logits (N_V,) of its last position.
Logits = Callable[[list[int]], Tensor]


def DInference(
    model: DTransformer,
    x: Sequence[int],
    ell_gen: int,
    sampling: Sampling = Sampling(),  # noqa: B008 - frozen
    *,
    seed: int | None = None,
    eos: Collection[int] = (),
    ids: Collection[int] | None = None,
    crop: bool = False,
) -> Iterator[int]:
    """y <- DInference(x, theta): the tokens that continue a prompt, one by one.

    Everything is checked at once, and nothing is computed before the first token is asked for.  Keys and values are
    remembered between tokens, dropout is off while a token is computed, no gradient is kept, and torch's global random
    state is not touched.

    Args:
        model: the transformer with its parameters.
        x: the prompt, at least one token; ids from 0.
        ell_gen: how many tokens are generated at most.  Where positions are learned and `crop` is off, it ends earlier
            after ell_max + 1 - len(x) tokens: the last one has been drawn, and the model cannot read it.
        sampling: temperature, top-k and top-p of line 5.
        seed: makes the result repeatable; None draws differently every time.
        eos: tokens after which it ends; the paper has none.  An eos in the prompt ends nothing.
        ids: the only tokens that may be drawn, before all filters; None is all N_V.
        crop: see only the last ell_max tokens, computed anew for each token where the sequence is longer.

    Yields:
        Token ids; an eos is the last of them.

    Raises:
        AlgorithmError: the prompt is empty, or longer than ell_max without `crop`.
        TokenError: the prompt has an id outside [0, N_V).
        ConfigError: ell_gen is negative, `ids` is empty, or the seed has more than 64 bits.
        CheckpointError: the model's logits are not finite; raised when that token is asked for.

    Source: Algorithm 14 of arXiv:2207.09238.
    """
    x = [index(token) for token in x]
    longest = math.inf if crop else model.longest
    check_prompt(x, model.config.N_V, longest)
    if ell_gen < 0:
        raise ConfigError(f"ell_gen = {ell_gen}: the number of tokens to generate cannot be negative.")
    generator, banned = random_numbers(seed), outside(ids, model.config.N_V)
    steps = min(ell_gen, longest + 1 - len(x))
    return _tokens(last_logits(model, crop), x, int(steps), sampling, generator, frozenset(eos), banned)


def _tokens(
    logits: Logits,
    x: list[int],
    steps: int,
    sampling: Sampling,
    generator: torch.Generator,
    eos: Collection[int],
    banned: Bool[Tensor, "N_V"],
) -> Iterator[int]:
    for _ in range(steps):  # 2
        l = logits(x)  # 3, 4
        y = draw(sampling(l.masked_fill(banned, -math.inf)), generator)  # 5
        x.append(y)  # 6
        yield y
        if y in eos:
            return


def last_logits(model: DTransformer, crop: bool) -> Logits:
    """Lines 3 and 4 for a sequence that grows: what was computed for its beginning is remembered, where it stays true.

    It does not where some tokens look at later ones, nor where the window of `crop` moves, and with it every position.
    """
    grows = model.config.remembers
    past, seen = model.new_cache() if grows else Past(0), 0

    def logits(x: list[int]) -> Float[Tensor, "N_V"]:
        nonlocal seen
        moves = crop and len(x) > model.longest
        if moves or not grows:
            return last(model, x[-int(model.longest) :] if moves else x)
        new, seen = x[seen:], len(x)
        return last(model, new, past)

    return logits


@torch.no_grad()
def last(model: DTransformer, x: list[int], *past: Past) -> Float[Tensor, "N_V"]:
    """The logits (N_V,) after the last token of x, on the processor; no dropout, no gradient."""
    with evaluating(model):
        P: Float[Tensor, "1 ell N_V"] = model(torch.tensor([x], device=next(model.parameters()).device), *past)
    return P[0, -1].cpu()


def check_prompt(x: list[int], N_V: int, longest: float | int) -> None:
    """Raises AlgorithmError or TokenError unless Algorithm 14 has a next token for the prompt."""
    if not x:
        raise AlgorithmError(
            "the prompt is empty, and Algorithm 14 continues its last token: begin with some text, or with bos_token "
            "if the vocabulary has one."
        )
    if len(x) > longest:
        raise AlgorithmError(
            f"the prompt has {len(x)} tokens, more than ell_max = {longest}: the model has learned no positions "
            f"beyond. Shorten it, or let the model see only its last {longest} tokens (--crop)."
        )
    if wrong := [token for token in x if not 0 <= token < N_V]:
        raise TokenError(
            f"the prompt has token {wrong[0]}, outside [0, N_V) = [0, {N_V}): it is of another vocabulary."
        )


def random_numbers(seed: int | None) -> torch.Generator:
    """A source of random numbers of its own.  Raises ConfigError if the seed is not in [0, 2^64)."""
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    elif 0 <= seed < 2**64:
        generator.manual_seed(seed)
    else:
        raise ConfigError(f"seed = {seed} is outside [0, 2^64).")
    return generator


def outside(ids: Collection[int] | None, N_V: int) -> Bool[Tensor, "N_V"]:
    """(N_V,) true for the tokens that may not be drawn.  Raises ConfigError if none may."""
    if ids is None:
        return torch.zeros(N_V, dtype=torch.bool)
    banned = torch.ones(N_V, dtype=torch.bool)
    banned[[i for i in ids if 0 <= i < N_V]] = False
    if banned.all():
        raise ConfigError(f"no token may be drawn: none of the ids allowed is in [0, N_V) = [0, {N_V}).")
    return banned

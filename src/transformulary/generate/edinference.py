"""Algorithm 15: an encoder-decoder transformer answers a sequence of tokens with another."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from transformulary.errors import AlgorithmError, ConfigError, TokenError
from transformulary.generate.dinference import outside, random_numbers
from transformulary.generate.sampling import Sampling, check, draw
from transformulary.nn import EDTransformer, evaluating
from transformulary.paper.practice import Beam, Frame
from transformulary.ragged import padded


class Hypothesis(NamedTuple):
    """An x^ as far as it is known, and log p(x^ | z): the sum of those of its tokens, as `Frame` counts them."""

    x: list[int]
    log_p: float

    def plus(self, token: int, log_p: float) -> Hypothesis:
        """The same with one token more; `log_p` is of all of it."""
        return Hypothesis([*self.x, token], log_p)


@torch.no_grad()
def EDInference(
    model: EDTransformer,
    z: Sequence[Sequence[int]],
    ell_gen: int,
    how: Sampling | Beam = Sampling(),  # noqa: B008 - frozen
    *,
    frame: Frame,
    seed: int | Sequence[int] | None = None,
    ids: Collection[int] | None = None,
) -> list[Hypothesis]:
    """x^ <- EDInference(z, theta), for each z of a batch.

    Every z is read once, keys and values are remembered between tokens, dropout is off, no gradient is kept, and
    torch's global random state is not touched.  What is found for one z does not depend on the others.

    Args:
        model: the transformer with its parameters.
        z: the contexts, each at least one token; ids from 0.
        ell_gen: how many tokens come after bos_token at most.  Where positions are learned there are never more than
            ell_max: the last one is not read.
        how: temperature, top-k and top-p of line 6; or the search that takes its place.
        frame: what x^ begins and ends with, and which tokens it may have.
        seed: makes the result repeatable: one for each z, or that of the first, which the others' follow, one by one.
            None draws differently every time.
        ids: the only tokens that may come; None is all N_V.

    Returns:
        One x^ for each z, with bos_token and, unless it was cut, eos.

    Raises:
        AlgorithmError: a z is empty, or longer than a learned table of positions.
        TokenError: a z has an id outside [0, N_V).
        ConfigError: ell_gen is below 1; a token of `frame` is none of the model's; no token may come, at the beginning
            or where nothing has ended; the seed has more than 64 bits.
        CheckpointError: the model's logits are not finite.

    Source: Algorithm 15 of arXiv:2207.09238.
    """
    check_contexts(z, model.config.N_V, model.longest)
    if ell_gen < 1:
        raise ConfigError(f"ell_gen = {ell_gen}: one token is the least that can be generated.")
    rules = Rules(frame, int(min(ell_gen, model.longest)), ids, model.config.N_V)
    seeds: Sequence[int | None] = [None] * len(z)
    if seed is not None:
        seeds = range(seed, seed + len(z)) if isinstance(seed, int) else seed
    searches = [SEARCHES[type(how)](how, rules, random_numbers(one)) for one in seeds]
    if searches:
        with evaluating(model):
            _answer(model, z, searches)
    return [search.found for search in searches]


def _answer(model: EDTransformer, z: Sequence[Sequence[int]], searches: Sequence[Search]) -> None:
    """Lines 3-8 for all z at once: a row for each hypothesis, those of one z together."""
    device = model.W_e.weight.device
    z_rows, real = padded(z, device)
    source, past = model.read(z_rows, real=None if real.all() else real), model.new_cache()
    owners = list(range(len(searches)))  # the search of each row
    while owners:
        x = [hypothesis.x[-1:] for i in dict.fromkeys(owners) for hypothesis in searches[i].hypotheses]
        logits = model.decode(torch.tensor(x, device=device), source, past)[:, -1].cpu()  # 4, 5
        rows: list[tuple[int, int]] = []  # (owner, row that it has grown from)
        for i, its in groupby(range(len(owners)), owners.__getitem__):
            own = list(its)
            rows += [(i, own[n]) for n in searches[i].grow(logits[own])]
        before, owners = owners, [i for i, _ in rows]
        chosen = torch.tensor([row for _, row in rows], dtype=torch.int64, device=device)
        if owners != before:
            source = source.select(chosen)
        if len(rows) != len(before) or chosen.tolist() != list(range(len(before))):
            past.select(chosen)


#: What of a `Frame` forbids tokens -> the keys of a generation_config.json that say it.
FORBIDS = {
    "banned": "bad_words_ids, suppress_tokens",
    "least": "min_length, min_new_tokens",
    "no_repeat": "no_repeat_ngram_size",
}


class Rules:
    """Which token may come when, and with what probability."""

    def __init__(self, frame: Frame, ell_gen: int, ids: Collection[int] | None, N_V: int) -> None:
        self.frame, self.ell_gen = frame, ell_gen
        named = (frame.bos_token, *frame.eos, frame.first, frame.last)
        for token in named:
            if token is not None and not 0 <= token < N_V:
                raise ConfigError(f"token {token} is outside [0, N_V) = [0, {N_V}): it is of another vocabulary.")
        allowed = {*(range(N_V) if ids is None else ids)}
        if allowed and allowed <= {*frame.banned}:
            raise self.stuck(1)
        self.banned = outside(allowed - {*frame.banned}, N_V)

    def begin(self) -> Hypothesis:
        """Line 1."""
        return Hypothesis([self.frame.bos_token], 0.0)

    def ends(self, x: list[int]) -> bool:
        """Line 3: whether nothing comes after x any more."""
        return x[-1] in self.frame.eos or len(x) > self.ell_gen

    def stuck(self, n: int) -> ConfigError:
        """What to say where no token may be the n-th: whatever `Frame` forbids, and what the files call that."""
        said = {name: value for name in FORBIDS if (value := getattr(self.frame, name))}
        numbers = ((name, len(value) if isinstance(value, tuple) else value) for name, value in said.items())
        rules = " and ".join(f"{name} = {number} ({FORBIDS[name]})" for name, number in numbers)
        return ConfigError(
            f"no token may be number {n} of an answer, with {rules or 'these ids'}: loosen what forbids them."
        )

    def log_p(self, logits: Float[Tensor, "n N_V"], hypotheses: Sequence[Hypothesis]) -> Float[Tensor, "n N_V"]:
        """log p of the token that comes after each hypothesis, in float64; -inf for one that may not come.

        Raises CheckpointError where the logits are of no distribution.
        """
        for row in logits:
            check(row)
        only = self.frame.forced(len(hypotheses[0].x), self.ell_gen)
        if only is not None:
            return torch.full(logits.shape, -math.inf, dtype=torch.float64).index_fill(1, torch.tensor([only]), 0.0)
        banned = self.banned.repeat(len(logits), 1)
        for row, hypothesis in zip(banned, hypotheses, strict=True):
            row[[*self.frame.banned_after(hypothesis.x)]] = True
        log_p = logits.double().log_softmax(-1).masked_fill(banned, -math.inf)
        return log_p.log_softmax(-1).masked_fill(banned, -math.inf) if self.frame.renormalised else log_p


class Search(ABC):
    """How the x^ of one z is found.

    hypotheses  those that may grow
    found       the best that has ended, at last the one to be returned
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.found = rules.begin()
        self.hypotheses = [self.found]

    @abstractmethod
    def grow(self, logits: Float[Tensor, "n N_V"]) -> list[int]:
        """Put others in the hypotheses' places, each one token longer; says from which of them each has grown.

        There are none any more once the x^ is found.  `logits` are of what comes after each hypothesis.
        """


class Draw(Search):
    """Line 6: the next token is drawn."""

    def __init__(self, how: Sampling, rules: Rules, generator: torch.Generator) -> None:
        super().__init__(rules)
        self.how, self.generator = how, generator

    def grow(self, logits: Float[Tensor, "n N_V"]) -> list[int]:
        log_p = self.rules.log_p(logits, self.hypotheses)[0]
        if log_p.max() == -math.inf:
            raise self.rules.stuck(len(self.found.x))
        y = draw(self.how(log_p), self.generator)  # 6
        self.found = self.found.plus(y, self.found.log_p + float(log_p[y]))  # 7
        self.hypotheses = [] if self.rules.ends(self.found.x) else [self.found]
        return [0] * len(self.hypotheses)


class BeamSearch(Search):
    """What `Beam` says."""

    def __init__(self, how: Beam, rules: Rules, generator: torch.Generator) -> None:
        super().__init__(rules)
        self.how = how
        self.ended: list[Hypothesis] = []

    def grow(self, logits: Float[Tensor, "n N_V"]) -> list[int]:
        N, eos = self.how.N_beam, self.rules.frame.eos
        log_p = self.rules.log_p(logits, self.hypotheses)
        sums = log_p + torch.tensor([[h.log_p] for h in self.hypotheses], dtype=torch.float64)
        grown = [(n, self.hypotheses[n].plus(y, s)) for n, y, s in best(sums, N * max(2, 1 + len(eos)))]
        self.ended += [h for _, h in grown[:N] if self.rules.ends(h.x)]
        self.ended = sorted(self.ended, key=self.score, reverse=True)[:N]  # stable: of equals the earlier
        if not (grown or self.ended):
            raise self.rules.stuck(len(self.hypotheses[0].x))
        self.found = next(iter(self.ended), self.found)
        running = [(n, h) for n, h in grown if not self.rules.ends(h.x)][:N]
        self.hypotheses = [h for _, h in running]
        if running and self.enough(running[0][1]):
            self.hypotheses = []
        return [n for n, _ in running][: len(self.hypotheses)]

    def score(self, h: Hypothesis) -> float:
        """What x^ are compared by."""
        return self.how.score(h.log_p, len(h.x) - 1)

    def enough(self, best: Hypothesis) -> bool:
        """Whether nothing better is to be found, `best` being the best beginning that goes on."""
        bound = BOUNDS[self.how.until](self.how, best.log_p, len(best.x) - 1, self.rules.ell_gen)
        return len(self.ended) == self.how.N_beam and bound <= self.score(self.ended[-1])


#: A way of choosing -> the search that follows it.
SEARCHES: dict[type, Callable[[Any, Rules, torch.Generator], Search]] = {Sampling: Draw, Beam: BeamSearch}
#: What the score of what goes on is taken to be at most: (beam, its log p, its length, the longest) -> score.
BOUNDS: dict[str, Callable[[Beam, float, int, int], float]] = {
    "certain": lambda beam, log_p, n, ell_gen: beam.score(log_p, ell_gen if beam.alpha > 0 else n),
    "likely": lambda beam, log_p, n, ell_gen: beam.score(log_p, n),
    "full": lambda beam, log_p, n, ell_gen: -math.inf,
}


def best(sums: Float[Tensor, "n N_V"], k: int) -> list[tuple[int, int, float]]:
    """(row, token, sum) of the k largest, falling, none of them -inf; of equals the earlier row, then the lower id."""
    flat = sums.flatten()
    least = flat.topk(min(k, len(flat))).values[-1]
    places = ((flat >= least) & (flat > -math.inf)).nonzero()[:, 0]
    places = places[flat[places].sort(descending=True, stable=True).indices][:k]
    return [(*divmod(place, sums.shape[1]), float(flat[place])) for place in places.tolist()]


def check_contexts(z: Sequence[Sequence[int]], N_V: int, longest: float | int) -> None:
    """Raises AlgorithmError or TokenError unless Algorithm 15 has an answer to every z."""
    for n, one in enumerate(z, 1):
        if not one:
            raise AlgorithmError(f"context {n} of {len(z)} is empty: it has no token to attend to.")
        if len(one) > longest:
            raise AlgorithmError(
                f"context {n} of {len(z)} has {len(one)} tokens, more than ell_max = {longest}: the model has learned "
                f"no positions beyond. Shorten it."
            )
        if wrong := [token for token in one if not 0 <= token < N_V]:
            raise TokenError(f"context {n} of {len(z)} has token {wrong[0]}, outside [0, N_V) = [0, {N_V}).")

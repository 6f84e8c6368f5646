"""What practice adds to the paper's Algorithms 11-15, as values.  The defaults are the paper.

As with the choices of a model, what is off leaves no trace in the pseudocode.  Standard library only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from sys import float_info
from typing import Any, TypeVar

from transformulary.errors import ConfigError

#: What is at most 1.
PARTS = ("alpha", "p_drop", "beta_m", "beta_v")
#: slot -> the values it may have; the first is the paper's.
PRACTICES: dict[str, tuple[str, ...]] = {
    "optimiser": ("sgd", "momentum", "rmsprop", "adagrad", "adam", "adamw"),
    "memory": ("momentum", "rmsprop", "adagrad", "adam", "adamw"),
    "schedule": ("constant", "cosine", "linear"),
    "descent": ("cosine", "linear"),
    "loss": ("sum", "tokens", "sequences"),
    "masking": ("paper", "bert"),
}
#: More beginnings than anyone searches with; each has the probabilities of a whole vocabulary.
MOST_BEAMS = 256
#: When beam search ends.
UNTIL = ("certain", "likely", "full")
C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class Training:
    """How Algorithms 11-13 are practised.  `Training()` is the paper; everything else needs N_steps.

    N_steps        updates; 0 = the paper: one for every sequence, N_epochs times through the data in its order
    N_batch        sequences in a batch
    N_acc          batches in an update, their gradients added
    chunks         sequences are cut into windows of ell_max targets at most (Algorithm 13c)
    shuffle        every epoch in another random order, and its long sequences cut at other places
    loss           of an update: the sum over its tokens, their mean (tokens), or the sum divided by the number of its
                   sequences (sequences)
    alpha          label smoothing: this part of every target is spread over the whole vocabulary
    p_drop         dropout: probability with which an entry is dropped (Algorithm 13 only)
    optimiser      sgd, momentum, rmsprop, adagrad, adam, adamw
    beta_m         momentum, and Adam's memory of the mean of the gradient
    beta_v         RMSProp's and Adam's memory of the mean of its square
    epsilon        added to the root of that mean
    nesterov       of momentum
    decay          weight decay of the matrices: adamw's is decoupled, the others' is added to the gradient
    eta_embedding  rate of W_e and W_p, as a multiple of that of the others
    g_max          largest norm of the gradient of an update; 0 = no limit
    schedule       how the rate falls from its peak eta to its floor (Algorithm 13e)
    eta_floor      lowest rate, as a fraction of eta
    N_warmup       steps in which the rate rises to its peak
    N_total        the steps after which the rate would be at its floor; 0 = it does not fall by steps
    T_total        the same in seconds of the clock; 0 = it does not fall by the clock
    masking        Algorithm 12: tokens are masked one by one (paper), or chosen, and then most of them masked (bert)
    special        tokens that are never masked

    Raises ConfigError for a value that is none, or a practice without steps.
    """

    N_steps: int = 0
    N_batch: int = 1
    N_acc: int = 1
    chunks: bool = False
    shuffle: bool = False
    loss: str = "sum"
    alpha: float = 0.0
    p_drop: float = 0.0
    optimiser: str = "sgd"
    beta_m: float = 0.9
    beta_v: float = 0.999
    epsilon: float = 1e-8
    nesterov: bool = False
    decay: float = 0.0
    eta_embedding: float = 1.0
    g_max: float = 0.0
    schedule: str = "constant"
    eta_floor: float = 0.0
    N_warmup: int = 0
    N_total: int = 0
    T_total: float = 0.0
    masking: str = "paper"
    special: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, values in PRACTICES.items():
            if hasattr(self, name) and getattr(self, name) not in values:
                raise ConfigError(f"{name} = {getattr(self, name)!r} is none of {', '.join(values)}.")
        needs = {f.name for f in fields(self)} - {"masking", "special"}
        if not self.N_steps and any(getattr(self, name) != getattr(type(self), name) for name in needs):
            raise ConfigError("without N_steps training is the paper's, and nothing else of it can be chosen.")
        for f in fields(self):
            value, most = getattr(self, f.name), 1 if f.name in PARTS else float_info.max
            least = 1 if f.name in ("N_batch", "N_acc") else 0
            if isinstance(value, int | float) and not least <= value <= most:
                outside = f"is outside [{least}, 1]" if most == 1 else f"must be {least} or more, and finite"
                raise ConfigError(f"{f.name} = {value} {outside}.")

    @property
    def decoupled(self) -> bool:
        """Whether weight decay is a step of its own."""
        return self.optimiser == "adamw"


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Which tokens may be drawn, and how likely.  `Filters()` is the paper at tau = 1: the model's own distribution.

    tau    temperature: q is proportional to p^(1/tau); 0 takes the most probable token (among equals the lowest id),
           infinity any token of positive probability
    top_k  only the k most probable tokens (among equals at the edge the lower ids); 0 is off
    top_p  only the smallest set of most probable tokens whose mass reaches p, after the other two; 1 is off, 0 leaves
           the most probable token

    Raises:
        ConfigError: tau is negative or NaN, top_k is negative, top_p is outside [0, 1].
    """

    tau: float | int = 1.0
    top_k: int = 0
    top_p: float | int = 1.0

    def __post_init__(self) -> None:
        if not self.tau >= 0:
            raise ConfigError(f"temperature = {self.tau}: it must be 0 (the most probable token) or more.")
        if self.top_k < 0:
            raise ConfigError(f"top_k = {self.top_k}: it must be a number of tokens, or 0 for all of them.")
        if not 0 <= self.top_p <= 1:
            raise ConfigError(f"top_p = {self.top_p} is outside [0, 1]: it is a probability.")


@dataclass(frozen=True, kw_only=True)
class Inference:
    """How Algorithms 14 and 15 are practised.  `Inference()` is the paper.

    top_k  only the k most probable tokens, of equals the lower ids; 0 = all
    top_p  only the smallest set of most probable tokens whose mass reaches p, after temperature and top_k; 1 = all
    stop   Algorithm 14 ends after one of these tokens
    limit  Algorithm 14 ends where the positions of the model end: ell_max + 1 - ell tokens are generated at most
    """

    top_k: int = 0
    top_p: float | int = 1.0
    stop: tuple[int, ...] = ()
    limit: bool = False

    def __post_init__(self) -> None:
        Filters(top_k=self.top_k, top_p=self.top_p)  # raises ConfigError


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What Algorithm 15 begins and ends with, and which tokens it may have in between.

    bos_token     begins x^ (line 1); published models call it the decoder's start token, and it can be any token
    eos           tokens after which x^ ends (line 3); the paper has one
    first         the only token that may follow bos_token; None lets the model say it
    last          the only token that may come where x^ is cut; None lets the model say it
    banned        tokens that never come
    least         eos is none of the first so many tokens after bos_token
    no_repeat     no so many tokens in a row come twice, bos_token counted among them; 0 lets them
    renormalised  whether the probability of a token, as beam search counts it, is that among the tokens that may
                  come, or that among all; where `first` or `last` leave no choice it is 1
    """

    bos_token: int
    eos: tuple[int, ...]
    first: int | None = None
    last: int | None = None
    banned: tuple[int, ...] = ()
    least: int = 0
    no_repeat: int = 0
    renormalised: bool = False

    def forced(self, n: int, ell_gen: int) -> int | None:
        """The only token that may be the n-th of ell_gen, counted from 1; None where there is a choice."""
        return self.first if n == 1 and self.first is not None else self.last if n == ell_gen else None

    def banned_after(self, x: list[int]) -> set[int]:
        """What of `least` and `no_repeat` may not come after x."""
        k, new = self.no_repeat, len(x) - self.no_repeat + 1
        again = {x[i + k - 1] for i in range(new) if x[i : i + k - 1] == x[new:]} if k else set()
        return again | ({*self.eos} if len(x) <= self.least else set())


@dataclass(frozen=True, kw_only=True)
class Beam:
    """Beam search in place of line 6 of Algorithm 15: the best x^ found, not one that is drawn.

    The score of an x^ of n tokens after bos_token (eos is one of them) is

        score(x^) = (log p(x^[2]) + ... + log p(x^[n+1])) / n^alpha.

    Of all continuations of the N_beam best beginnings, those that end among the first N_beam are kept, by their score,
    and the N_beam best of those that do not end go on.  Of equals the continuation of the better beginning comes
    first, then the lower id.

    N_beam  beginnings that are looked at together, MOST_BEAMS at most
    alpha   0 compares sums, 1 means; more favours longer x^
    until   it ends when N_beam have been kept and, besides, no beginning could
              certain  come to a better score than they have, however it goes on
              likely   have a better score than they have if it ended now
              full     (nothing besides)

    Raises ConfigError for a value that is none.
    """

    N_beam: int
    alpha: float | int = 1.0
    until: str = "likely"

    def __post_init__(self) -> None:
        if not 1 <= self.N_beam <= MOST_BEAMS:
            raise ConfigError(
                f"N_beam = {self.N_beam} is outside [1, {MOST_BEAMS}]: so many beginnings are looked at together, each "
                f"with its keys and values."
            )
        if not abs(self.alpha) <= 10:
            raise ConfigError(f"alpha = {self.alpha} is outside [-10, 10]: it is the power of a length, often 1.")
        if self.until not in UNTIL:
            raise ConfigError(f"until = {self.until!r} is none of {', '.join(UNTIL)}.")

    def score(self, log_p: float, n: int) -> float:
        """The score of n tokens whose sum of log p this is."""
        return log_p / math.pow(n, self.alpha)


@dataclass(frozen=True)
class Limits:
    """What a schedule ran to, N_total and T_total of `Training`, up to and with the step `until`."""

    until: int
    N_total: int
    T_total: float


@dataclass(frozen=True, kw_only=True)
class Practice:
    """How one model is trained and used: what its algorithms choose, and the hyperparameters that they are told.

    training, inference  `how` of Algorithms 11-13, of 14 and 15
    told                 numbers by name: eta, tau, ell_gen
    sessions             the limits that its schedule had before the last time that a run was taken up again
    steps                the first and the last step that this is of, if it is one session of a run
    """

    training: Training = Training()
    inference: Inference = Inference()
    told: Mapping[str, float] = field(default_factory=dict)
    sessions: tuple[Limits, ...] = ()
    steps: tuple[int, int] | None = None

    def by_session(self) -> tuple[Practice, ...]:
        """The practice of every session of a run, itself if there is one."""
        if not self.sessions:
            return (self,)
        now = self.training
        limits = (*self.sessions, Limits(now.N_steps, now.N_total, now.T_total))
        firsts = (1, *(one.until + 1 for one in self.sessions))
        return tuple(
            replace(
                self, training=replace(now, N_total=one.N_total, T_total=one.T_total), sessions=(), steps=(i, one.until)
            )
            for i, one in zip(firsts, limits, strict=True)
        )


def dropping(config: C, dropout: Any) -> C:
    """The config of a model in training: the lines of Algorithms 4, 5 and 10 that drop entries are executed.

    dropout  what is true: the probability to print, or what the oracle calls; otherwise the config itself is returned
    """
    if not dropout:
        return config
    new = copy.copy(config)
    object.__setattr__(new, "dropout", dropout)
    return new

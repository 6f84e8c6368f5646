"""What practice adds to training: batches of windows, optimisers, schedules.  How to read this source: components.py.

`how` holds the choices (`paper.Training`); `Training()` is the paper and needs nothing of this.  What an optimiser
remembers is omega: nothing at first, then one point of the space of theta, or two.  Lines that act on a theta act on
every number of it.
"""

# mypy: disable-error-code="var-annotated"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transformulary.oracle.algorithm import Position, algorithm
from transformulary.oracle.notation import appended, ceil, cos, iverson, pi, shuffled, sqrt, uniform
from transformulary.oracle.theta import Theta, embeddings, matrices, norm
from transformulary.paper.practice import Training

#: Sequences of token ids; batches may be of other things.
Sequences = Sequence[Any]


@algorithm("13a")
def AdaGrad(g: Theta, omega: Any, i: Position, /, how: Training) -> tuple[Theta, Theta]:
    """(g, omega) <- AdaGrad(g, omega): the gradient over the root of the sum of all squares so far."""
    omega = omega + g**2  # 1
    g = g / (sqrt(omega) + how.epsilon)  # 2
    return g, omega  # 3


@algorithm("13b")
def batches(x: Sequences, /, c: Any, how: Training, rng: Any) -> list[Any]:
    """D <- batches(x): what every update learns from, epoch after epoch; no batch reaches into the next epoch.

    x:  N_data token sequences, or whatever a batch is made of if it is not cut into windows

    Returns D, N_acc N_batch sequences for each of at least N_steps updates; the last batch of an epoch may be smaller.
    """
    D = []  # 1
    while len(D) < how.N_acc * how.N_steps:  # 2
        if how.chunks:
            w = chunks(x, c, how, rng)  # 3
        else:
            w = list(x)  # 3
        if how.shuffle:
            w = shuffled(w, rng)  # 4
        for n in range(ceil(len(w) / how.N_batch)):  # 5
            a = how.N_batch * n  # 6
            b = min(how.N_batch * (n + 1), len(w))  # 7
            D = appended(D, w[a:b])  # 8
    return D  # 11


@algorithm("13c")
def chunks(x: Sequences, /, c: Any, how: Training, rng: Any) -> list[Sequence[int]]:
    """w <- chunks(x): windows of at most ell_max + 1 tokens, in which every token but the first is a target once.

    x:  N_data token sequences; windows never reach from one into the next

    Returns w.  Where `how` shuffles, the first window of each sequence that needs several is cut short by a random
    number of tokens, so that epochs differ.
    """
    N_data = len(x)
    w = []  # 1
    for n in range(N_data):  # 2
        ell = len(x[n]) - 1  # 3
        if how.shuffle:
            delta = uniform(c.ell_max, rng) * iverson(ell > c.ell_max)  # 4
        else:
            delta = 0  # 4
        for t in range(ceil((ell + delta) / c.ell_max)):  # 5
            a = max(0, c.ell_max * t - delta)  # 6
            b = min(c.ell_max * (t + 1) - delta, ell) + 1  # 7
            w = appended(w, x[n][a:b])  # 8
    return w  # 11


@algorithm("13d")
def Adam(g: Theta, omega: Any, i: Position, /, how: Training) -> tuple[Theta, tuple[Theta, Theta]]:
    """(g, omega) <- Adam(g, omega, i): the mean of the gradient over the root of the mean of its square.

    Both means are exponential ones, divided by the sum of their weights so far.
    """
    m, v = omega  # 1
    m = how.beta_m * m + (1 - how.beta_m) * g  # 2
    v = how.beta_v * v + (1 - how.beta_v) * g**2  # 3
    g = m / (1 - how.beta_m ** (i + 1)) / (sqrt(v / (1 - how.beta_v ** (i + 1))) + how.epsilon)  # 4
    omega = (m, v)  # 5
    return g, omega  # 6


@algorithm("13e")
def learning_rate(i: Position, /, eta: float, how: Training, clock: Sequence[float]) -> float:
    """eta <- learning_rate(i | eta): the rate of step i, the lower of the way up to eta and the way down.

    After the last step of the way down it stays at its floor.

    clock:  the seconds of training before each step, where the rate follows the clock
    """
    if how.schedule != "constant":
        if how.N_total:
            a = max(0, (i + 1 - how.N_warmup) / (how.N_total + 1 - how.N_warmup))  # 1
        else:
            a = 0  # 1
        if how.T_total:
            a = max(a, clock[i] / how.T_total)  # 2
        a = how.eta_floor + (1 - how.eta_floor) * DESCENT[how.schedule](min(1, a))  # 3
    else:
        a = 1  # 3
    if how.N_warmup and how.T_total:
        a = min(a, max((i + 1) / how.N_warmup, 10 * clock[i] / how.T_total))  # 4
    elif how.N_warmup:
        a = min(a, (i + 1) / how.N_warmup)  # 4
    eta = eta * min(1, a)  # 5
    return eta


@algorithm("13m")
def momentum(g: Theta, omega: Any, i: Position, /, how: Training) -> tuple[Theta, Theta]:
    """(g, omega) <- momentum(g, omega): gradients add up and fade; Nesterov's looks one step ahead."""
    omega = how.beta_m * omega + g  # 1
    if how.nesterov:
        g = g + how.beta_m * omega  # 2
    else:
        g = omega  # 2
    return g, omega  # 3


@algorithm("13r")
def RMSProp(g: Theta, omega: Any, i: Position, /, how: Training) -> tuple[Theta, Theta]:
    """(g, omega) <- RMSProp(g, omega): the gradient over the root of the exponential mean of its square."""
    omega = how.beta_v * omega + (1 - how.beta_v) * g**2  # 1
    g = g / (sqrt(omega) + how.epsilon)  # 2
    return g, omega  # 3


@algorithm("13u")
def update(theta: Theta, omega: Any, g: Any, i: Position, /, eta: float, how: Training, clock: Sequence[float]) -> Any:
    """(theta, omega) <- update(theta, omega, g, i | eta): one step of the optimiser with the gradient g of the loss.

    Returns theta and omega; theta alone for plain gradient descent, which remembers nothing.
    """
    if how.g_max:
        g = g / max(1, norm(g) / how.g_max)  # 1
    if how.decay and not how.decoupled:
        g = g + how.decay * matrices(theta)  # 2
    if how.optimiser != "sgd":
        g, omega = OPTIMISER[how.optimiser](g, omega, i, how)  # 3
    if how.decay and how.decoupled:
        g = g + how.decay * matrices(theta)  # 4
    if how.eta_embedding != 1:
        g = g + (how.eta_embedding - 1) * embeddings(g)  # 5
    if how.schedule != "constant" or how.N_warmup:
        eta = learning_rate(i, eta, how, clock)  # 6
    theta = theta - eta * g  # 7
    return theta if how.optimiser == "sgd" else (theta, omega)  # 8


#: The closed tables of practice; their keys are those of `paper.PRACTICES`.
OPTIMISER: dict[str, Callable[..., Any]] = {
    "momentum": momentum, "rmsprop": RMSProp, "adagrad": AdaGrad, "adam": Adam, "adamw": Adam
}  # fmt: skip
#: What an optimiser remembers before the first step.
MEMORY: dict[str, Callable[[float], Any]] = {
    "momentum": lambda zero: zero,
    "rmsprop": lambda zero: zero,
    "adagrad": lambda zero: zero,
    "adam": lambda zero: (zero, zero),
    "adamw": lambda zero: (zero, zero),
}
#: Height of the rate above its floor, from 1 to 0, after a part a of the way down.
DESCENT: dict[str, Callable[[float], Any]] = {
    "cosine": lambda a: (1 + cos(pi * a)) / 2,
    "linear": lambda a: 1 - a,
}

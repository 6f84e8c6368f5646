"""Algorithms 11-15: training and inference.  How to read this source: see components.py.

Training is as printed: one sequence a step, in the given order, sums as losses, plain gradient descent
(E17); the gradient is exact to rounding by the complex step, one evaluation per parameter, so these are
for small models.  Chance comes from the generator that is handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from transformulary.oracle.algorithm import algorithm
from transformulary.oracle.notation import log, proportional, randomly, sample, sum
from transformulary.oracle.theta import Theta, gradient
from transformulary.oracle.transformers import DTransformer, EDTransformer, ETransformer
from transformulary.paper.config import DTransformerConfig, EDTransformerConfig, ETransformerConfig

Sequences = Sequence[Sequence[int]]


@algorithm(11)
def EDTraining(
    z: Sequences, x: Sequences, theta: Theta, c: EDTransformerConfig, *, N_epochs: int = 1, eta: float
) -> Theta:
    """theta^ <- EDTraining(z, x, theta): learn to continue x[n] given z[n].

    z, x:      N_data pairs of token sequences; x[n] begins with bos and ends with eos (E18)
    theta:     where to start; it is not changed
    N_epochs:  how often to go through the data
    eta:       learning rate

    Returns theta^.
    """
    N_data = len(x)
    for i in range(N_epochs):  # 1
        for n in range(N_data):  # 2
            ell = len(x[n])  # 3

            def loss(theta: Theta) -> Any:
                P = EDTransformer(z[n], x[n], theta, c)  # 4
                return -sum(log(P[x[n][t + 1], t]) for t in range(ell - 1))  # 5

            theta = theta - eta * gradient(loss, theta)  # 6
    theta_hat = theta  # 9
    return theta_hat


@algorithm(12)
def ETraining(
    x: Sequences,
    theta: Theta,
    c: ETransformerConfig,
    *,
    N_epochs: int = 1,
    eta: float,
    p_mask: float,
    mask_token: int,
    rng: np.random.Generator,
) -> Theta:
    """theta^ <- ETraining(x, theta): learn to fill in masked tokens.

    x:           N_data token sequences
    theta:       where to start; it is not changed
    N_epochs:    how often to go through the data
    eta:         learning rate
    p_mask:      probability with which a token is replaced by mask_token, every token alike (E16)
    mask_token:  its id, from 0

    Returns theta^.  One uniform number per token is drawn from rng.
    """
    N_data, x_tilde = len(x), [list(x_n) for x_n in x]
    for i in range(N_epochs):  # 1
        for n in range(N_data):  # 2
            ell = len(x[n])  # 3
            for t in range(ell):  # 4
                x_tilde[n][t] = randomly(mask_token, x[n][t], p_mask, rng)  # 5
            T_tilde = {t for t in range(ell) if x_tilde[n][t] == mask_token}  # 7

            def loss(theta: Theta) -> Any:
                P = ETransformer(x_tilde[n], theta, c)  # 8
                return -sum(log(P[x[n][t], t]) for t in T_tilde)  # 9

            theta = theta - eta * gradient(loss, theta)  # 10
    theta_hat = theta  # 13
    return theta_hat


@algorithm(13)
def DTraining(x: Sequences, theta: Theta, c: DTransformerConfig, *, N_epochs: int = 1, eta: float) -> Theta:
    """theta^ <- DTraining(x, theta): learn to predict the next token.

    x:         N_data token sequences, each beginning with bos (E18)
    theta:     where to start; it is not changed
    N_epochs:  how often to go through the data
    eta:       learning rate

    Returns theta^.
    """
    N_data = len(x)
    for i in range(N_epochs):  # 1
        for n in range(N_data):  # 2
            ell = len(x[n])  # 3

            def loss(theta: Theta) -> Any:
                P = DTransformer(x[n], theta, c)  # 4
                return -sum(log(P[x[n][t + 1], t]) for t in range(ell - 1))  # 5

            theta = theta - eta * gradient(loss, theta)  # 6
    theta_hat = theta  # 9
    return theta_hat


@algorithm(14)
def DInference(
    x: Sequence[int],
    theta_hat: Theta,
    c: DTransformerConfig,
    *,
    ell_gen: int,
    tau: float = 1.0,
    rng: np.random.Generator,
) -> list[int]:
    """y <- DInference(x, theta^): continue a prompt.

    x:        the prompt, at least one token (E11)
    ell_gen:  how many tokens to generate; at most ell_max + 1 - len(x) where positions are learned (E10)
    tau:      temperature; 0 takes the most probable token, infinity any (E15)

    Returns y, ell_gen tokens, whatever they are (E12).  One uniform number per token is drawn from rng.
    """
    ell = len(x)  # 1
    for i in range(ell_gen):  # 2
        P = DTransformer(x, theta_hat, c)  # 3
        p = P[:, ell + i - 1]  # 4
        y = sample(proportional(p, tau), rng)  # 5
        x = [*x, y]  # 6
    y = x[ell : ell + ell_gen]  # 8
    return y  # type: ignore[return-value]


@algorithm(15)
def EDInference(
    z: Sequence[int],
    theta_hat: Theta,
    c: EDTransformerConfig,
    *,
    bos_token: int,
    eos_token: int,
    tau: float = 1.0,
    ell_gen: int | None = None,
    rng: np.random.Generator,
) -> list[int]:
    """x^ <- EDInference(z, theta^): a sequence for the context z.

    z:                     the context
    bos_token, eos_token:  the ids that begin and end x^, from 0
    tau:                   temperature; 0 takes the most probable token, infinity any (E15)
    ell_gen:               stop after so many tokens even without eos (E14); the paper never does

    Returns x^, with bos and eos; a result that does not end with eos_token was cut at ell_gen.  Raises
    AlgorithmError where x^ outgrows ell_max, if positions are learned.
    """
    x_hat = [bos_token]  # 1
    y = None  # 2
    while y != eos_token:  # 3
        P = EDTransformer(z, x_hat, theta_hat, c)  # 4
        p = P[:, len(x_hat) - 1]  # 5
        y = sample(proportional(p, tau), rng)  # 6
        x_hat = [*x_hat, y]  # 7
        if ell_gen is not None:
            y = eos_token if len(x_hat) > ell_gen else y  # 7a
    return x_hat  # 9

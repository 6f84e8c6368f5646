"""Algorithms 11-15: training and inference.  How to read this source: see components.py.

By default training is as printed: one sequence a step, in the given order, sums as losses, plain gradient descent
(E17); `how` chooses what is practised instead (`paper.Training`, `paper.Inference`), in lines with letters.  The
gradient is exact to rounding by the complex step, one evaluation per parameter, so these are for small models.
Chance comes from the generator that is handed in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from transformulary.oracle.algorithm import algorithm
from transformulary.oracle.learning import MEMORY, Sequences, batches, update
from transformulary.oracle.notation import (
    chosen,
    corrupted,
    draws,
    dropped,
    joined,
    likeliest,
    log,
    nucleus,
    proportional,
    randomly,
    sample,
    sum,
    unwritten,
)
from transformulary.oracle.theta import Theta, gradient
from transformulary.oracle.transformers import DTransformer, EDTransformer, ETransformer
from transformulary.paper.config import DTransformerConfig, EDTransformerConfig, ETransformerConfig
from transformulary.paper.practice import Inference, Training

PAPER, AS_PRINTED = Training(), Inference()


@algorithm(11)
def EDTraining(
    z: Sequences,
    x: Sequences,
    theta: Theta,
    c: EDTransformerConfig,
    how: Training = PAPER,
    *,
    N_epochs: int = 1,
    eta: float,
    rng: Any = None,
    clock: Sequence[float] = (),
) -> Theta:
    """theta^ <- EDTraining(z, x, theta): learn to continue x[n] given z[n].

    z, x:      N_data pairs of token sequences; x[n] begins with bos and ends with eos (E18)
    theta:     where to start; it is not changed
    how:       what is practised; batches are of whole pairs
    N_epochs:  how often to go through the data, unless `how` has N_steps
    eta:       learning rate; the peak of it where it changes
    rng:       numbers for shuffling
    clock:     as for `learning_rate`

    Returns theta^.
    """
    N_data = len(x)
    if how.N_steps:
        D = batches(list(range(N_data)), c, how, rng)  # 0a
        if how.optimiser != "sgd":
            omega = MEMORY[how.optimiser](0)  # 0b
    for i in range(how.N_steps if how.N_steps else N_epochs):  # 1
        if how.N_steps:
            B = D[i] if how.N_acc == 1 else joined(D[how.N_acc * i : how.N_acc * (i + 1)])  # 1a
            g = 0  # 1b
        for n in B if how.N_steps else range(N_data):  # 2
            ell = len(x[n])  # 3

            def loss(theta: Theta) -> Any:
                P = EDTransformer(z[n], x[n], theta, c)  # 4
                if how.alpha:
                    return -sum(
                        (1 - how.alpha) * log(P[x[n][t + 1], t])
                        + how.alpha / c.N_V * sum(log(P[u, t]) for u in range(c.N_V))
                        for t in range(ell - 1)
                    )  # 5
                else:
                    return -sum(log(P[x[n][t + 1], t]) for t in range(ell - 1))  # 5

            if how.N_steps:
                g = g + gradient(loss, theta)  # 6
            else:
                theta = theta - eta * gradient(loss, theta)  # 6
        if how.loss == "tokens":
            g = g / sum(len(x[n]) - 1 for n in B)  # 7a
        elif how.loss == "sequences":
            g = g / len(B)  # 7a
        if how.N_steps:
            if how.optimiser == "sgd":
                theta = update(theta, (), g, i, eta, how, clock)  # 7b
            else:
                theta, omega = update(theta, omega, g, i, eta, how, clock)  # 7b
    theta_hat = theta  # 9
    return theta_hat


@algorithm(12)
def ETraining(
    x: Sequences,
    theta: Theta,
    c: ETransformerConfig,
    how: Training = PAPER,
    *,
    N_epochs: int = 1,
    eta: float,
    p_mask: float,
    mask_token: int,
    rng: Any,
    clock: Sequence[float] = (),
) -> Theta:
    """theta^ <- ETraining(x, theta): learn to fill in masked tokens.

    x:           N_data token sequences
    theta:       where to start; it is not changed
    how:         what is practised; BERT's masking learns from the tokens that were chosen, whatever became of them
    N_epochs:    how often to go through the data, unless `how` has N_steps
    eta:         learning rate; the peak of it where it changes
    p_mask:      probability with which a token is replaced by mask_token, every token alike (E16), or chosen
    mask_token:  its id, from 0
    clock:       as for `learning_rate`

    Returns theta^.  One uniform number per token is drawn from rng, beside those for shuffling.
    """
    N_data = len(x)
    x_tilde = unwritten(x)
    if how.N_steps:
        D = batches(x, c, how, rng)  # 0a
        if how.optimiser != "sgd":
            omega = MEMORY[how.optimiser](0)  # 0b
    for i in range(how.N_steps if how.N_steps else N_epochs):  # 1
        if how.N_steps:
            x = D[i] if how.N_acc == 1 else joined(D[how.N_acc * i : how.N_acc * (i + 1)])  # 1a
            g = 0  # 1b
            if how.loss == "tokens":
                N_tokens = 0  # 1c
            x_tilde = unwritten(x)
        for n in range(len(x) if how.N_steps else N_data):  # 2
            ell = len(x[n])  # 3
            if how.masking == "bert":
                T_tilde = chosen(x[n], p_mask, how.special, rng)  # 3a
                x_tilde[n] = list(x[n])  # 3b
                for t in T_tilde:  # 4
                    x_tilde[n][t] = corrupted(x[n][t], mask_token, c.N_V, rng)  # 5
            else:
                for t in range(ell):  # 4
                    x_tilde[n][t] = randomly(mask_token, x[n][t], p_mask, rng)  # 5
                T_tilde = {t for t in range(ell) if x_tilde[n][t] == mask_token}  # 7

            def loss(theta: Theta) -> Any:
                P = ETransformer(x_tilde[n], theta, c)  # 8
                return -sum(log(P[x[n][t], t]) for t in T_tilde)  # 9

            if how.N_steps:
                g = g + gradient(loss, theta)  # 10
                if how.loss == "tokens":
                    N_tokens = N_tokens + len(T_tilde)  # 10a
            else:
                theta = theta - eta * gradient(loss, theta)  # 10
        if how.loss == "tokens":
            g = g / max(1, N_tokens)  # 11a
        elif how.loss == "sequences":
            g = g / len(x)  # 11a
        if how.N_steps:
            if how.optimiser == "sgd":
                theta = update(theta, (), g, i, eta, how, clock)  # 11b
            else:
                theta, omega = update(theta, omega, g, i, eta, how, clock)  # 11b
    theta_hat = theta  # 13
    return theta_hat


@algorithm(13)
def DTraining(
    x: Sequences,
    theta: Theta,
    c: DTransformerConfig,
    how: Training = PAPER,
    *,
    N_epochs: int = 1,
    eta: float,
    rng: Any = None,
    clock: Sequence[float] = (),
) -> Theta:
    """theta^ <- DTraining(x, theta): learn to predict the next token.

    x:         N_data token sequences, each beginning with bos (E18)
    theta:     where to start; it is not changed
    how:       what is practised; of windows with ell_max + 1 tokens the model reads all but the last, whose column of
               P has no target (E19)
    N_epochs:  how often to go through the data, unless `how` has N_steps
    eta:       learning rate; the peak of it where it changes
    rng:       numbers for shuffling and dropout
    clock:     as for `learning_rate`

    Returns theta^.
    """
    N_data = len(x)
    if how.N_steps:
        D = batches(x, c, how, rng)  # 0a
        if how.optimiser != "sgd":
            omega = MEMORY[how.optimiser](0)  # 0b
    for i in range(how.N_steps if how.N_steps else N_epochs):  # 1
        if how.N_steps:
            x = D[i] if how.N_acc == 1 else joined(D[how.N_acc * i : how.N_acc * (i + 1)])  # 1a
            g = 0  # 1b
        for n in range(len(x) if how.N_steps else N_data):  # 2
            ell = len(x[n])  # 3
            R = draws(how.p_drop, rng)

            def loss(theta: Theta) -> Any:
                P = DTransformer(x[n][: ell - 1] if how.chunks else x[n], theta, dropped(c, R))  # 4
                if how.alpha:
                    return -sum(
                        (1 - how.alpha) * log(P[x[n][t + 1], t])
                        + how.alpha / c.N_V * sum(log(P[u, t]) for u in range(c.N_V))
                        for t in range(ell - 1)
                    )  # 5
                else:
                    return -sum(log(P[x[n][t + 1], t]) for t in range(ell - 1))  # 5

            if how.N_steps:
                g = g + gradient(loss, theta)  # 6
            else:
                theta = theta - eta * gradient(loss, theta)  # 6
        if how.loss == "tokens":
            g = g / sum(len(x[n]) - 1 for n in range(len(x)))  # 7a
        elif how.loss == "sequences":
            g = g / len(x)  # 7a
        if how.N_steps:
            if how.optimiser == "sgd":
                theta = update(theta, (), g, i, eta, how, clock)  # 7b
            else:
                theta, omega = update(theta, omega, g, i, eta, how, clock)  # 7b
    theta_hat = theta  # 9
    return theta_hat


@algorithm(14)
def DInference(
    x: Sequence[int],
    theta_hat: Theta,
    c: DTransformerConfig,
    how: Inference = AS_PRINTED,
    *,
    ell_gen: int,
    tau: float = 1.0,
    rng: np.random.Generator,
) -> list[int]:
    """y <- DInference(x, theta^): continue a prompt.

    x:        the prompt, at least one token (E11)
    how:      what is practised: filters after the temperature, an end before ell_gen tokens
    ell_gen:  how many tokens to generate; at most ell_max + 1 - len(x) where positions are learned (E10)
    tau:      temperature; 0 takes the most probable token, infinity any (E15)

    Returns y, ell_gen tokens, whatever they are (E12), unless `how` ends it before.  One uniform number per token is
    drawn from rng.
    """
    ell = len(x)  # 1
    for i in range(min(ell_gen, c.ell_max + 1 - ell) if how.limit else ell_gen):  # 2
        P = DTransformer(x, theta_hat, c)  # 3
        p = P[:, ell + i - 1]  # 4
        if how.top_k or how.top_p < 1:
            p = proportional(p, tau)  # 4a
        if how.top_k:
            p = likeliest(p, how.top_k)  # 4b
        if how.top_p < 1:
            p = nucleus(p, how.top_p)  # 4c
        if how.top_k or how.top_p < 1:
            y = sample(p, rng)  # 5
        else:
            y = sample(proportional(p, tau), rng)  # 5
        x = [*x, y]  # 6
        if how.stop:
            if y in how.stop:
                return x[ell : ell + i + 1]  # 6a
    y = x[ell : len(x)] if how.limit else x[ell : ell + ell_gen]  # 8
    return y  # type: ignore[return-value]


@algorithm(15)
def EDInference(
    z: Sequence[int],
    theta_hat: Theta,
    c: EDTransformerConfig,
    how: Inference = AS_PRINTED,
    *,
    bos_token: int,
    eos_token: int,
    tau: float = 1.0,
    ell_gen: int | None = None,
    rng: np.random.Generator,
) -> list[int]:
    """x^ <- EDInference(z, theta^): a sequence for the context z.

    z:                     the context
    how:                   what is practised: filters after the temperature
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
        if how.top_k or how.top_p < 1:
            p = proportional(p, tau)  # 5a
        if how.top_k:
            p = likeliest(p, how.top_k)  # 5b
        if how.top_p < 1:
            p = nucleus(p, how.top_p)  # 5c
        if how.top_k or how.top_p < 1:
            y = sample(p, rng)  # 6
        else:
            y = sample(proportional(p, tau), rng)  # 6
        x_hat = [*x_hat, y]  # 7
        if ell_gen is not None:
            y = eos_token if len(x_hat) > ell_gen else y  # 7a
    return x_hat  # 9

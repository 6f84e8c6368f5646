"""Algorithms 8-10: encoder-decoder (the original Transformer), encoder-only (BERT), decoder-only (GPT).

How to read this source: see components.py.  The masks of Algorithm 10 come from the config, one for
every layer in turn; the paper's is [[t <= t']].
"""

from __future__ import annotations

from collections.abc import Sequence

from transformulary.oracle.algorithm import Array, algorithm
from transformulary.oracle.components import ACTIVATION, NORM, POSITION, SCALE, MHAttention
from transformulary.oracle.notation import columns, drop, softmax, tanh
from transformulary.oracle.theta import Theta, sharing
from transformulary.paper.config import (
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
)
from transformulary.paper.masks import Causal, Full


@algorithm(8)
def EDTransformer(z: Sequence[int], x: Sequence[int], /, theta: Theta, c: EDTransformerConfig) -> Array:
    """P <- EDTransformer(z, x | theta): the distribution of every next token of x, given z.

    z, x:   token ids, from 0; at most ell_max each if positions are learned
    theta:  the parameters of `paper.parameters(c)`

    Returns P (N_V, ell_x); column t is the distribution of x[t + 1] given x[1 : t] and z.  Raises
    AlgorithmError for ids outside the vocabulary, an empty or too long sequence.
    """
    # encode the context sequence
    ell_z = len(z)  # 1
    W_e = theta.W_e_z if "W_e" in c.separate else theta.W_e
    W_p = theta.W_p_z if "W_p" in c.separate else theta.W_p
    e = [SCALE[c.embedding_scale](c.d_e) * W_e[:, z[t]] + POSITION[c.positions](t, W_p, c) for t in range(ell_z)]  # 2
    Z = columns(e)  # 3
    if c.embedding_norm:
        Z = columns(NORM[c.norm](Z[:, t], theta.gamma_z, theta.beta_z, c) for t in range(ell_z))  # 3a
    for l in range(c.L_enc):  # 4
        Z = Z + MHAttention(Z, Z, theta.W_enc[l], Full(), c)  # 5
        Z = columns(NORM[c.norm](Z[:, t], theta.gamma_1[l], theta.beta_1[l], c) for t in range(ell_z))  # 6
        if c.mlp == "gated":
            Z = (
                Z
                + theta.W_mlp2[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp1[l] @ Z + theta.b_mlp1[l][:, None])
                    * (theta.W_mlp5[l] @ Z + theta.b_mlp5[l][:, None])
                )
                + theta.b_mlp2[l][:, None]
            )  # 7
        else:
            Z = (
                Z
                + theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ Z + theta.b_mlp1[l][:, None])
                + theta.b_mlp2[l][:, None]
            )  # 7
        Z = columns(NORM[c.norm](Z[:, t], theta.gamma_2[l], theta.beta_2[l], c) for t in range(ell_z))  # 8
    # decode the primary sequence given the context
    ell_x = len(x)  # 10
    e = [
        SCALE[c.embedding_scale](c.d_e) * theta.W_e[:, x[t]] + POSITION[c.positions](t, theta.W_p, c)
        for t in range(ell_x)
    ]  # 11
    X = columns(e)  # 12
    if c.embedding_norm:
        X = columns(NORM[c.norm](X[:, t], theta.gamma_x, theta.beta_x, c) for t in range(ell_x))  # 12a
    for l in range(c.L_dec):  # 13
        X = X + MHAttention(X, X, theta.W_dec[l], Causal(), c)  # 14
        X = columns(NORM[c.norm](X[:, t], theta.gamma_3[l], theta.beta_3[l], c) for t in range(ell_x))  # 15
        X = X + MHAttention(X, Z, theta.W_ed[l], Full(), c)  # 16
        X = columns(NORM[c.norm](X[:, t], theta.gamma_4[l], theta.beta_4[l], c) for t in range(ell_x))  # 17
        if c.mlp == "gated":
            X = (
                X
                + theta.W_mlp4[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp3[l] @ X + theta.b_mlp3[l][:, None])
                    * (theta.W_mlp6[l] @ X + theta.b_mlp6[l][:, None])
                )
                + theta.b_mlp4[l][:, None]
            )  # 18
        else:
            X = (
                X
                + theta.W_mlp4[l] @ ACTIVATION[c.activation](theta.W_mlp3[l] @ X + theta.b_mlp3[l][:, None])
                + theta.b_mlp4[l][:, None]
            )  # 18
        X = columns(NORM[c.norm](X[:, t], theta.gamma_5[l], theta.beta_5[l], c) for t in range(ell_x))  # 19
    # conditional probabilities
    W_u = theta.W_e.T if c.tied else theta.W_u
    P = softmax(W_u @ X + theta.b_u[:, None])  # 21
    return P


@algorithm("8a")
def PreEDTransformer(z: Sequence[int], x: Sequence[int], /, theta: Theta, c: PreEDTransformerConfig) -> Array:
    """P <- PreEDTransformer(z, x | theta): Algorithm 8 with norms where Algorithm 10 has them (T5).

    z, x:   token ids, from 0; at most ell_max each if positions are learned
    theta:  the parameters of `paper.parameters(c)`; bucketed positions are the same in all layers of a stack

    Returns P (N_V, ell_x) as Algorithm 8 does, and raises what it raises.
    """
    # encode the context sequence
    ell_z = len(z)  # 1
    W_e = theta.W_e_z if "W_e" in c.separate else theta.W_e
    W_p = theta.W_p_z if "W_p" in c.separate else theta.W_p
    e = [SCALE[c.embedding_scale](c.d_e) * W_e[:, z[t]] + POSITION[c.positions](t, W_p, c) for t in range(ell_z)]  # 2
    Z = columns(e)  # 3
    if c.embedding_norm:
        Z = columns(NORM[c.norm](Z[:, t], theta.gamma_z, theta.beta_z, c) for t in range(ell_z))  # 3a
    for l in range(c.L_enc):  # 4
        W = sharing(theta.W_enc[l], theta.B_enc) if c.positions == "bucketed" else theta.W_enc[l]
        Z_tilde = columns(NORM[c.norm](Z[:, t], theta.gamma_1[l], theta.beta_1[l], c) for t in range(ell_z))  # 5
        Z = Z + MHAttention(Z_tilde, Z_tilde, W, Full(), c)  # 6
        Z_tilde = columns(NORM[c.norm](Z[:, t], theta.gamma_2[l], theta.beta_2[l], c) for t in range(ell_z))  # 7
        if c.mlp == "gated":
            Z = (
                Z
                + theta.W_mlp2[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp1[l] @ Z_tilde + theta.b_mlp1[l][:, None])
                    * (theta.W_mlp5[l] @ Z_tilde + theta.b_mlp5[l][:, None])
                )
                + theta.b_mlp2[l][:, None]
            )  # 8
        else:
            Z = (
                Z
                + theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ Z_tilde + theta.b_mlp1[l][:, None])
                + theta.b_mlp2[l][:, None]
            )  # 8
    Z = columns(NORM[c.norm](Z[:, t], theta.gamma_enc, theta.beta_enc, c) for t in range(ell_z))  # 10
    # decode the primary sequence given the context
    ell_x = len(x)  # 11
    e = [
        SCALE[c.embedding_scale](c.d_e) * theta.W_e[:, x[t]] + POSITION[c.positions](t, theta.W_p, c)
        for t in range(ell_x)
    ]  # 12
    X = columns(e)  # 13
    if c.embedding_norm:
        X = columns(NORM[c.norm](X[:, t], theta.gamma_x, theta.beta_x, c) for t in range(ell_x))  # 13a
    for l in range(c.L_dec):  # 14
        W = sharing(theta.W_dec[l], theta.B_dec) if c.positions == "bucketed" else theta.W_dec[l]
        X_tilde = columns(NORM[c.norm](X[:, t], theta.gamma_3[l], theta.beta_3[l], c) for t in range(ell_x))  # 15
        X = X + MHAttention(X_tilde, X_tilde, W, Causal(), c)  # 16
        X_tilde = columns(NORM[c.norm](X[:, t], theta.gamma_4[l], theta.beta_4[l], c) for t in range(ell_x))  # 17
        X = X + MHAttention(X_tilde, Z, theta.W_ed[l], Full(), c)  # 18
        X_tilde = columns(NORM[c.norm](X[:, t], theta.gamma_5[l], theta.beta_5[l], c) for t in range(ell_x))  # 19
        if c.mlp == "gated":
            X = (
                X
                + theta.W_mlp4[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None])
                    * (theta.W_mlp6[l] @ X_tilde + theta.b_mlp6[l][:, None])
                )
                + theta.b_mlp4[l][:, None]
            )  # 20
        else:
            X = (
                X
                + theta.W_mlp4[l] @ ACTIVATION[c.activation](theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None])
                + theta.b_mlp4[l][:, None]
            )  # 20
    X = columns(NORM[c.norm](X[:, t], theta.gamma_dec, theta.beta_dec, c) for t in range(ell_x))  # 22
    # conditional probabilities
    W_u = theta.W_e.T if c.tied else theta.W_u
    P = softmax(W_u @ X / SCALE[c.unembedding_scale](c.d_e) + theta.b_u[:, None])  # 23
    return P


@algorithm(9)
def ETransformer(x: Sequence[int], /, theta: Theta, c: ETransformerConfig, s: Sequence[int] = ()) -> Array:
    """P <- ETransformer(x | theta): a distribution over the vocabulary for every position of x.

    x:      token ids, from 0; at most ell_max if positions are learned
    theta:  the parameters of `paper.parameters(c)`
    s:      the segment of every token, from 0 (only where c.segments is not 0)

    Returns P (N_V, ell).  Raises AlgorithmError as Algorithm 8 does, and for missing segments.
    """
    ell = len(x)  # 1
    e = [
        SCALE[c.embedding_scale](c.d_e) * theta.W_e[:, x[t]] + POSITION[c.positions](t, theta.W_p, c)
        for t in range(ell)
    ]  # 2
    if c.segments:
        e = [e[t] + theta.W_s[:, s[t]] for t in range(ell)]  # 2a
    X = columns(e)  # 3
    if c.embedding_norm:
        X = columns(NORM[c.norm](X[:, t], theta.gamma_x, theta.beta_x, c) for t in range(ell))  # 3a
    for l in range(c.L):  # 4
        X = X + MHAttention(X, X, theta.W[l], Full(), c)  # 5
        X = columns(NORM[c.norm](X[:, t], theta.gamma_1[l], theta.beta_1[l], c) for t in range(ell))  # 6
        if c.mlp == "gated":
            X = (
                X
                + theta.W_mlp2[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp1[l] @ X + theta.b_mlp1[l][:, None])
                    * (theta.W_mlp3[l] @ X + theta.b_mlp3[l][:, None])
                )
                + theta.b_mlp2[l][:, None]
            )  # 7
        else:
            X = (
                X
                + theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X + theta.b_mlp1[l][:, None])
                + theta.b_mlp2[l][:, None]
            )  # 7
        X = columns(NORM[c.norm](X[:, t], theta.gamma_2[l], theta.beta_2[l], c) for t in range(ell))  # 8
    X = ACTIVATION[c.activation](theta.W_f @ X + theta.b_f[:, None])  # 10
    X = columns(NORM[c.norm](X[:, t], theta.gamma, theta.beta, c) for t in range(ell))  # 11
    W_u = theta.W_e.T if c.tied else theta.W_u
    P = softmax(W_u @ X + theta.b_u[:, None])  # 12
    return P


@algorithm("9c")
def classification(X: Array, /, W_pool: Array, b_pool: Array, W_c: Array, b_c: Array) -> Array:
    """p_C <- classification(X | W_pool, b_pool, W_c, b_c): a distribution over classes, from the first token (BERT).

    X:               (d_e, ell)  what Algorithm 9 has after line 9
    W_pool, b_pool:  (d_e, d_e), (d_e)
    W_c, b_c:        (N_C, d_e), (N_C)

    Returns p_C (N_C).  The paper describes classification and has no algorithm for it (E20).
    """
    e = tanh(W_pool @ X[:, 0] + b_pool)  # 1
    p_C = softmax(W_c @ e + b_c)  # 2
    return p_C


@algorithm(10)
def DTransformer(x: Sequence[int], /, theta: Theta, c: DTransformerConfig) -> Array:
    """P <- DTransformer(x | theta): the distribution of every next token.

    x:      token ids, from 0; at most ell_max if positions are learned
    theta:  the parameters of `paper.parameters(c)`

    Returns P (N_V, ell); column t is the distribution of x[t + 1] given x[1 : t].  Raises AlgorithmError
    for ids outside the vocabulary, an empty or too long sequence.
    """
    ell = len(x)  # 1
    e = [
        SCALE[c.embedding_scale](c.d_e) * theta.W_e[:, x[t]] + POSITION[c.positions](t, theta.W_p, c)
        for t in range(ell)
    ]  # 2
    X = columns(e)  # 3
    if c.embedding_norm:
        X = columns(NORM[c.norm](X[:, t], theta.gamma_x, theta.beta_x, c) for t in range(ell))  # 3a
    if c.dropout:
        X = drop(X, c)  # 3b
    for l in range(c.L):  # 4
        X_tilde = columns(NORM[c.norm](X[:, t], theta.gamma_1[l], theta.beta_1[l], c) for t in range(ell))  # 5
        X = X + MHAttention(X_tilde, X_tilde, theta.W[l], c.mask[l % len(c.mask)], c)  # 6
        X_tilde = columns(NORM[c.norm](X[:, t], theta.gamma_2[l], theta.beta_2[l], c) for t in range(ell))  # 7
        if c.mlp == "gated" and c.dropout:
            X = X + drop(
                theta.W_mlp2[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None])
                    * (theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None])
                )
                + theta.b_mlp2[l][:, None],
                c,
            )  # 8
        elif c.mlp == "gated":
            X = (
                X
                + theta.W_mlp2[l]
                @ (
                    ACTIVATION[c.activation](theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None])
                    * (theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None])
                )
                + theta.b_mlp2[l][:, None]
            )  # 8
        elif c.dropout:
            X = X + drop(
                theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None])
                + theta.b_mlp2[l][:, None],
                c,
            )  # 8
        else:
            X = (
                X
                + theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None])
                + theta.b_mlp2[l][:, None]
            )  # 8
    X = columns(NORM[c.norm](X[:, t], theta.gamma, theta.beta, c) for t in range(ell))  # 10
    W_u = theta.W_e.T if c.tied else theta.W_u
    P = softmax(W_u @ X + theta.b_u[:, None])  # 11
    return P

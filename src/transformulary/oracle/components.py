"""Algorithms 1-7 of arXiv:2207.09238: embeddings, attention, layer norm, unembedding.

This text is the program AND the pseudocode: `transformulary show` renders these statements.  One
statement is one line of the paper, whose number is the trailing comment; a letter (`# 3a`, Algorithm
`4r`) marks what a published model adds.  A statement without a number names a size, makes an index
grid or returns, and is not printed.

Columns are tokens.  Indices count from 0 here and from 1 in print, where the renderer moves the origin.
`/` in a signature is the paper's bar: inputs / parameters.  A parameter that a model lacks is a declared
0 (`theta.Zero`).  `c` holds the choices of the model; `Choices()`, the default, is the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from transformulary.oracle.algorithm import Array, Position, Token, algorithm
from transformulary.oracle.notation import (
    GELU,
    GELU_tanh,
    ReLU,
    SiLU,
    bucket,
    ceil,
    columns,
    cos,
    drop,
    exp,
    floor,
    indices,
    inf,
    interleaved,
    log,
    matrix,
    pi,
    ramp,
    rows,
    sin,
    softmax,
    sqrt,
    stacked,
    sum,
    where,
)
from transformulary.oracle.theta import Theta, W_qkv
from transformulary.paper.choices import Choices

PAPER = Choices()
Rule = Callable[[Any, Any], Any]


@algorithm(1)
def token_embedding(v: Token, /, W_e: Array) -> Array:
    """e <- W_e[:, v]: the vector of one token.

    v:    a token id, from 0 to N_V - 1
    W_e:  (d_e, N_V)

    Returns e (d_e).  Raises AlgorithmError if v is no token of the vocabulary.
    """
    e = W_e[:, v]  # 1
    return e


@algorithm(2)
def positional_embedding(ell: Position, /, W_p: Array) -> Array:
    """e_p <- W_p[:, ell]: the vector of one position.

    ell:  a position, from 0 to ell_max - 1
    W_p:  (d_e, ell_max)

    Returns e_p (d_e).  Raises AlgorithmError if the table has no such position.
    """
    e_p = W_p[:, ell]  # 1
    return e_p


@algorithm("2s")
def sinusoid(ell: Position, /, c: Any) -> Array:
    """The positional embedding as the paper prints it: base ell_max, i and t from 1 (erratum E1)."""
    a = [sin((ell + 1) / c.ell_max ** (2 * (i + 1) / c.d_e)) for i in range(c.d_e // 2)]  # 1
    b = [cos((ell + 1) / c.ell_max ** (2 * (i + 1) / c.d_e)) for i in range(c.d_e // 2)]  # 2
    e_p = interleaved(a, b)  # 3
    return e_p


@algorithm("2v")
def sinusoid_vaswani(ell: Position, /, c: Any) -> Array:
    """The original Transformer's: base 10000, i and t from 0.  For odd d_e the last cosine is left out."""
    a = [sin(ell / 10000 ** (2 * i / c.d_e)) for i in range((c.d_e + 1) // 2)]  # 1
    b = [cos(ell / 10000 ** (2 * i / c.d_e)) for i in range((c.d_e + 1) // 2)]  # 2
    e_p = interleaved(a, b)[: c.d_e]  # 3
    return e_p


@algorithm("2h")
def sinusoid_halves(ell: Position, /, c: Any) -> Array:
    """Marian's: the original Transformer's frequencies, all sines before all cosines."""
    a = [sin(ell / 10000 ** (2 * i / c.d_e)) for i in range(c.d_e // 2)]  # 1
    b = [cos(ell / 10000 ** (2 * i / c.d_e)) for i in range(c.d_e // 2)]  # 2
    e_p = stacked(a, b)  # 3
    return e_p


@algorithm("2t")
def sinusoid_t2t(ell: Position, /, c: Any) -> Array:
    """Tensor2Tensor's: halves, with wavelengths up to 10000 itself; d_e of at least 4."""
    a = [sin(ell / 10000 ** (i / (c.d_e / 2 - 1))) for i in range(c.d_e // 2)]  # 1
    b = [cos(ell / 10000 ** (i / (c.d_e / 2 - 1))) for i in range(c.d_e // 2)]  # 2
    e_p = stacked(a, b)  # 3
    return e_p


@algorithm(3)
def single_query_attention(e: Array, e_: Sequence[Array], /, W_qkv: Theta) -> Array:
    """v~: one token looks things up in T tokens of context.

    e:    (d_in)              the current token
    e_:   T vectors (d_in)    the context
    W_qkv:  W_q, W_k (d_attn, d_in), W_v (d_out, d_in), b_q, b_k (d_attn), b_v (d_out)

    Returns v~ (d_out).  Raises AlgorithmError for an empty context.
    """
    T, d_attn = len(e_), len(W_qkv.W_q)
    q = W_qkv.W_q @ e + W_qkv.b_q  # 1
    k = [W_qkv.W_k @ e_[t] + W_qkv.b_k for t in range(T)]  # 2
    v = [W_qkv.W_v @ e_[t] + W_qkv.b_v for t in range(T)]  # 3
    alpha = [
        exp(q.T @ k[t] / sqrt(d_attn)) / sum(exp(q.T @ k[u] / sqrt(d_attn)) for u in range(T)) for t in range(T)
    ]  # 4
    v_tilde = sum(alpha[t] * v[t] for t in range(T))  # 5
    return v_tilde


@algorithm(4)
def Attention(X: Array, Z: Array, /, W_qkv: Theta, Mask: Rule, c: Any = PAPER) -> Array:
    """V~ <- Attention(X, Z | W_qkv, Mask): every token of X looks things up in Z.

    X:      (d_x, ell_x)  the tokens that ask
    Z:      (d_z, ell_z)  the tokens that are asked; Z = X is self-attention
    W_qkv:  W_q (d_attn, d_x), W_k (d_attn, d_z), W_v (d_out, d_z), b_q, b_k (d_attn), b_v (d_out);
            norms of queries and keys add gamma_q, beta_q, gamma_k, beta_k (d_attn),
            relative positions W_r (d_attn, d_e), u, v (d_attn), bucketed ones B (32)
    Mask:   Mask(t_z, t_x) is true where token t_x may attend to token t_z

    Returns V~ (d_out, ell_x).  Raises AlgorithmError where a token may attend to nothing (E9), and for a
    mask that is not boolean.
    """
    ell_x, ell_z, d_attn = X.shape[1], Z.shape[1], len(W_qkv.W_q)
    Q = W_qkv.W_q @ X + W_qkv.b_q[:, None]  # 1
    if c.qk_norm:
        Q = columns(NORM[c.norm](Q[:, t], W_qkv.gamma_q, W_qkv.beta_q, c) for t in range(ell_x))  # 1a
    K = W_qkv.W_k @ Z + W_qkv.b_k[:, None]  # 2
    if c.qk_norm:
        K = columns(NORM[c.norm](K[:, t], W_qkv.gamma_k, W_qkv.beta_k, c) for t in range(ell_z))  # 2a
    V = W_qkv.W_v @ Z + W_qkv.b_v[:, None]  # 3
    if c.positions == "rotary":
        Q = columns(rotate(Q[:, t], t, ell_z, c) for t in range(ell_x))  # 3a
        K = columns(rotate(K[:, t], t, ell_z, c) for t in range(ell_z))  # 3b
    if c.positions == "relative":
        S = matrix(
            [
                (Q[:, t_x] + W_qkv.u).T @ K[:, t_z] + (Q[:, t_x] + W_qkv.v).T @ W_qkv.W_r @ offset(t_x - t_z, c)
                for t_x in range(ell_x)
            ]
            for t_z in range(ell_z)
        )  # 4
    elif c.positions == "bucketed":
        S = matrix(
            [K[:, t_z].T @ Q[:, t_x] + W_qkv.B[bucket(t_z - t_x, Mask)] for t_x in range(ell_x)] for t_z in range(ell_z)
        )  # 4
    else:
        S = K.T @ Q  # 4
    t_z, t_x = indices(S)
    S = where(Mask(t_z, t_x), S, -inf)  # 5
    if c.dropout:
        V_tilde = V @ drop(softmax(S / SCALE[c.scale](d_attn)), c)  # 6
    else:
        V_tilde = V @ softmax(S / SCALE[c.scale](d_attn))  # 6
    return V_tilde


@algorithm("4r")
def rotate(q: Array, ell: Position, T: int, /, c: Any) -> Array:
    """q^ <- rotate(q, ell): rotary positions, halves paired (Llama as published by Hugging Face).

    Lines 1a to 1d slow frequencies down for sequences longer than the ell_train tokens of training: dynamic ones
    depend on the length of the sequence, so that every key turns anew when a token is added; `ramp` says how far
    yarn (by the number of a pair) and llama3 (by its turns within ell_train tokens) slow down or keep a frequency.

    q:    (d_attn)  a query or a key, d_attn even
    ell:  its position
    T:    the length of the sequence, in tokens
    """
    d_attn = len(q)
    omega = [c.base ** (-2 * i / d_attn) for i in range(d_attn // 2)]  # 1
    if c.frequencies == "linear":
        omega = [omega[i] / c.factor for i in range(d_attn // 2)]  # 1a
    elif c.frequencies == "dynamic":
        g = c.factor * max(T, c.ell_train) / c.ell_train - (c.factor - 1)  # 1a
        omega = [omega[i] * g ** (-2 * i / (d_attn - 2)) for i in range(d_attn // 2)]  # 1b
    elif c.frequencies == "yarn":
        i_fast = max(floor(d_attn * log(c.ell_train / (2 * pi * c.beta_fast)) / (2 * log(c.base))), 0)  # 1a
        i_slow = min(ceil(d_attn * log(c.ell_train / (2 * pi * c.beta_slow)) / (2 * log(c.base))), d_attn - 1)  # 1b
        r = [ramp(i, i_fast, i_slow) for i in range(d_attn // 2)]  # 1c
        omega = [(1 - r[i]) * omega[i] + r[i] * omega[i] / c.factor for i in range(d_attn // 2)]  # 1d
    elif c.frequencies == "llama3":
        r = [ramp(c.ell_train * omega[i] / (2 * pi), c.beta_slow, c.beta_fast) for i in range(d_attn // 2)]  # 1a
        omega = [r[i] * omega[i] + (1 - r[i]) * omega[i] / c.factor for i in range(d_attn // 2)]  # 1b
    a = [
        c.attention_factor * (q[i] * cos(omega[i] * ell) - q[i + d_attn // 2] * sin(omega[i] * ell))
        for i in range(d_attn // 2)
    ]  # 2
    b = [
        c.attention_factor * (q[i + d_attn // 2] * cos(omega[i] * ell) + q[i] * sin(omega[i] * ell))
        for i in range(d_attn // 2)
    ]  # 3
    q_hat = stacked(a, b)  # 4
    return q_hat


@algorithm("4d")
def offset(delta: int, /, c: Any) -> Array:
    """r <- offset(delta): the sinusoids of a distance (Transformer-XL), sines before cosines.

    delta:  t_x - t_z, how many tokens back; negative ones are masked out

    Returns r (d_e).
    """
    omega = [10000 ** (-2 * i / c.d_e) for i in range(c.d_e // 2)]  # 1
    a = [sin(delta * omega[i]) for i in range(c.d_e // 2)]  # 2
    b = [cos(delta * omega[i]) for i in range(c.d_e // 2)]  # 3
    r = stacked(a, b)  # 4
    return r


@algorithm(5)
def MHAttention(X: Array, Z: Array, /, W: Theta, Mask: Rule, c: Any = PAPER) -> Array:
    """V~ <- MHAttention(X, Z | W, Mask): H attentions side by side, and one projection of them all.

    X:     (d_x, ell_x)  the tokens that ask; MHAttention(X | W, Mask) means Z = X (E4)
    Z:     (d_z, ell_z)  the tokens that are asked
    W:     equation (4): lists W_q[H], b_q[H], W_k[H_kv], b_k, W_v, b_v; W_o (d_out, H d_mid), b_o (d_out)
    Mask:  as in Algorithm 4

    Returns V~ (d_out, ell_x).  The paper has H_kv = H; with fewer, groups of H / H_kv query heads share one.
    """
    H, H_kv = len(W.W_q), len(W.W_k)
    Y = [  # 1
        Attention(X, Z, W_qkv(W, h, h // (H // H_kv)), Mask, c)  # 2
        for h in range(H)
    ]
    Y = rows(Y)  # 3
    if c.dropout:
        V_tilde = drop(W.W_o @ Y + W.b_o[:, None], c)  # 4
    else:
        V_tilde = W.W_o @ Y + W.b_o[:, None]  # 4
    return V_tilde


@algorithm(6)
def layer_norm(e: Array, /, gamma: Array, beta: Array, c: Any = PAPER) -> Array:
    """e^ <- layer_norm(e | gamma, beta): mean 0 and variance 1, then scale and offset.

    e, gamma, beta:  (d_e)

    Returns e^ (d_e).  The variance divides by d_e.  Raises AlgorithmError if all numbers of e are equal
    and eps is 0, as in the paper (E7).
    """
    d_e = len(e)
    m = sum(e[i] / d_e for i in range(d_e))  # 1
    v = sum((e[i] - m) ** 2 / d_e for i in range(d_e))  # 2
    e_hat = (e - m) / sqrt(v + c.eps) * gamma + beta  # 3
    return e_hat


@algorithm("6r")
def RMSnorm(e: Array, /, gamma: Array, beta: Array, c: Any = PAPER) -> Array:
    """e^ <- RMSnorm(e | gamma): Algorithm 6 with m = 0 and beta = 0; so it has no line 1."""
    d_e = len(e)
    v = sum(e[i] ** 2 / d_e for i in range(d_e))  # 2
    e_hat = e / sqrt(v + c.eps) * gamma + beta  # 3
    return e_hat


@algorithm(7)
def unembedding(e: Array, /, W_u: Array) -> Array:
    """p <- softmax(W_u e): the distribution over the vocabulary that a vector stands for.

    e:    (d_e)
    W_u:  (N_V, d_e)

    Returns p (N_V), positive numbers that sum to 1.
    """
    p = softmax(W_u @ e)  # 1
    return p


#: The closed tables of what a line may compute; their keys are those of `paper.SLOTS`.
NORM = {"layer_norm": layer_norm, "rms_norm": RMSnorm}
ACTIVATION = {"gelu": GELU, "relu": ReLU, "gelu_tanh": GELU_tanh, "silu": SiLU}
SCALE: dict[str, Callable[[int], Any]] = {"sqrt": lambda d: sqrt(d), "none": lambda d: 1}
POSITION: dict[str, Callable[[int, Any, Any], Any]] = {
    "learned": lambda t, W_p, c: W_p[:, t],
    "none": lambda t, W_p, c: 0,
    "sinusoid": lambda t, W_p, c: sinusoid(t, c),
    "sinusoid_vaswani": lambda t, W_p, c: sinusoid_vaswani(t, c),
    "sinusoid_halves": lambda t, W_p, c: sinusoid_halves(t, c),
    "sinusoid_t2t": lambda t, W_p, c: sinusoid_t2t(t, c),
    "rotary": lambda t, W_p, c: 0,
    "relative": lambda t, W_p, c: 0,
    "bucketed": lambda t, W_p, c: 0,
}

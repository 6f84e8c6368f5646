"""What wrong implementations compute in place of a formula: the functions that the known mistakes call.

Names and shapes as in the oracle: tokens are columns.  What makes no sense for a model raises AlgorithmError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from transformulary.errors import AlgorithmError
from transformulary.oracle.notation import Array
from transformulary.oracle.precision import rounded
from transformulary.oracle.theta import Theta
from transformulary.paper import Causal, Local


def transposed(W: Theta, name: str) -> Theta:
    """The bundle of a layer whose W_q, W_k or W_v, all heads in one matrix, was read transposed; it must be square."""
    whole = np.concatenate(getattr(W, name))
    if whole.shape != whole.T.shape:
        raise AlgorithmError(f"{name} of shape {whole.shape} is not square.")
    return _with(W, **{name: np.split(whole.T, len(getattr(W, name)))})


def alike(W_qkv: Theta) -> Theta:
    """The bundle of a head whose queries, keys and values, which were confused, have as many numbers."""
    d_attn, d_mid = len(W_qkv.W_q), len(W_qkv.W_v)
    if d_attn != d_mid:
        raise AlgorithmError(f"values have d_mid = {d_mid} numbers, queries and keys d_attn = {d_attn}.")
    return W_qkv


def fitting(Y: Array, X: Array) -> Array:
    """Y, which was taken for a value of as many rows as X has."""
    if len(Y) != len(X):
        raise AlgorithmError(f"{len(Y)} rows are not {len(X)}.")
    return Y


def embedded(t: int, c: Any) -> int:
    """Position t, which the model must have."""
    if c.positions == "learned" and t >= c.ell_max:
        raise AlgorithmError(f"there is no position {t + 1}: ell_max = {c.ell_max}.")
    return t


def interleaved_heads(W: Theta) -> Theta:
    """Head h takes rows h, h + H, h + 2 H, ... of the stacked projections instead of a block of rows."""
    out = {}
    for name in ("W_q", "b_q", "W_k", "b_k", "W_v", "b_v"):
        heads = vars(W)[name]
        if isinstance(heads, list):
            whole = np.concatenate(heads)
            out[name] = [whole[h :: len(heads)] for h in range(len(heads))]
    return _with(W, **out)


def by_head(W: Theta) -> Theta:
    """A fused matrix that has all queries first, read head by head: a group's queries, its key, its value."""
    return _dealt(W, list(np.argsort(_grouped(W))))


def by_kind(W: Theta) -> Theta:
    """A fused matrix that lies head by head, read as all queries, all keys, all values."""
    return _dealt(W, _grouped(W))


def _grouped(W: Theta) -> list[int]:
    """The queries, keys and values of all heads, numbered one after the other, in the order of the groups."""
    H, H_kv = len(W.W_q), len(W.W_k)
    group = H // H_kv
    return [n for g in range(H_kv) for n in (*range(g * group, (g + 1) * group), H + g, H + H_kv + g)]


def _dealt(W: Theta, order: list[int]) -> Theta:
    """The bundle whose queries, keys and values are those of other places, by their numbers."""
    H, H_kv = len(W.W_q), len(W.W_k)
    out: dict[str, Any] = {}
    for kind in "Wb":
        parts = [vars(W)[f"{kind}_{q}"] for q in "qkv"]
        if not all(isinstance(part, list) for part in parts):
            continue
        heads = [head for part in parts for head in part]
        if len({np.shape(head) for head in heads}) > 1:
            raise AlgorithmError("queries, keys and values have other numbers of rows.")
        dealt = [heads[n] for n in order]
        out |= {f"{kind}_q": dealt[:H], f"{kind}_k": dealt[H : H + H_kv], f"{kind}_v": dealt[H + H_kv :]}
    return _with(W, **out)


def among_heads(W_qkv: Theta, W: Theta, h: int, h_kv: int) -> Theta:
    """The bundle of a head that knows the parameters of all heads, for `unsplit`."""
    return _with(W_qkv, whole=W, head={"q": h, "k": h_kv, "v": h_kv})


def with_values(W_qkv: Theta, other: Theta) -> Theta:
    """The bundle of a head whose values are those of another bundle."""
    return _with(W_qkv, **{name: vars(other)[name] for name in ("W_v", "b_v") if name in vars(other)})


def sloped(W_qkv: Theta, slope: float) -> Theta:
    """The bundle of a head that knows what ALiBi subtracts from its scores for every token of distance."""
    return _with(W_qkv, slope=slope)


def unsplit(W_qkv: Theta, name: str, X: Array) -> Array:
    """Queries, keys or values of one head, where (ell, H d) was read as (H, ell, d)."""
    heads, biases = getattr(W_qkv.whole, f"W_{name}"), getattr(W_qkv.whole, f"b_{name}")
    together = np.stack([(W @ X + biases[h][:, None]).T for h, W in enumerate(heads)], 1)  # (ell, H, d)
    return np.asarray(together.reshape(len(heads), X.shape[1], -1)[W_qkv.head[name]].T)


def unmerged(Y: list[Array]) -> Array:
    """(H, ell, d) read as (ell, H d) without putting the heads behind the tokens first."""
    rows = np.stack([y.T for y in Y])
    return rows.reshape(rows.shape[1], -1).T


def by_number(Y: list[Array]) -> Array:
    """The first number of every head, then the second of every head, and so on."""
    return np.stack(Y, 1).reshape(-1, Y[0].shape[1])


def softmax_or_nan(A: Array) -> Array:
    """softmax, and no number where a column is all minus infinity."""
    E = np.exp(A - A.max(0))
    return np.asarray(E / E.sum(0))


def softmax_plus_1(A: Array) -> Array:
    """exp / (1 + sum of exp): weights that may all be small."""
    most = np.maximum(A.max(0), 0)
    E = np.exp(A - most)
    return np.asarray(E / (np.exp(-most) + E.sum(0)))


def capped(A: Array, most: float) -> Array:
    """most tanh(A / most): capped softly; minus infinity, which is masked, stays."""
    return np.where(np.isneginf(A), A, most * np.tanh(A / most))


class weighted:
    """weighted(X, a, b) | Y is a X + b Y: a bar binds less than +, so that Y is all that a line adds to X."""

    def __init__(self, X: Array, a: float, b: float) -> None:
        self.X, self.b = a * X, b

    def __or__(self, Y: Array) -> Array:
        return np.asarray(self.X + self.b * Y)


def whole_norm(X: Array, gamma: Array, beta: Array, c: Any) -> Array:
    """Mean and variance over all numbers of all tokens."""
    m = X.mean() if c.norm == "layer_norm" else 0.0
    scale = np.sqrt(((X - m) ** 2).mean() + c.eps)
    return (X - m) / scale * np.reshape(gamma, (-1, 1)) + _column(beta)


def norm_over_tokens(X: Array, gamma: Array, beta: Array, c: Any) -> Array:
    """Mean and variance of each coordinate over the tokens."""
    ell = X.shape[1]
    m = X.sum(axis=1, keepdims=True) / ell if c.norm == "layer_norm" else 0.0
    spread = np.sqrt(((X - m) ** 2).sum(axis=1, keepdims=True) / ell + c.eps)
    return (X - m) / spread * np.reshape(gamma, (-1, 1)) + _column(beta)


def half(e: Array) -> Array:
    """Rounded to float16."""
    return rounded(e, "float16").wide()


def bfloat16(e: Array) -> Array:
    """Rounded to bfloat16."""
    return rounded(e, "bfloat16").wide()


def quick_gelu(x: Array) -> Array:
    """x sigmoid(1.702 x)."""
    return x / (1 + np.exp(-1.702 * x))


def ReLU2(x: Array) -> Array:
    """The square of ReLU."""
    return np.where(x > 0, x, 0) ** 2


def leaky_ReLU(x: Array) -> Array:
    """x, or 0.01 x below 0."""
    return np.where(x > 0, x, 0.01 * x)


def strict(mask: Any) -> Any:
    """Without the token itself; the first token, which then has nobody, sees itself."""
    return lambda t_z, t_x: mask(t_z, t_x) & ((t_z != t_x) | (t_x == 0))


def ahead(mask: Any) -> Any:
    """One token more to the right."""
    return lambda t_z, t_x: mask(t_z, t_x + 1)


def turned(mask: Any) -> Any:
    """Key and query the wrong way round: a token looks at itself and at later ones."""
    return lambda t_z, t_x: mask(t_x, t_z)


def inverted(mask: Any) -> Any:
    """True where a token may not attend."""
    return lambda t_z, t_x: np.logical_not(mask(t_z, t_x))


def wider(mask: Any, by: int) -> Any:
    """A window that is wider (or narrower) by some tokens; other masks as they are."""
    width = getattr(mask, "width", None)
    return mask if width is None else type(mask)(max(1, width + by))


def windowed(mask: Any, width: float) -> Any:
    """A window of some tokens, in place of a causal mask or of another window."""
    if not isinstance(mask, Causal | Local):
        raise AlgorithmError(f"{mask} is no causal mask.")
    return Local(int(width))


def part(d: int, of: float) -> int:
    """How many of d numbers are rotated, if only a part of them is: an even number."""
    if (n := d * of) % 2 or n < 4:
        raise AlgorithmError(f"of {d} numbers, {n} cannot be rotated in pairs.")
    return int(n)


def in_pairs(q: Array) -> Array:
    """The numbers of two halves, as neighbours: 1, 1 + d/2, 2, 2 + d/2, ..."""
    return q.reshape(2, -1).T.ravel()


def neighbours(q: Array, omega: list[float], ell: int) -> Array:
    """The rotation of numbers 2i - 1 and 2i, neighbours, instead of i and i + d/2, halves."""
    out = np.array(q)
    for i, w in enumerate(omega):
        x, y = q[2 * i], q[2 * i + 1]
        out[2 * i], out[2 * i + 1] = (
            x * np.cos(w * ell) - y * np.sin(w * ell),
            y * np.cos(w * ell) + x * np.sin(w * ell),
        )
    return out


def _column(beta: Any) -> Any:
    return np.reshape(beta, (-1, 1)) if isinstance(beta, np.ndarray) else 0


def _with(W: Theta, **changed: Any) -> Theta:
    return Theta(**vars(W) | changed)


def as_sinusoid(table: Any, kind: str, t: int, W_p: Any, c: Any) -> Array:
    """Position t by another formula, of a model whose positions are sinusoids."""
    if not c.positions.startswith("sinusoid") or c.positions == kind or c.d_e % 2 or c.d_e < 4:
        raise AlgorithmError(f"positions are {c.positions}, and no other sinusoids.")
    return np.asarray(table[kind](t, W_p, c))


def not_tied(W_e: Array, c: Any) -> Array:
    """W_e, of a model whose unembedding has a matrix of its own."""
    if c.tied:
        raise AlgorithmError("the unembedding is W_e transposed, as it should be.")
    return W_e


def only_bucketed(c: Any) -> bool:
    """True, for a model that has buckets."""
    if c.positions != "bucketed":
        raise AlgorithmError(f"positions are {c.positions}, and have no buckets.")
    return True


def bucket_of(distance: int, Mask: Any, most: float, buckets: int = 32) -> int:
    """T5's bucket of a distance t_z - t_x, where those up to `most` are told apart, by so many buckets."""
    both_ways = Mask(1, 0)
    own, first = (buckets // 2, buckets // 2 * (distance > 0)) if both_ways else (buckets, 0)
    n, half = abs(distance) if both_ways else max(-distance, 0), own // 2
    if n < half or most > 10**8:
        return first + min(n, own - 1)
    if most <= half:
        raise AlgorithmError(f"{most} is no distance beyond the near ones.")
    return first + min(half + int(np.log(n / half) / np.log(most / half) * (own - half)), own - 1)

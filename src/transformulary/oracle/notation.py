"""What the paper's symbols compute.  Lines of the algorithms use these functions and no others.

Every function also takes complex numbers and compares real parts only, so that
f(theta + i h d).imag / h is the exact derivative of f along d (the complex step).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import ceil, floor, pi
from operator import add
from typing import Any

import numpy as np
from numpy import cos, exp, inf, sin, sqrt, tanh, where
from numpy.typing import NDArray

from transformulary.errors import AlgorithmError
from transformulary.paper.practice import C, dropping

__all__ = [
    "GELU",
    "NAMED",
    "GELU_tanh",
    "Phi",
    "ReLU",
    "SiLU",
    "appended",
    "bucket",
    "ceil",
    "chosen",
    "columns",
    "corrupted",
    "cos",
    "draws",
    "drop",
    "dropped",
    "exp",
    "floor",
    "indices",
    "inf",
    "interleaved",
    "iverson",
    "joined",
    "likeliest",
    "log",
    "matrix",
    "nucleus",
    "pi",
    "proportional",
    "ramp",
    "randomly",
    "rows",
    "sample",
    "shuffled",
    "sin",
    "softmax",
    "sqrt",
    "stacked",
    "sum",
    "tanh",
    "uniform",
    "unwritten",
    "where",
]

Array = NDArray[Any]

#: Functions with a name in the formulas; their results can be watched.  The others only build arrays.
NAMED = frozenset(
    {"softmax", "GELU", "GELU_tanh", "ReLU", "SiLU", "Phi", "exp", "log", "sin", "cos", "sqrt", "tanh"}
    | {"bucket", "gradient", "proportional", "ramp", "randomly", "sample"}
)

_erf = np.vectorize(math.erf, otypes=[np.float64])


def softmax(A: Array) -> Array:
    """softmax(A)[i, j] = exp A[i, j] / sum_k exp A[k, j], equation (2): every column sums to 1.

    Raises AlgorithmError where a whole column is minus infinity: a token that may attend to nothing.
    """
    largest = A.real.max(axis=0)
    if np.any(largest == -inf):
        column = int(np.flatnonzero(np.atleast_1d(largest == -inf))[0]) + 1
        raise AlgorithmError(
            f"softmax of column {column}, which is all minus infinity, is 0/0: this token may attend to nothing. "
            f"Give it at least one token, or leave it out."
        )
    A = where(A.real > -inf, A, -inf)  # (-inf + 0i) / 2 is -inf + nan i in NumPy
    E = exp(A - largest)
    return E / E.sum(axis=0)  # type: ignore[no-any-return]


def Phi(x: Array) -> Array:
    """P(X < x) for X ~ N(0, 1).  For x + i h, the first Taylor term: exact in float64 when h = 1e-30."""
    value = 0.5 * (1 + _erf(x.real / math.sqrt(2)))
    if not np.iscomplexobj(x):
        return value  # type: ignore[no-any-return]
    return value + 1j * x.imag * exp(-(x.real**2) / 2) / math.sqrt(2 * math.pi)  # type: ignore[no-any-return]


def GELU(x: Array) -> Array:
    """x Phi(x), equation (5): the exact form."""
    return x * Phi(x)


def GELU_tanh(x: Array) -> Array:
    """GPT-2's approximation of GELU, at most 4.74e-4 from it."""
    return 0.5 * x * (1 + tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))  # type: ignore[no-any-return]


def ReLU(x: Array) -> Array:
    """max(0, x)."""
    return where(x.real > 0, x, 0)


def SiLU(x: Array) -> Array:
    """x / (1 + e^-x), also called swish; the sign is split off so that nothing overflows."""
    small = exp(where(x.real > 0, -x, x))
    return x * where(x.real > 0, 1, small) / (1 + small)  # type: ignore[no-any-return]


def log(x: Any) -> Any:
    """The natural logarithm of a positive number.

    Raises AlgorithmError for 0: in float64 a probability below 1e-308 is 0, and the loss then infinite.
    """
    if np.any(np.real(x) <= 0):
        raise AlgorithmError("log of a probability that float64 rounds to 0: the loss would be infinite.")
    return np.log(x)


def sum(terms: Iterable[Any]) -> Any:
    """The sum over an index, from the first term to the last; in low precision it is rounded once, at the end."""
    listed = list(terms)
    if listed and hasattr(listed[0], "wide"):
        return listed[0].narrow(reduce(add, (term.wide() for term in listed), 0))
    return reduce(add, listed, 0)


def _array(numbers: Sequence[Any], member: Any) -> Array:
    """np.array of numbers, in low precision (see `precision`) if `member`, one of them, is."""
    value = np.array(numbers)
    return member.narrow(value) if hasattr(member, "narrow") else value


def columns(vectors: Iterable[Array]) -> Array:
    """[e_1, e_2, ...]: vectors side by side."""
    return np.stack(list(vectors), axis=1)


def rows(blocks: Iterable[Array]) -> Array:
    """[Y^1; Y^2; ...]: matrices on top of one another."""
    return np.concatenate(list(blocks), axis=0)


def stacked(a: Sequence[Any], b: Sequence[Any]) -> Array:
    """[a; b]: the numbers a_1, a_2, ... on top of b_1, b_2, ..."""
    return _array([*a, *b], a[0])


def interleaved(a: Sequence[Any], b: Sequence[Any]) -> Array:
    """[a_1; b_1; a_2; b_2; ...]."""
    return _array([number for pair in zip(a, b, strict=True) for number in pair], a[0])


def matrix(entries: Iterable[Iterable[Any]]) -> Array:
    """A matrix from its rows of numbers."""
    numbers = [list(row) for row in entries]
    return _array(numbers, numbers[0][0])


def indices(A: Array) -> tuple[Array, Array]:
    """(row numbers, column numbers) of a matrix, from 0, as a column and a row that broadcast."""
    n_rows, n_columns = A.shape
    return np.arange(n_rows)[:, None], np.arange(n_columns)[None, :]


def bucket(delta: int, Mask: Callable[[int, int], Any]) -> int:
    """T5's bucket, from 0 to 31, of the distance delta = t_z - t_x under a mask.

    Near distances have a bucket each; far ones share buckets that grow with the logarithm, up to 128.  Where the mask
    lets tokens attend to later ones, half of the buckets are for these; else later ones have that of distance 0.
    """
    if Mask(1, 0):
        a = max(delta, -delta)
        return 16 * iverson(delta > 0) + min(a, 8) + min(7, floor(8 * math.log(max(1, a / 8)) / math.log(16)))
    a = max(0, -delta)
    return min(a, 16) + min(15, floor(16 * math.log(max(1, a / 16)) / math.log(8)))


def ramp(x: float, a: float, b: float) -> float:
    """0 up to a, 1 from b on, a line in between; a step where a = b."""
    return float(x > a) if a == b else max(0.0, min(1.0, (x - a) / (b - a)))


def randomly(a: Any, b: Any, p: float, rng: np.random.Generator) -> Any:
    """a with probability p, else b: one uniform number is drawn."""
    return a if rng.random() < p else b


def unwritten(x: Iterable[Sequence[Any]]) -> list[list[Any]]:
    """Sequences as long as those of x, whose tokens are nothing until a line writes them."""
    return [[None] * len(x_n) for x_n in x]


def uniform(n: int, rng: Any) -> int:
    """A whole number from 0 to n - 1, each as likely as any other."""
    return int(rng.integers(n))


def shuffled(items: Sequence[Any], rng: Any) -> list[Any]:
    """The items in random order, every order as likely as any other."""
    return [items[k] for k in rng.permutation(len(items))]


def appended(items: Sequence[Any], item: Any) -> list[Any]:
    """The items, and one more."""
    return [*items, item]


def joined(lists: Iterable[Sequence[Any]]) -> list[Any]:
    """The items of several lists, one list after the other."""
    return [item for items in lists for item in items]


def iverson(condition: bool) -> int:
    """[[condition]]: 1 if it is true, else 0."""
    return int(condition)


class Dropout:
    """What a dropout does in one forward pass: each entry is 0 with probability p, the others are divided by 1 - p.

    numbers  numbers(shape) are uniform in [0, 1), one for every entry
    """

    def __init__(self, p: float, numbers: Callable[[tuple[int, ...]], Array]) -> None:
        self.p, self.numbers = p, numbers

    def __call__(self, X: Array) -> Array:
        return X * (self.numbers(X.shape) >= self.p) / (1 - self.p)


def draws(p: float, rng: Any) -> Callable[[], Dropout] | None:
    """The chance of dropout in one step on one sequence: each call has the same numbers anew.  None where p is 0."""
    if not p:
        return None
    seed = int(rng.integers(2**63))
    return lambda: Dropout(p, np.random.default_rng(seed).random)


def dropped(c: C, R: Callable[[], Dropout] | None) -> C:
    """The config of a forward pass that drops what R says."""
    return dropping(c, R and R())


def drop(X: Array, c: Any) -> Array:
    """X with each entry 0 with probability p_drop, and the others divided by 1 - p_drop."""
    return c.dropout(X)  # type: ignore[no-any-return]


def chosen(x: Sequence[int], p: float, special: Sequence[int], rng: np.random.Generator) -> set[int]:
    """Places of x, each with probability p, but none of a special token: one uniform number is drawn for each."""
    return {t for t, v in enumerate(x) if rng.random() < p and v not in special}


def corrupted(v: int, mask_token: int, N_V: int, rng: np.random.Generator) -> int:
    """BERT's 80/10/10: mask_token with probability 0.8, v with 0.1, else a random token.

    One uniform number is drawn, and a second one for a random token.
    """
    u = rng.random()
    return mask_token if u < 0.8 else v if u < 0.9 else int(rng.random() * N_V)


def likeliest(q: Array, k: int) -> Array:
    """The distribution q without all but its k most probable tokens; among equals the lower ids stay."""
    kept = np.zeros(len(q))
    ids = np.argsort(-q, kind="stable")[:k]
    kept[ids] = q[ids]
    return kept / kept.sum()  # type: ignore[no-any-return]


#: Sums of probabilities are not exact: a mass that falls short of p by no more than this has reached it.
ROUNDING = 1e-12


def nucleus(q: Array, p: float) -> Array:
    """q on the smallest set of most probable tokens whose mass reaches p, at least one; among equals the lower ids."""
    mass = np.cumsum(-np.sort(-q))
    return likeliest(q, 1 + int((mass < p - ROUNDING).sum()))


def proportional(p: Array, tau: float) -> Array:
    """The distribution q proportional to p^(1/tau).

    tau = 0 is its limit, 1 for the most probable token (the lowest id among equals); tau = infinity is
    uniform over the tokens.  Computed through logarithms, so that no small tau overflows.
    """
    if tau == 0:
        return np.eye(len(p))[int(np.argmax(p))]  # type: ignore[no-any-return]
    if tau == inf:
        return np.full(len(p), 1 / len(p))
    with np.errstate(divide="ignore", over="ignore"):
        scaled = (np.log(p) - np.log(p.max())) / tau
    q = exp(scaled)
    return q / q.sum()  # type: ignore[no-any-return]


def sample(q: Array, rng: np.random.Generator) -> int:
    """One token from the distribution q: the first y with q[1] + ... + q[y] > u, u uniform in [0, 1).

    The sum that rounding leaves a little beside 1 takes 1's place; u times it is less than it, however it is rounded,
    so there is always such a y, and its q[y] is positive.
    """
    total = np.cumsum(q)
    return int(np.searchsorted(total, rng.random() * total[-1], side="right"))

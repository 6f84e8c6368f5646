"""The oracle in low precision: every operation of its text rounds its result to float32, bfloat16 or float16.

An operation is what the text writes: a sum or a product of two values, a function, a sum over an index, a product of
matrices.  Each computes in float64 from rounded values and rounds once, to nearest, ties to even.  So sums over an
index and products of matrices are what hardware with wide accumulators makes of them.  Numbers that come from no
parameter (angles of positions, eps, sqrt(d_attn)) are exact until they meet a value.  `ACCUMULATED` has the same
precisions where products of matrices are summed in float32, term by term, as most programs do.

`in_precision(theta, "bfloat16")` is all that it takes: what is computed from rounded parameters is rounded.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import ConfigError
from transformulary.oracle.lazy import lazy
from transformulary.oracle.theta import Theta

__all__ = ["ACCUMULATED", "PRECISIONS", "Format", "Number", "Rounded", "in_precision", "rounded"]


#: The bits of the exponent of a float64.
EXPONENT = np.int64(0x7FF << 52)
#: Numbers rounded at one time, few enough to stay in the processor's cache.
CHUNK = 2**15


class Format:
    """A binary floating-point format: p bits of significand, exponents of normal numbers from e_min to e_max.

    Adding and subtracting c = 1.5 * 2^(53 - p) * 2^e rounds a number between 2^e and 2^(e + 1) to p bits, as float64
    has no bits for the rest beside c; below 2^e_min, c stays the same, and numbers are rounded to multiples of
    2^(e_min - p + 1).
    """

    def __init__(self, p: int, e_min: int, e_max: int) -> None:
        self.smallest, self.largest = 2.0**e_min, 2.0**e_max
        self.limit, self.factor = 2.0 ** (e_max + 1), 1.5 * 2.0 ** (53 - p)
        #: c by the exponent that frexp gives, which is e + 1, from -1073 to 1024.
        self.c = [self.factor * 2.0 ** min(max(e, e_min), e_max) for e in range(-1074, 1024)]

    def round(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest numbers of the format, ties to even; half a step above the largest one begins infinity."""
        y = np.empty_like(x, subok=False)
        numbers, rounded = x.ravel("K"), y.ravel("K")  # views, unless x has gaps; then y has none
        for k in range(0, x.size, CHUNK):
            rounded[k : k + CHUNK] = self._round(numbers[k : k + CHUNK])
        return y

    def _round(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        power = (x.view(np.int64) & EXPONENT).view(np.float64)
        with np.errstate(all="ignore"):
            c = self.factor * np.clip(power, self.smallest, self.largest)
            y = np.copysign((x + c) - c, x)
            return np.where(np.abs(y) >= self.limit, np.copysign(np.inf, x), y)

    def round_one(self, x: float) -> float:
        """The same for one number."""
        if not -self.limit < x < self.limit:  # and what is not a number
            return x if x != x else math.copysign(math.inf, x)
        c = self.c[math.frexp(x)[1] + 1073]
        y = (x + c) - c
        if -self.limit < y < self.limit:
            return y or math.copysign(0.0, x)
        return math.copysign(math.inf, x)


class Number(float):
    """One value of low precision.  Its operations round; with an array they are the array's."""

    format: ClassVar[Format]
    array: ClassVar[type[Rounded]]

    @classmethod
    def narrow(cls, value: Any) -> Any:
        return cls.array.narrow(value)

    def wide(self) -> float:
        return float(self)

    @property
    def real(self) -> Number:
        return self

    @property
    def T(self) -> Number:
        return self

    def __neg__(self) -> Self:
        return type(self)(-float(self))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self.array.apply(ufunc, method, inputs, options)


def _operation(f: Callable[[Any, Any], Any], swapped: bool) -> Callable[[Number, Any], Any]:
    def method(self: Number, other: Any) -> Any:
        if not isinstance(other, int | float):
            return NotImplemented
        a, b = (float(other), float(self)) if swapped else (float(self), float(other))
        try:
            value = f(a, b)
        except ArithmeticError:  # where Python raises, IEEE 754 says infinity or no number
            with np.errstate(all="ignore"):
                value = float(f(np.float64(a), np.float64(b)))
        return type(self)(self.format.round_one(value))

    return method


for _name in ("add", "sub", "mul", "truediv", "pow"):
    setattr(Number, f"__{_name}__", _operation(getattr(operator, _name), swapped=False))
    setattr(Number, f"__r{_name}__", _operation(getattr(operator, _name), swapped=True))


class Rounded(np.ndarray[Any, Any]):
    """An array of float64 whose values are numbers of a smaller format, as are the results of its operations.

    product  a product of matrices before it is rounded
    """

    number: ClassVar[type[Number]]
    product: ClassVar[Callable[[Any, Any], Any]] = np.matmul

    @classmethod
    def narrow(cls, value: Any) -> Any:
        """The result of an operation, rounded: a Rounded or a Number; what holds no real numbers as it is."""
        if isinstance(value, float):
            return cls.number(cls.number.format.round_one(float(value)))
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fO":  # O: of np.vectorize
            return value
        return cls.number.format.round(np.asarray(value, np.float64)).view(cls)

    def wide(self) -> NDArray[np.float64]:
        return self.view(np.ndarray)

    @classmethod
    def apply(cls, ufunc: np.ufunc, method: str, inputs: Any, options: Any) -> Any:
        wide = [x.wide() if isinstance(x, Number | Rounded) else x for x in inputs]
        compute = cls.product if ufunc is np.matmul else getattr(ufunc, method)
        with np.errstate(all="ignore"):
            return cls.narrow(compute(*wide, **options))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return self.apply(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Functions that build arrays of arrays."""
        return self.narrow(super().__array_function__(function, types, args, kwargs))

    def __getitem__(self, at: Any) -> Any:
        value = super().__getitem__(at)
        return self.number(value) if isinstance(value, float) else value


def _kind(format: Format, product: Callable[[Any, Any], Any] = np.matmul) -> type[Rounded]:
    number: type[Number] = type("Number", (Number,), {"format": format})
    number.array = type("Rounded", (Rounded,), {"number": number, "product": staticmethod(product)})
    return number.array


def term_by_term(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """a @ b in float32: every product and every partial sum is rounded, from the first term to the last."""
    rows, columns = np.atleast_2d(a), b.reshape(len(b), -1)
    terms = np.ascontiguousarray(rows.T, np.float32)[:, :, None]
    total = np.zeros((len(rows), columns.shape[1]), np.float32)
    for term, row in zip(terms, columns.astype(np.float32), strict=True):
        total += term * row
    return total.reshape(a.shape[:-1] + b.shape[1:]).astype(np.float64)[()]


#: What the values of a theta are turned into; float64 is what the oracle computes in.
PRECISIONS: dict[str, type[Rounded] | None] = {
    "float64": None,
    "float32": _kind(Format(24, -126, 127)),
    "bfloat16": _kind(Format(8, -126, 127)),
    "float16": _kind(Format(11, -14, 15)),
}
#: The same, as programs compute that accumulate in float32.
ACCUMULATED = {name: kind and _kind(kind.number.format, term_by_term) for name, kind in PRECISIONS.items()}


def rounded(value: Any, precision: str) -> Any:
    """A number or an array of float64 as one of a precision, so that operations on it round.

    A hook of `watched` that puts its own value into a run in low precision gives it in this form.

    Raises ConfigError: there is no such precision.
    """
    kind = _known(precision)
    return kind.narrow(value) if kind else value


Kinds = Mapping[str, type[Rounded] | None]


def _known(precision: str, kinds: Kinds = PRECISIONS) -> type[Rounded] | None:
    if precision not in kinds:
        raise ConfigError(f"precision = {precision!r} is none of {', '.join(kinds)}.")
    return kinds[precision]


def in_precision(theta: Theta, precision: str, kinds: Kinds = PRECISIONS) -> Theta:
    """The parameters rounded to a precision, so that whatever the oracle computes from them is rounded as well.

    Args:
        theta: eager or lazy; it is not changed.
        precision: float64 (theta itself), float32, bfloat16 or float16.
        kinds: what each computes: PRECISIONS or ACCUMULATED.

    Returns:
        A theta for every algorithm of the oracle, watched or not, whose parameters are rounded whenever they are used
        and not kept.  The values of its runs are arrays of float64 that hold numbers of that precision.

    Raises:
        ConfigError: there is no such precision.
    """
    kind = _known(precision, kinds)
    if kind is None:
        return theta
    return theta.map(lambda a: lazy(a).turned_into(kind.narrow))

"""All parameters of a model as one point theta of R^d, by the paper's names; and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import AlgorithmError
from transformulary.paper.config import Config
from transformulary.paper.parameters import PLACES, POSITIONAL, QK_NORM, TOKENS, Shapes, parameters, size, split

Array = NDArray[Any]
POSITIONAL_NAMES = frozenset(split(name)[0] for table in POSITIONAL.values() for name in table)


class Zero:
    """A parameter that the model declares it does not have: it indexes, multiplies and adds like 0."""

    __array_ufunc__ = None  # these methods decide, not NumPy

    def __getitem__(self, _: Any) -> Zero:
        return self

    def __matmul__(self, _: Any) -> Zero:
        return self

    __rmatmul__ = __mul__ = __rmul__ = __matmul__

    def __add__(self, other: Any) -> Any:
        return other

    __radd__ = __add__

    def __repr__(self) -> str:
        return "0"


class MissingParameter(AlgorithmError, AttributeError):
    """A parameter that is neither there nor declared absent."""


class Theta:
    """Parameters by name: arrays, lists of them (one per layer or head), and bundles that are Thetas.

    `absent` names parameters that are a declared 0.  Any other name that is not there is an error.
    """

    def __init__(self, absent: Iterable[str] = (), **tree: Any) -> None:
        self.__dict__.update({name: Zero() for name in absent} | tree)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingParameter(
            f"theta has no parameter {name}; it has {', '.join(vars(self))}. "
            f"A parameter that the model lacks must be declared absent."
        )

    def map(self, f: Callable[..., Any], *others: Theta) -> Theta:
        """f of every array (and of the arrays at the same place in `others`), as a Theta."""

        def go(*a: Any) -> Any:
            if isinstance(a[0], Theta):
                return a[0].map(f, *a[1:])
            if isinstance(a[0], list):
                return [go(*x) for x in zip(*a, strict=True)]
            return a[0] if isinstance(a[0], Zero) else f(*a)

        return Theta(**{name: go(value, *(vars(o)[name] for o in others)) for name, value in vars(self).items()})

    def items(self, prefix: str = "") -> Iterator[tuple[str, Array]]:
        """(name, array) of every array: "W_e", "gamma_1[2]", "W[1].W_q[3]"; layers and heads count from 1."""

        def go(name: str, value: Any) -> Iterator[tuple[str, Array]]:
            if isinstance(value, Theta):
                yield from value.items(name + ".")
            elif isinstance(value, list):
                for k, member in enumerate(value, 1):
                    yield from go(f"{name}[{k}]", member)
            elif not isinstance(value, Zero):
                yield name, value

        for name, value in vars(self).items():
            yield from go(prefix + name, value)

    def leaves(self) -> list[Array]:
        """Every array, in the order of `items`."""
        return [array for _, array in self.items()]

    def _with(self, f: Callable[[Any, Any], Any], other: Any) -> Theta:
        """f of every array and the other theta's, or a number."""
        return self.map(f, other) if isinstance(other, Theta) else self.map(lambda a: f(a, other))

    def __add__(self, other: Any) -> Theta:
        return self._with(lambda a, b: a + b, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Theta:
        return self._with(lambda a, b: a - b, other)

    def __mul__(self, other: Any) -> Theta:
        return self._with(lambda a, b: a * b, other)

    def __rmul__(self, number: complex) -> Theta:
        return self.map(lambda a: number * a)

    def __truediv__(self, other: Any) -> Theta:
        return self._with(lambda a, b: a / b, other)

    def __pow__(self, number: float) -> Theta:
        return self.map(lambda a: a**number)

    def sqrt(self) -> Theta:
        """The root of every number; what `sqrt` of the notation calls."""
        return self.map(np.sqrt)

    def only(self, wanted: Callable[[str, Array], bool]) -> Theta:
        """This theta with 0 for every array that is not wanted by its name ("W_q") and value."""

        def go(name: str, value: Any) -> Any:
            if isinstance(value, Theta):
                return value.only(wanted)
            if isinstance(value, list):
                return [go(name, member) for member in value]
            return value if isinstance(value, Zero) or wanted(name, value) else 0 * value

        return Theta(**{name: go(name, value) for name, value in vars(self).items()})


def random_theta(config: Config, rng: np.random.Generator, scale: float = 0.2) -> Theta:
    """Independent normal parameters of the given standard deviation; the gammas have mean 1."""

    def array(name: str, shape: str) -> Array:
        dims = [size(s, config) for s in shape.split()]
        return scale * rng.normal(size=dims) + name.startswith("gamma")

    return theta_from(config, array)


def theta_from(config: Config, array: Callable[[str, str], Any]) -> Theta:
    """The theta of a config: array(name, shape) is called for every array in the order of `items`.

    `shape` is spelled as in the table of parameters, "d_attn d_e"; `name` as in `Theta.items`, from 1.
    """

    def build(table: Shapes, prefix: str) -> Theta:
        def one(name: str, shape: str | Shapes) -> Any:
            return array(name, shape) if isinstance(shape, str) else build(shape, name + ".")

        tree: dict[str, Any] = {}
        for entry, shape in table.items():
            name, count = split(entry)
            n = size(count, config) if count else 0
            at = prefix + name
            tree[name] = [one(f"{at}[{k}]", shape) for k in range(1, n + 1)] if count else one(at, shape)
        absent = config.absent | (POSITIONAL_NAMES if prefix else frozenset())
        return Theta(absent=absent - set(tree), **tree)

    return build(parameters(config), "")


def W_qkv(W: Theta, h: int, g: int) -> Theta:
    """The parameters of one head, equation (4): queries of head h, keys and values of head g (the paper: g = h)."""
    by_query = {name: value[h] for name, value in vars(W).items() if name in {"W_q", "b_q"} | POSITIONAL_NAMES}
    shared = {name: vars(W)[name] for name in QK_NORM if name in vars(W)}
    return Theta(**by_query | shared | {name: vars(W)[name][g] for name in ("W_k", "b_k", "W_v", "b_v")})


def sharing(W: Theta, B: list[Array]) -> Theta:
    """The bundle of one layer, with a B that it has in common with the others of its stack."""
    return Theta(**vars(W) | {"B": B})


def matrices(theta: Theta) -> Theta:
    """theta with 0 for its vectors and the tables of places: what weight decay acts on."""
    return theta.only(lambda name, array: array.ndim >= 2 and name not in PLACES)


def embeddings(theta: Theta) -> Theta:
    """theta with 0 for all but the tables of the embedding."""
    return theta.only(lambda name, array: name in TOKENS + PLACES)


def norm(theta: Theta) -> float:
    """The root of the sum of the squares of all numbers."""
    return float(np.sqrt(sum(float(np.sum(array**2)) for array in theta.leaves())))


STEP = 1e-30


def derivative(f: Callable[[Theta], Any], theta: Theta, direction: Theta) -> float:
    """<gradient of f at theta, direction>, exact to rounding: one evaluation of f at theta + i h direction."""
    with np.errstate(invalid="ignore"):
        return float(np.imag(f(theta + 1j * STEP * direction))) / STEP


def gradient(f: Callable[[Theta], Any], theta: Theta) -> Theta:
    """The gradient of f at theta, exact to rounding: one complex step for every parameter, no difference."""
    z = theta.map(lambda a: a.astype(complex))
    g = theta.map(lambda a: np.zeros(a.shape))
    with np.errstate(invalid="ignore"):
        for a, slope in zip(z.leaves(), g.leaves(), strict=True):
            for i in np.ndindex(a.shape):
                a[i] += 1j * STEP
                slope[i] = np.imag(f(z)) / STEP
                a[i] = a[i].real
    return g

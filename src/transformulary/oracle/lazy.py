"""A theta whose arrays are fetched when a line asks for them and not kept: a model of any size runs in little memory.

The oracle indexes a parameter, multiplies by it, adds it or asks for its shape, and nothing else; a `LazyArray` does
these by fetching.  What is held at one time is one matrix of one layer, and the vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle.rulings import damaged
from transformulary.oracle.theta import Theta
from transformulary.oracle.whole import theta_with
from transformulary.paper.config import Config
from transformulary.paper.parameters import size

Array = NDArray[Any]

#: Sizes that grow with the vocabulary or the longest sequence: such a matrix may be larger than a layer.
WIDE = frozenset({"N_V", "ell_max"})
#: Numbers of a wide matrix that are in memory as float64 at one time: 256 MB.
BLOCK = 2**25


def lazy_theta(config: Config, array: Callable[[str, str], Any], block: int = BLOCK, gives: str = "tokens") -> Theta:
    """The theta of a config, as `theta_from` makes it, but array(name, shape) is called when a line needs the numbers.

    Args:
        config: sizes and choices of the model.
        array: the numbers of one parameter, of any floating type; vectors are kept; a matrix is kept
            until another one is asked for, except that W_e, W_p and W_u are kept together.
        block: how many numbers of W_e, W_p, W_u are held as float64 at one time; those have a row or a column per
            token of the vocabulary or position, are taken as they are given (mapped from a file, say) and multiplied
            by blocks.  One block is bitwise the whole; several agree to rounding.
        gives: tokens, classes or vectors (`oracle.whole.Model`).

    A parameter raises AlgorithmError when it is needed and has a number that is not finite.
    """
    held = _Held()

    def finite(name: str, shape: str) -> Array:
        numbers = np.asarray(array(name, shape))
        with np.errstate(invalid="ignore"):
            ends = [numbers.min(), numbers.max()]  # of NaN both are NaN; no second array is made
        if not np.isfinite(ends).all():
            raise damaged(name)
        return numbers

    def parameter(name: str, shape: str) -> LazyArray | Array:
        sizes = shape.split()
        if "N_C" in sizes:  # which no config says; it is small
            return _float64(finite(name, shape))
        dims = tuple(size(s, config) for s in sizes)
        if len(dims) == 1:
            return LazyArray(dims, cache(lambda: _float64(finite(name, shape))))
        if WIDE.isdisjoint(sizes):
            return LazyArray(dims, held.one(name, name, lambda: _float64(finite(name, shape))))
        return LazyArray(dims, held.one("wide", name, lambda: finite(name, shape)), block)

    return theta_with(config, parameter, gives)


class _Held:
    """The matrices in memory: those of one group, until one of another group is asked for."""

    def __init__(self) -> None:
        self.group, self.matrices = "", dict[str, Array]()

    def one(self, group: str, name: str, fetch: Callable[[], Array]) -> Callable[[], Array]:
        def fetched() -> Array:
            if group != self.group:
                self.group, self.matrices = group, {}  # gone before the next one comes
            if name not in self.matrices:
                self.matrices[name] = fetch()
            return self.matrices[name]

        return fetched


def _float64(value: Any) -> Array:
    return np.asarray(value, np.float64)


@dataclass(frozen=True, eq=False)
class LazyArray:
    """A parameter that is fetched when it is used; in formulas it stands for its numbers.

    shape  known without fetching
    fetch  gives the numbers
    block  None, or how many numbers are turned into float64 at one time
    kind   what the numbers are turned into (`precision`), after float64
    """

    shape: tuple[int, ...]
    fetch: Callable[[], Array]
    block: int | None = None
    kind: Callable[[Array], Any] = _float64

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.kind(_float64(self.fetch())), dtype, copy=copy)

    @property
    def T(self) -> LazyArray:
        return LazyArray(self.shape[::-1], lambda: self.fetch().T, self.block, self.kind)

    def __getitem__(self, at: Any) -> Any:
        return self.kind(_float64(self.fetch()[at]))

    def __radd__(self, other: float) -> Any:
        return other + self.kind(_float64(self.fetch()))

    def __matmul__(self, X: Array) -> Any:
        products = [rows @ X for rows in self._blocks()]
        return products[0] if len(products) == 1 else np.concatenate(products)

    def _blocks(self) -> Iterator[Any]:
        """The rows from top to bottom, as many at a time as `block` allows."""
        numbers = self.fetch()
        step = len(self) if self.block is None else max(1, self.block // self.shape[1])
        for begin in range(0, len(self), step):
            yield self.kind(_float64(numbers[begin : begin + step]))

    def turned_into(self, kind: Callable[[Array], Any]) -> LazyArray:
        """The same parameter, its numbers turned into another kind."""
        return LazyArray(self.shape, self.fetch, self.block, kind)


def lazy(a: Any) -> LazyArray:
    """A parameter as one that is fetched whenever it is used."""
    return a if isinstance(a, LazyArray) else LazyArray(a.shape, lambda: a)

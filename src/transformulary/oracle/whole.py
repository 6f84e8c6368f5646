"""A whole model: which algorithm it is, what it reads, what it gives, and a run of it.

A model is a config with a theta.  Of an encoder, theta says what stands on top of its layers: lines 10-12, or
Algorithm 9c (then it has W_pool, b_pool, W_c, b_c), or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from numpy.typing import NDArray

from transformulary.oracle.lines import Line, line_at, lines_of
from transformulary.oracle.path import parse
from transformulary.oracle.source import read
from transformulary.oracle.theta import Theta, theta_from
from transformulary.oracle.watch import Watch, nothing
from transformulary.paper.config import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
)
from transformulary.paper.parameters import OF_CLASSES, OF_TOKENS
from transformulary.paper.reading import Read

Array = NDArray[Any]

#: The class of a config -> the number of the algorithm.
NUMBERS: dict[type[Config], str] = {
    DTransformerConfig: "10",
    ETransformerConfig: "9",
    EDTransformerConfig: "8",
    PreEDTransformerConfig: "8a",
}
#: Algorithm 9c, which classifies what an encoder gives.
CLASSES = "9c"


@dataclass(frozen=True)
class Model:
    """A config with the parameters of a point theta."""

    config: Config
    theta: Theta

    @property
    def gives(self) -> str:
        """What it gives: "tokens", or, of an encoder, also "classes" or "vectors"."""
        if isinstance(self.config, ETransformerConfig) and "W_f" not in vars(self.theta):
            return "classes" if "W_c" in vars(self.theta) else "vectors"
        return "tokens"

    @property
    def N_C(self) -> int:
        """The number of classes; 0 of a model that gives none."""
        return len(self.theta.W_c) if self.gives == "classes" else 0

    @property
    def lines(self) -> tuple[Line, ...]:
        """Those that compute a value."""
        return lines(self.config, self.gives)

    @property
    def output(self) -> str:
        """The path of what it gives."""
        return output(self.config, self.gives)

    @property
    def probable(self) -> bool:
        """Whether what it gives are probabilities, a softmax of logits."""
        return self.gives != "vectors"

    @property
    def layers(self) -> int:
        """The number of layers of the longest stack."""
        return layers_of(self.config)

    def logits(self, given: Read | Sequence[int], watch: Watch | None = None) -> Array:
        """What the last line gives to its softmax, (N_V, ell) or (N_C); of an encoder that has none, what it gives.

        watch: one whose variants are to be on; its hook is replaced.
        """
        watch = watch or Watch(lambda _, value: value, inside=nothing)
        if not self.probable:
            return self.run(watch.algorithms, given)
        found: list[Array] = []

        def hook(path: str, value: Any) -> Any:
            if path == f"{self.output}:logits":
                found.append(value)
            return value

        watch.hook = hook
        self.run(watch.algorithms, given)
        return found[0]

    def run(self, algorithms: Any, given: Read | Sequence[int], checked: bool = True) -> Array:
        """What it gives for what is given to it.

        Args:
            algorithms: the oracle's functions, as they are or as `watched`.
            checked: false: what is given is known to be in the domain.

        Raises AlgorithmError as the algorithm does.
        """
        given = Read.of(given)
        function = getattr(algorithms, str(read().name(number_of(self.config))))
        compute = function if checked else function.__wrapped__
        x, z, s = map(list, (given.x, given.z, given.s))
        match self.config:
            case DTransformerConfig():
                return compute(x, self.theta, self.config)  # type: ignore[no-any-return]
            case ETransformerConfig() if self.gives == "tokens":
                return compute(x, self.theta, self.config, s)  # type: ignore[no-any-return]
            case ETransformerConfig():
                return self._on_top(algorithms, compute, x, s)
        return compute(z, x, self.theta, self.config)  # type: ignore[no-any-return]

    def _on_top(self, algorithms: Any, compute: Callable[..., Any], x: list[int], s: list[int]) -> Array:
        """What an encoder gives that has no lines 10-12."""
        held = vars(self.theta)
        inner = Theta(**{name: value for name, value in held.items() if name not in OF_CLASSES}, W_f=_Taken())
        try:
            compute(x, inner, self.config, s)
        except _Reached as reached:
            X = reached.X
        if self.gives == "vectors":
            return X
        return algorithms.classification(X, *(held[name] for name in OF_CLASSES))  # type: ignore[no-any-return]


class _Reached(BaseException):
    """X, after line 9."""

    def __init__(self, X: Array) -> None:
        self.X = X


class _Taken:
    """Stands where line 10 would multiply X, and takes it."""

    __array_ufunc__ = None

    def __matmul__(self, X: Array) -> Any:
        raise _Reached(X)


def number_of(config: Config) -> str:
    """The algorithm that a config is of: "8", "8a", "9" or "10"."""
    return NUMBERS[type(config)]


@cache
def lines(config: Config, gives: str = "tokens") -> tuple[Line, ...]:
    """The lines that compute a value in a model that gives tokens, classes or vectors, in their order."""
    found = [line for line in lines_of(number_of(config)).values() if not line.when or getattr(config, line.when)]
    if gives != "tokens":
        found = [line for line in found if line.label not in ("10", "11", "12")]
    return (*found, *(lines_of(CLASSES).values() if gives == "classes" else ()))


def output(config: Config, gives: str = "tokens") -> str:
    """The path of what a model gives: 10.11, 9c.2, or, of an encoder alone, what its last layer has."""
    last = lines(config, gives)[-1]
    return last.name + (f"[l={getattr(config, last.layers)}]" if last.layers else "")


def sizes_at(path: str, config: Config, given: Read) -> dict[str, int]:
    """How far the indices of a path go, by their letters, and the lengths that its axes may have."""
    inner, line = len(parse(path).steps) > 1, line_at(path)
    asks = line.asks.lower() or 2 * line.side
    ell_x, ell_z = (asks[0], asks[1]) if inner else ("x", "z")
    found = {name: given.length(side) for name, side in (("ell", line.side), ("ell_x", ell_x), ("ell_z", ell_z))}
    t = max(found["ell_x"], found["ell_z"]) if line.asks and inner else found["ell"]
    last = {"l": getattr(config, line.layers) if line.layers else 0, "h": config.H, "t": t}
    return found | last | {"t_x": found["ell_x"], "t_z": found["ell_z"]}


def layers_of(config: Config) -> int:
    """The number of layers of the longest stack."""
    return max(int(getattr(config, line.layers)) for line in lines(config) if line.layers)


def theta_with(config: Config, array: Callable[[str, str], Any], gives: str = "tokens") -> Theta:
    """The theta of a model that gives tokens, classes or vectors; `array` as for `theta_from`."""
    if gives == "tokens":
        return theta_from(config, array)
    inner = theta_from(config, lambda name, shape: None if name in OF_TOKENS else array(name, shape))
    tree = {name: value for name, value in vars(inner).items() if name not in OF_TOKENS}
    return Theta(**tree, **{name: array(name, shape) for name, shape in OF_CLASSES.items() if gives == "classes"})

"""What tables say of tensors: their names and ours, how one becomes the other, and what stands on top."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Protocol

from transformulary.errors import CheckpointError
from transformulary.formats.names import Shape, shapes
from transformulary.formats.sources import Stored
from transformulary.paper import Config

#: What wrappers of a module (parallel training, compilation) put into the names of its tensors.
WRAPPERS = ("module.", "_orig_mod.")
#: The types in which parameters may be stored.
FLOATS = ("F64", "F32", "F16", "BF16")
#: How a stack of layers is called in our names -> the field that says how many it has.
LAYERS = {"layers": "L", "encoder": "L_enc", "decoder": "L_dec"}


def _bare(config: Config, _: int) -> dict[str, Shape]:
    """An encoder without lines 10-12 of Algorithm 9."""
    return {name: shape for name, shape in shapes(config).items() if not name.startswith(("W_f.", "norm.", "W_u."))}


def _classifying(config: Config, N_C: int) -> dict[str, Shape]:
    d_e = config.d_e
    pool, rows = {"W_pool.weight": (d_e, d_e), "W_pool.bias": (d_e,)}, {"W_c.weight": (N_C, d_e), "W_c.bias": (N_C,)}
    return _bare(config, N_C) | pool | rows


#: What an encoder gives -> the shapes of its tensors, for N_C classes.
SHAPES: dict[str, Callable[[Config, int], dict[str, Shape]]] = {
    "tokens": lambda config, _: shapes(config),
    "classes": _classifying,
    "vectors": _bare,
}


class Operation(Protocol):
    """A reversible change of one tensor on its way between their file and our model; `c` is the model's config."""

    def shape(self, ours: Shape) -> Shape:
        """The shape that they store."""

    def load(self, tensor: Any, c: Config) -> Any: ...

    def save(self, tensor: Any, c: Config) -> Any: ...


@dataclass(frozen=True)
class Transposed:
    """They store (in, out), we (out, in)."""

    def shape(self, ours: Shape) -> Shape:
        return ours[::-1]

    def load(self, tensor: Any, c: Config) -> Any:
        return tensor.T

    save = load


@dataclass(frozen=True)
class Offset:
    """Their table begins with rows that nothing reads; written without a file that has them, they are 0."""

    rows: int

    def shape(self, ours: Shape) -> Shape:
        return (self.rows + ours[0], *ours[1:])

    def load(self, tensor: Any, c: Config) -> Any:
        return tensor[self.rows :]

    def save(self, tensor: Any, c: Config) -> Any:
        whole = tensor[[0] * self.rows + list(range(len(tensor)))]  # a copy
        whole[: self.rows] = 0
        return whole


@dataclass(frozen=True)
class Rule:
    """One of their tensors and what it is of ours: one, or several one above another; {l} is the layer, from 0.

    only  (field, value) of the configs for which it holds; None is all
    """

    theirs: str
    ours: str | tuple[str, ...]
    operations: tuple[Operation, ...] = ()
    only: tuple[str, Any] | None = None

    def at(self, l: int) -> tuple[str, tuple[str, ...]]:
        """(their name, our names) in one layer."""
        ours = (self.ours,) if isinstance(self.ours, str) else self.ours
        return self.theirs.format(l=l), tuple(name.format(l=l) for name in ours)

    def holds(self, config: Config) -> bool:
        """Whether models of this config may have the tensor."""
        return self.only is None or getattr(config, self.only[0]) == self.only[1]

    def everywhere(self, config: Config) -> Iterator[tuple[str, tuple[str, ...]]]:
        """(their name, our names) in every layer, or once."""
        if not self.holds(config):
            return iter(())
        ours = self.ours if isinstance(self.ours, str) else self.ours[0]
        return map(self.at, range(getattr(config, LAYERS[ours.partition(".")[0]]) if "{l}" in ours else 1))


@dataclass(frozen=True)
class Origin:
    """Where one of our tensors is stored: the name in the file, and how it becomes ours.

    shape  of what is stored there, in our layout
    rows   of it that are this tensor
    """

    name: str
    operations: tuple[Operation, ...]
    shape: Shape
    rows: slice

    def load(self, tensor: Any, c: Config) -> Any:
        """Ours, from what is stored: a view where the operations allow it."""
        for operation in self.operations:
            tensor = operation.load(tensor, c)
        return tensor[self.rows]

    @property
    def stored(self) -> Shape:
        """The shape that the file must have."""
        shape = self.shape
        for operation in reversed(self.operations):
            shape = operation.shape(shape)
        return shape


@dataclass(frozen=True)
class Head:
    """What stands on top of the layers, where files of one format differ in that.

    gives         "tokens" (lines 10-12 of Algorithm 9), "classes" (Algorithm 9c), or "vectors" (nothing)
    mark          pattern of the stored tensors by which it is known, "" where there are none
    architecture  how config.json calls such a model
    weights       its tensors
    also          further architectures of which we compute just this
    """

    gives: str
    mark: str
    architecture: str
    weights: tuple[Rule, ...] = ()
    also: tuple[str, ...] = ()


def like(name: str, pattern: str) -> bool:
    """Whether a stored name is one that a table means: {l} is any layer, * anything."""
    return fnmatchcase(name, pattern.replace("{l}", "*"))


def classes(stored: Mapping[str, Any], head: Head | None) -> int:
    """N_C, the number of classes that a file has a row for; 1 where it gives none."""
    found = [tensor.shape for name, tensor in stored.items() if head and like(unwrapped(name), head.mark)]
    return int(found[0][0]) if found and found[0] else 1


def unwrapped(name: str) -> str:
    """The name without what wrappers of a module have put in."""
    for wrapper in WRAPPERS:
        while name.startswith(wrapper) or f".{wrapper}" in name:
            name = name.removeprefix(wrapper).replace(f".{wrapper}", ".")
    return name


def check_names(
    wanted: set[str], names: dict[str, str], meant: Mapping[str, tuple[str, ...]], ours: Iterable[str], file: object
) -> None:
    """Raises CheckpointError where a file lacks a tensor, or has one too many; both by the names of the table.

    meant  what the table says that their tensors are of ours
    ours   the names that there are
    """
    missing, extra = sorted(wanted - set(names)), sorted(set(names) - wanted)
    if missing:
        near = get_close_matches(missing[0], extra, 1, cutoff=0.8)
        hint = f" It has {names[near[0]]}, which nothing needs: is it misspelt?" if near else ""
        raise CheckpointError(f"{file} lacks {_some(missing)}, which the model needs.{hint}")
    if extra and extra[0] in meant:
        name = next(name for name in meant[extra[0]] if name not in ours)
        near = get_close_matches(name, ours, 1, cutoff=0.8)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise CheckpointError(f"{file}: {names[extra[0]]} is said to be {name}, which the model does not have.{hint}")
    if extra:
        near = get_close_matches(extra[0], wanted, 1, cutoff=0.8)
        hint = f" The nearest name that has one is {near[0]}." if near else ""
        raise CheckpointError(f"{file} has {_some([names[e] for e in extra])}, for which there is no rule.{hint}")


def check_stored(planned: dict[str, Origin], stored: Mapping[str, Stored], file: object) -> None:
    """Raises CheckpointError where a tensor has the wrong shape or type, or another than the others."""
    kinds: dict[str, str] = {}
    for name, origin in planned.items():
        tensor = stored[origin.name]
        if tensor.shape != origin.stored:
            raise CheckpointError(f"{file}: {origin.name} has shape {tensor.shape}; {name} needs {origin.stored}.")
        if tensor.dtype not in FLOATS:
            raise CheckpointError(
                f"{file}: {origin.name} holds {tensor.dtype}; a parameter is one of {', '.join(FLOATS)}."
            )
        kinds.setdefault(tensor.dtype, origin.name)
    if len(kinds) > 1:
        told = ", ".join(f"{name} in {kind}" for kind, name in kinds.items())
        raise CheckpointError(f"{file} mixes precisions ({told}), and a model computes in one.")


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more tensors"

"""What a format is: tables that say how another program's names and numbers are ours.

`Format` reads a config.json, plans where each of our tensors comes from, and writes both back; the
tables do not know the direction.  Nothing here needs torch: tensors are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Protocol

from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats.header import Entry
from transformulary.paper import DTransformerConfig

Shape = tuple[int, ...]

#: Our tensors that are another one when the model is tied.
TIED = {"W_u.weight": "W_e.weight"}
#: What wrappers of a module (parallel training, compilation) put into the names of its tensors.
WRAPPERS = ("module.", "_orig_mod.")
#: The types in which parameters may be stored.
FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class Key:
    """One key of their config.json and the field of ours that it sets.

    default  what their code takes where the key is missing; a function of their config also where it is null
    values   their value -> ours; the first that gives our value is written back
    """

    theirs: str
    ours: str
    default: Any = None
    values: Mapping[Any, Any] | None = None

    def read(self, theirs: dict[str, Any]) -> Any:
        derived = callable(self.default)
        given = theirs.get(self.theirs) if derived else theirs.get(self.theirs, self.default)
        if given is None and derived:
            given = self.default(theirs)
        if given is None:
            what = "null" if self.theirs in theirs else "missing"
            raise ConfigError(f"{self.theirs} is {what}, and nothing says which value is meant. Give one.")
        if self.values is None:
            return given
        for value, ours in self.values.items():
            if given == value and type(given) is type(value):
                return ours
        raise ConfigError(f"{self.theirs} = {given!r} is none of {', '.join(map(repr, self.values))}.")

    def write(self, ours: dict[str, Any]) -> Any:
        value = ours[self.ours]
        if self.values is None:
            return value
        return next((theirs for theirs, mine in self.values.items() if mine == value), None)


class Operation(Protocol):
    """A reversible change of one tensor on its way between their file and our model."""

    def shape(self, ours: Shape) -> Shape:
        """The shape that they store."""

    def load(self, tensor: Any) -> Any: ...

    def save(self, tensor: Any) -> Any: ...


@dataclass(frozen=True)
class Transposed:
    """They store (in, out), we (out, in)."""

    def shape(self, ours: Shape) -> Shape:
        return ours[::-1]

    def load(self, tensor: Any) -> Any:
        return tensor.T.contiguous()

    save = load


@dataclass(frozen=True)
class Rule:
    """One of their tensors and the one of ours that it is; {l} is the layer, from 0."""

    theirs: str
    ours: str
    operations: tuple[Operation, ...] = ()


@dataclass(frozen=True)
class Source:
    """Where one of our tensors is stored: the name in the file, and how it becomes ours."""

    name: str
    operations: tuple[Operation, ...]

    def load(self, tensor: Any) -> Any:
        for operation in self.operations:
            tensor = operation.load(tensor)
        return tensor

    def save(self, tensor: Any) -> Any:
        for operation in reversed(self.operations):
            tensor = operation.save(tensor)
        return tensor

    def shape(self, ours: Shape) -> Shape:
        for operation in reversed(self.operations):
            ours = operation.shape(ours)
        return ours


@dataclass(frozen=True)
class Format:
    """One published format.

    model_type  how its config.json calls itself
    keys        their keys that set a field of ours
    required    their keys that change the mathematics, and the only value that we compute
    harmless    their keys that change no number of a forward pass
    weights     their tensors
    buffers     patterns of stored tensors that are no parameters
    prefix      what their names may begin with, or not
    writes      further keys of a config.json that we write
    """

    model_type: str
    keys: tuple[Key, ...]
    weights: tuple[Rule, ...]
    required: Mapping[str, Any] = field(default_factory=dict)
    harmless: frozenset[str] = frozenset()
    buffers: tuple[str, ...] = ()
    prefix: str = ""
    writes: Mapping[str, Any] = field(default_factory=dict)

    def read_config(self, theirs: dict[str, Any]) -> DTransformerConfig:
        """Our config.  Raises ConfigError: a key nobody has thought about, or a value that we do not compute."""
        for key, value in self.required.items():
            if theirs.get(key, value) != value:
                raise ConfigError(
                    f"{key} = {theirs[key]!r} is not computed, only {key} = {value!r}. "
                    f"Loading it anyway would give wrong numbers without any error."
                )
        known = {key.theirs for key in self.keys} | set(self.required) | self.harmless | OUR_KEYS
        if unknown := sorted(set(theirs) - known):
            close = get_close_matches(unknown[0], known, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{unknown[0]} = {theirs[unknown[0]]!r} has no rule: it might change the numbers.{hint}")
        return DTransformerConfig.from_dict({key.ours: key.read(theirs) for key in self.keys})

    def write_config(self, config: DTransformerConfig) -> dict[str, Any]:
        """Their config.json for this config, which `expresses` allows."""
        ours = config.to_dict()
        return {"model_type": self.model_type, **self.writes} | {key.theirs: key.write(ours) for key in self.keys}

    def expresses(self, config: DTransformerConfig) -> bool:
        """True where what would be written reads back as the same config."""
        try:
            return self.read_config(self.write_config(config)) == config
        except ConfigError:
            return False

    def sources(self, ours: Iterable[str], L: int) -> Iterator[tuple[str, Source]]:
        """(one of our names, where the table says that it is stored), for those of our names that a model has."""
        wanted = set(ours)
        for rule in self.weights:
            for l in range(L if "{l}" in rule.ours else 1):
                if (name := rule.ours.format(l=l)) in wanted:
                    yield name, Source(rule.theirs.format(l=l), rule.operations)

    def plan(
        self, config: DTransformerConfig, ours: Mapping[str, Shape], stored: Mapping[str, Entry], file: object
    ) -> dict[str, Source]:
        """{our name: where to find it in the file}, for every tensor of the model; twins of a tied one besides.

        Args:
            config: sizes and choices of the model.
            ours: the shape of each of its tensors.
            stored: the header of the file.
            file: named in errors.

        Raises:
            CheckpointError: a tensor is missing, extra, stored twice, mis-shaped, or not floating point.
        """
        planned = dict(self.sources(ours, config.L))
        names = self._names(stored, {source.name for source in planned.values()}, file)
        twins = TIED if config.tied else {}  # need not be stored
        planned = {name: source for name, source in planned.items() if name not in twins or source.name in names}
        _check_names({source.name for source in planned.values()}, names, file)
        found = {name: Source(names[source.name], source.operations) for name, source in planned.items()}
        _check_entries({name: (source, source.shape(ours[name])) for name, source in found.items()}, stored, file)
        return found

    def _names(self, stored: Iterable[str], known: set[str], file: object) -> dict[str, str]:
        """{the table's name: the name in the file}, without wrappers, with the prefix that the file may lack."""
        names: dict[str, str] = {}
        for name in stored:
            bare = unwrapped(name)
            full = bare if bare in known or bare.startswith(self.prefix) else self.prefix + bare
            if full in names:
                raise CheckpointError(
                    f"{file}: {names[full]} and {name} are both {full}: only one of them can be meant."
                )
            names[full] = name
        return {full: name for full, name in names.items() if not any(fnmatchcase(full, p) for p in self.buffers)}


#: What we add to any format's config.json: facts about the folder, none about the mathematics.
OUR_KEYS = frozenset({"model_type", "transformulary"})


def unwrapped(name: str) -> str:
    """The name without what wrappers of a module have put in."""
    for wrapper in WRAPPERS:
        while name.startswith(wrapper) or f".{wrapper}" in name:
            name = name.removeprefix(wrapper).replace(f".{wrapper}", ".")
    return name


def _check_names(wanted: set[str], names: dict[str, str], file: object) -> None:
    missing, extra = sorted(wanted - set(names)), sorted(set(names) - wanted)
    if missing:
        near = get_close_matches(missing[0], extra, 1, cutoff=0.8)
        hint = f" It has {names[near[0]]}, which nothing needs: is it misspelt?" if near else ""
        raise CheckpointError(f"{file} lacks {_some(missing)}, which the model needs.{hint}")
    if extra:
        near = get_close_matches(extra[0], wanted, 1, cutoff=0.8)
        hint = f" The nearest name that has one is {near[0]}." if near else ""
        raise CheckpointError(f"{file} has {_some([names[e] for e in extra])}, for which there is no rule.{hint}")


def _check_entries(planned: dict[str, tuple[Source, Shape]], stored: Mapping[str, Entry], file: object) -> None:
    kinds: dict[str, str] = {}
    for name, (source, shape) in planned.items():
        entry = stored[source.name]
        if entry.shape != shape:
            raise CheckpointError(f"{file}: {source.name} has shape {entry.shape}; {name} needs {shape}.")
        if entry.dtype not in FLOATS:
            raise CheckpointError(
                f"{file}: {source.name} holds {entry.dtype}; a parameter is one of {', '.join(FLOATS)}."
            )
        kinds.setdefault(entry.dtype, source.name)
    if len(kinds) > 1:
        told = ", ".join(f"{name} in {kind}" for kind, name in kinds.items())
        raise CheckpointError(f"{file} mixes precisions ({told}), and a model computes in one.")


def _some(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more tensors"

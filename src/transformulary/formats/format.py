"""What a format is: tables that say how another program's names and numbers are ours.

`Format` reads a config.json, plans where each of our tensors comes from, and writes both back; the
tables do not know the direction.  Nothing here needs torch: operations take NumPy arrays and tensors alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats.names import TIED, Shape, shapes
from transformulary.formats.rules import (
    LAYERS,
    SHAPES,
    Head,
    Origin,
    Rule,
    check_names,
    check_stored,
    classes,
    like,
    unwrapped,
)
from transformulary.formats.sources import Stored
from transformulary.paper import Config, DTransformerConfig, Top
from transformulary.paper.top import GIVES_TOKENS

#: The default of a key that must be there: of a size that follows from no other.
NEEDED = object()


@dataclass(frozen=True)
class Key:
    """One key of their config.json and the field of ours that it sets.

    default  what their code takes where the key is missing; a function of their config, or None (our own default),
             also where it is null; NEEDED where the key must be there
    values   their value -> ours; the first that gives our value is written back
    """

    theirs: str
    ours: str
    default: Any = None
    values: Mapping[Any, Any] | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        return {self.theirs: self.default}

    def read(self, theirs: dict[str, Any]) -> Any:
        given = theirs.get(self.theirs)
        if given is None and self.default is not None and not callable(self.default):
            raise ConfigError(f"{self.theirs} is null, and nothing says which value is meant. Give one.")
        if given is None:
            return None
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


@dataclass(frozen=True)
class Keys:
    """Several of their keys that set fields of ours together.

    theirs    the keys that it understands
    read      their config -> our fields; raises ConfigError for a value that we do not compute
    write     our fields -> their keys
    defaults  as of a `Key`; a key that is not there may be missing, and others say what is meant
    """

    theirs: tuple[str, ...]
    read: Callable[[dict[str, Any]], dict[str, Any]]
    write: Callable[[dict[str, Any]], dict[str, Any]]
    defaults: Mapping[str, Any] = field(default_factory=dict)


def flag(theirs: dict[str, Any], name: str) -> bool:
    """Whether a key is true; false where it is missing or null.  Raises ConfigError for what is neither."""
    given = theirs.get(name)
    if given is not None and type(given) is not bool:
        raise ConfigError(f"{name} = {given!r} is neither true nor false.")
    return bool(given)


@dataclass(frozen=True)
class Format:
    """One published format.

    model_type  how its config.json calls itself
    keys        their keys that set a field of ours, or several together
    fixed       our fields that no key of theirs can change
    required    their keys that change the mathematics, and the only value that we compute
    harmless    their keys that change no number of a forward pass
    weights     their tensors
    heads       what may stand on top of the layers; the first whose mark is stored does
    copies      their tensors that, where they are stored too, are another one
    unused      patterns of stored parameters that we compute nothing with
    buffers     patterns of stored tensors that are no parameters
    prefix      what their names may begin with, or not
    refused     architectures, as config.json calls them, that we do not compute, and what they have of their own
    sees        tensors on whose presence the config depends: "stored" in what `keys` read lists those that there are
    writes      further keys of a config.json that we write
    kind        the class of its configs
    """

    model_type: str
    keys: tuple[Key | Keys, ...]
    weights: tuple[Rule, ...]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    required: Mapping[str, Any] = field(default_factory=dict)
    harmless: frozenset[str] = frozenset()
    heads: tuple[Head, ...] = ()
    copies: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    prefix: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    sees: frozenset[str] = frozenset()
    writes: Mapping[str, Any] = field(default_factory=dict)
    kind: type[Config] = DTransformerConfig

    def read_config(self, theirs: dict[str, Any]) -> Config:
        """Our config.  Raises ConfigError: a key nobody has thought about, or a value that we do not compute."""
        for key, value in self.required.items():
            if theirs.get(key, value) != value:
                raise ConfigError(
                    f"{key} = {theirs[key]!r} is not computed, only {key} = {value!r}. "
                    f"Loading it anyway would give wrong numbers without any error."
                )
        known = {name for key in self.keys for name in _theirs(key)} | set(self.required) | self.harmless | OUR_KEYS
        if unknown := sorted(set(theirs) - known):
            close = get_close_matches(unknown[0][:100], known, 1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{unknown[0]} = {theirs[unknown[0]]!r} has no rule: it might change the numbers.{hint}")
        if missing := [name for name in self.needed if theirs.get(name) is None]:
            raise ConfigError(
                f"missing or null: {', '.join(missing)}. Nothing else says what is meant there: give them."
            )
        given, whole = dict(self.fixed), self.completed(theirs)
        for entry in self.keys:
            given |= _fields(entry, whole)
        try:
            return self.kind.from_dict({name: value for name, value in given.items() if value is not None})
        except ConfigError as error:
            called = self.called(error.field, theirs)
            raise ConfigError(f"{called}: {error}" if called else str(error)) from None

    def called(self, ours: str, theirs: dict[str, Any]) -> str:
        """The keys of theirs that say one of our fields, those that are there if any; "" where the name is ours."""
        whole = self.completed(theirs)
        for entry in self.keys:
            if ours in _fields(entry, whole):
                names = [name for name in _theirs(entry) if name in theirs] or _theirs(entry)[:1]
                return "" if [*names] == [ours] else ", ".join(names)
        return ""

    @property
    def needed(self) -> list[str]:
        """The keys that must be there."""
        return [name for key in self.keys for name, default in key.defaults.items() if default is NEEDED]

    def completed(self, theirs: dict[str, Any]) -> dict[str, Any]:
        """Their config, which has all that is needed, with the defaults of what it lacks."""
        whole = dict(theirs)
        for key in self.keys:
            for name, default in key.defaults.items():
                if callable(default) and whole.get(name) is None:
                    whole[name] = default(whole)
                elif default is not NEEDED:
                    whole.setdefault(name, default)
        return whole

    def assumed(self, theirs: dict[str, Any]) -> dict[str, Any]:
        """What nothing in their config says, which has been read: the keys that it lacks, with their defaults."""
        whole = self.completed(theirs)
        return {name: value for name, value in whole.items() if name not in theirs and value is not None}

    def write_config(self, config: Config) -> dict[str, Any]:
        """Their config.json for this config, which `expresses` allows."""
        ours, theirs = config.to_dict(), {"model_type": self.model_type, **self.writes}
        for key in self.keys:
            theirs |= _written(key, ours)
        return theirs

    def expresses(self, config: Config) -> bool:
        """True where what would be written reads back as the same config."""
        return self.lacks(config) is None

    def lacks(self, config: Config) -> str | None:
        """What of a config the format has no words for; None if it has them all."""
        if not isinstance(config, self.kind):
            return f"it has no words for a {type(config).__name__}."
        try:
            again = self.read_config(self.write_config(config)).to_dict()
        except ConfigError as error:
            return str(error)
        ours = config.to_dict()
        lost = [name for name in ours if ours[name] != again[name]]
        return f"it has no word for {lost[0]} = {ours[lost[0]]!r}, only for {again[lost[0]]!r}." if lost else None

    def kept(self, theirs: dict[str, Any], other: Format) -> dict[str, Any]:
        """The keys of a config.json that change no number, as far as the format in which it is saved knows them."""
        anew = WRITTEN_ANEW - {"architectures"} if other is self else WRITTEN_ANEW
        names = self.harmless & other.harmless - anew | OUR_KEYS - {"model_type"}
        return {name: value for name, value in theirs.items() if name in names}

    def head(self, stored: Iterable[str]) -> Head | None:
        """The head of a model by what its file holds; None where the format knows only one kind of model."""
        names = {unwrapped(name) for name in stored}
        return next((h for h in self.heads if not h.mark or any(like(name, h.mark) for name in names)), None)

    def top_said(self, theirs: dict[str, Any]) -> Top | None:
        """What stands on top of the layers by the `architectures` of a config.json; None where these do not tell."""
        said = theirs.get("architectures")
        heads = [h for h in self.heads if isinstance(said, list) and {h.architecture, *h.also} & {*map(str, said)}]
        if self.heads and not heads:
            return None
        named, n = theirs.get("id2label"), theirs.get("num_labels")
        N_C = len(named) if isinstance(named, dict) else n if isinstance(n, int) else USUAL_CLASSES
        return Top(heads[0].gives, N_C if heads[0].gives == "classes" else 0) if heads else GIVES_TOKENS

    def origins(self, config: Config, head: Head | None = None, N_C: int = 1) -> Iterator[tuple[str, Origin]]:
        """(one of our names, where the table says that it is stored), for every tensor that the model has."""
        ours = self.shapes(config, head, N_C)
        for rule in self.rules(head):
            for theirs, names in rule.everywhere(config):
                begin, heights = 0, [ours[name][0] for name in names if name in ours]
                for name, height in zip(names if heights else (), heights, strict=True):
                    rows, whole = slice(begin, begin + height), (sum(heights), *ours[name][1:])
                    yield name, Origin(theirs, rule.operations, whole, rows)
                    begin += height

    def stored(
        self, config: Config, tensors: Mapping[str, Any], joined: Callable[[list[Any]], Any]
    ) -> Iterator[tuple[str, Any]]:
        """(their name, tensor) of what a file holds: one copy of what is tied.  `joined` stacks tensors of ours."""
        twins = TIED if config.tied else {}
        for rule in (*self.weights, *(rule for head in self.heads for rule in head.weights)):
            for theirs, names in rule.everywhere(config):
                found = [tensors[name] for name in names if name in tensors and name not in twins]
                if found:
                    tensor = found[0] if len(found) == 1 else joined(found)
                    for operation in reversed(rule.operations):
                        tensor = operation.save(tensor, config)
                    yield theirs, tensor

    def plan(self, config: Config, stored: Mapping[str, Stored], file: object) -> dict[str, Origin]:
        """{our name: where to find it in the file}, for every tensor of the model; a twin only if it is stored.

        Args:
            config: sizes and choices of the model.
            stored: the tensors of the file.
            file: named in errors.

        Raises:
            CheckpointError: a tensor is missing, extra, stored twice, mis-shaped, or not floating point.
        """
        L = max(getattr(config, name, 0) for name in LAYERS.values())
        if L > len(stored):
            raise CheckpointError(
                f"{file} has {len(stored)} tensors, and its config describes {L} layers: they do not belong "
                f"together, or one of them is damaged."
            )
        head = self.head(stored)
        N_C = classes(stored, head)
        planned = dict(self.origins(config, head, N_C))
        names = self.names(stored, file, self.used(config, head))
        twins = TIED if config.tied else {}  # need not be stored
        planned = {name: origin for name, origin in planned.items() if name not in twins or origin.name in names}
        meant = dict(place for rule in self.rules(head) for place in rule.everywhere(config))
        wanted = {origin.name for origin in planned.values()}
        check_names(wanted, names, meant, self.shapes(config, head, N_C), file)
        found = {name: replace(origin, name=names[origin.name]) for name, origin in planned.items()}
        check_stored(found, stored, file)
        return found

    def used(self, config: Config, head: Head | None) -> list[str]:
        """The tensors, {l} being the layer, that a model with this config and head may have."""
        return [rule.theirs for rule in self.rules(head) if rule.holds(config)]

    def rules(self, head: Head | None) -> tuple[Rule, ...]:
        """What is said of the tensors of a model with this head."""
        return (*self.weights, *(head.weights if head else ()))

    def shapes(self, config: Config, head: Head | None, N_C: int) -> Mapping[str, Shape]:
        """Our tensors of a model with this head."""
        return shapes(config) if head is None else SHAPES[head.gives](config, N_C)

    def names(self, stored: Iterable[str], file: object, used: list[str]) -> dict[str, str]:
        """{the table's name: the name in the file} of what is no buffer and not unused; a copy may stand alone.

        Names are without wrappers, and with the prefix that a file may lack.  Raises CheckpointError where two tensors
        have one name.
        """
        names: dict[str, str] = {}
        for name in stored:
            full = self.full(name, used)
            if full in names:
                raise CheckpointError(
                    f"{file}: {names[full]} and {name} are both {full}: only one of them can be meant."
                )
            names[full] = name
        for copy, original in self.copies.items():
            if copy in names and copy not in used:
                names.setdefault(original, names.pop(copy))
        spare = (*self.buffers, *self.unused)
        return {full: name for full, name in names.items() if not self.spare(full, used, spare)}

    def full(self, name: str, used: Iterable[str]) -> str:
        """The table's name of a stored tensor."""
        bare = unwrapped(name)
        known = (*used, *self.copies, *self.unused)
        whole = bare.startswith(self.prefix) or any(like(bare, pattern) for pattern in known)
        return bare if whole else self.prefix + bare

    def spare(self, full: str, used: Iterable[str], patterns: Iterable[str]) -> bool:
        """Whether a tensor is meant by one of the patterns, and by no rule."""
        return any(like(full, p) for p in patterns) and not any(like(full, p) for p in used)


#: How many classes a config.json means that does not say.
USUAL_CLASSES = 2
#: What we add to any format's config.json: facts about the folder, none about the mathematics.
OUR_KEYS = frozenset({"model_type", "transformulary"})
#: What is said of the parameters as they are saved.
WRITTEN_ANEW = frozenset({"architectures", "dtype", "torch_dtype"})


def _fields(key: Key | Keys, theirs: dict[str, Any]) -> dict[str, Any]:
    """Our fields that one entry of the table sets."""
    try:
        return key.read(theirs) if isinstance(key, Keys) else {key.ours: key.read(theirs)}
    except ConfigError:
        raise
    except (TypeError, ValueError, ArithmeticError, KeyError) as error:  # a value of another kind than is meant
        said = ", ".join(f"{name} = {theirs[name]!r}" for name in _theirs(key) if theirs.get(name) is not None)
        raise ConfigError(f"{said or _theirs(key)[0]} makes no sense here ({error}).") from None


def _written(key: Key | Keys, ours: dict[str, Any]) -> dict[str, Any]:
    """Their keys that one entry of the table writes."""
    return key.write(ours) if isinstance(key, Keys) else {key.theirs: key.write(ours)}


def _theirs(key: Key | Keys) -> tuple[str, ...]:
    return key.theirs if isinstance(key, Keys) else (key.theirs,)

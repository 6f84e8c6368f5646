"""What a checkpoint says: which format it is in, its config in our words, and the arrays of the oracle's theta."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats.bart import BART
from transformulary.formats.bert import BERT
from transformulary.formats.format import Format
from transformulary.formats.gguf_models import GGUF_GPT2, GGUF_LLAMA
from transformulary.formats.gpt2 import GPT2
from transformulary.formats.gpt_neo import GPT_NEO
from transformulary.formats.layers import MOST
from transformulary.formats.llama import LLAMA
from transformulary.formats.marian import MARIAN
from transformulary.formats.mistral import MISTRAL
from transformulary.formats.names import TIED, member, place
from transformulary.formats.nanogpt import NANOGPT
from transformulary.formats.native import NATIVE
from transformulary.formats.pooling import Pooling
from transformulary.formats.qwen2 import QWEN2, QWEN3
from transformulary.formats.rules import Head, Offset, Origin, classes, unwrapped
from transformulary.formats.sources import Source, config_file, has_parameters, holds_parameters, open_source
from transformulary.formats.strict import read_json
from transformulary.formats.t5 import T5
from transformulary.paper import Config, DTransformerConfig, Top, TwoStacks
from transformulary.paper.top import GIVES_TOKENS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: In the order of preference: a model is saved in the first format that can express its config.
FORMATS = (GPT2, GPT_NEO, LLAMA, MISTRAL, QWEN2, QWEN3, BERT, MARIAN, BART, T5, *NATIVE)
#: Those that can be read.
READABLE = (*FORMATS, NANOGPT, GGUF_GPT2, GGUF_LLAMA)
#: What a config calls the list of those tensors of which it depends whether they are there.
STORED = "stored"
#: What Algorithm 9c calls its parameters -> our tensors.
ON_TOP = {"W_pool": "W_pool.weight", "b_pool": "W_pool.bias", "W_c": "W_c.weight", "b_c": "W_c.bias"}
#: The id2label that `transformers` writes where nobody has said how many classes there are.
UNSAID = {"0": "LABEL_0", "1": "LABEL_1"}
#: No size but the number of layers is larger.
MOST_ELEMENTS = 10**9
#: Formats near to these, and the line that we have no place for.
REFUSED = {
    "gemma": "norms that multiply by 1 + gamma",
    "gemma2": "norms that multiply by 1 + gamma, and norms after each half of a layer",
    "phi3": "W_q, W_k and W_v, and gate and up, in one matrix each",
    "mixtral": "several MLPs of which a router chooses",
}


@dataclass(frozen=True)
class Described:
    """A checkpoint with what its config says in our words, and by which tables."""

    source: Source
    format: Format
    config: Config

    def __repr__(self) -> str:
        return f"<{self.format.model_type}: {self.source.path}>"

    @cached_property
    def head(self) -> Head | None:
        """What stands on top of the layers, where the format says that files differ in it."""
        return self.format.head(self.source.tensors)

    @property
    def gives(self) -> str:
        """What the model gives: "tokens", or, of an encoder, also "classes" or "vectors"."""
        return self.head.gives if self.head else "tokens"

    @property
    def decoder(self) -> DTransformerConfig:
        """The config of a decoder.  Raises CheckpointError where the model is another."""
        if isinstance(self.config, DTransformerConfig):
            return self.config
        verbs = "`translate` is" if isinstance(self.config, TwoStacks) else "`fill`, `classify` and `embed` are"
        raise CheckpointError(
            f"{self.source.path} holds a {self.format.model_type}, which is no decoder: {verbs} for such models."
        )

    @property
    def N_C(self) -> int:
        """The number of classes, of a model that gives those.  Raises CheckpointError where there is none."""
        if n := classes(self.source.tensors, self.head):
            return n
        raise CheckpointError(f"{self.source.path} has no row for any class: N_C = 0, and there must be at least one.")

    @property
    def top(self) -> Top:
        """What stands on top of the layers, with the number of classes."""
        return Top(self.gives, self.N_C if self.gives == "classes" else 0)

    @property
    def labels(self) -> list[str]:
        """What config.json calls the classes, of a model that gives those; where it does not say, their numbers.

        Raises CheckpointError where it names other classes, or not all of them; UNSAID names none.
        """
        names = [str(i) for i in range(self.N_C)]
        said = self.source.config.get("id2label") or UNSAID
        if isinstance(said, dict) and {*said} == {*names} and all(isinstance(name, str) for name in said.values()):
            return [said[i] for i in names]
        if said == UNSAID:
            return names
        raise CheckpointError(
            f"{self.source.config_path}: id2label does not name the classes 0 to {self.N_C - 1} of the weights, "
            f"each by a text. Mend it, or take it out."
        )

    @cached_property
    def pooling(self) -> Pooling:
        """How a text gets one vector.  Raises CheckpointError as `Pooling.read` does."""
        return Pooling.read(self.source.folder, self.config.d_e)

    def kept(self) -> Iterator[tuple[str, str]]:
        """(name to be saved under, name in the file) of what is saved as it was: parts that we compute nothing with."""
        used = self.format.used(self.config, self.head)
        for name in self.source.tensors:
            if self.format.spare(self.format.full(name, used), used, self.format.unused):
                yield unwrapped(name), name

    def unread(self) -> Iterator[tuple[str, str, int]]:
        """(name to be saved under, name in the file, how many) of first rows that are saved as they were."""
        for origin in self.plan.values():
            for offset in origin.operations:
                if isinstance(offset, Offset):
                    yield unwrapped(origin.name), origin.name, offset.rows

    @property
    def prefixed(self) -> bool:
        """Whether the names in the file have the prefix that they may lack."""
        prefix = self.format.prefix
        return any(unwrapped(origin.name).startswith(prefix) for origin in self.plan.values())

    @property
    def dtype(self) -> str:
        """The type of the parameters, in safetensors' words: all have the same."""
        return next(self.source.tensors[origin.name].dtype for origin in self.plan.values())

    @cached_property
    def plan(self) -> dict[str, Origin]:
        """{our tensor: where it is stored}.  Raises CheckpointError as `Format.plan` does."""
        return self.format.plan(self.config, self.source.tensors, self.source.path)


def describe(where: str | Path | Source, form: Format | None = None) -> Described:
    """Open a checkpoint and read its config.

    Args:
        where: what `open_source` finds, or has found.
        form: the tables by which it is read; None takes those of the model_type that its config says.

    Raises CheckpointError: there is none (`open_source`), its model_type is unknown, or its config has a key without
    a rule, a value that we do not compute, or impossible sizes.
    """
    source = where if isinstance(where, Source) else open_source(where, needs_config=form is None)
    form, config = understood(source.config, source.config_path, source.tensors, form)
    return Described(source, form, config)


@dataclass(frozen=True)
class Outline:
    """What a checkpoint is, as far as it is known without its numbers.

    assumed  what its config.json does not say: the keys that it lacks, with the values that they have by default
    """

    config: Config
    top: Top = GIVES_TOKENS
    assumed: Mapping[str, Any] = field(default_factory=dict)


def outline(where: str | Path, form: Format | None = None) -> Outline:
    """What a checkpoint, or a config.json, describes; of files of parameters only those that hold their own config.

    Nothing but the standard library is loaded, unless it is an encoder that gives classes, or whose config.json does
    not say what it gives: that is then read from the names and shapes of its tensors, if these are there.

    Args: as for `describe`; `where` may be a config.json.

    Raises CheckpointError as `config_file` and `describe` do, and for more layers or elements than any model has:
    without weights nothing else would contradict them.
    """
    file = config_file(where, needs_config=form is None)
    if holds_parameters(file):
        found = describe(file, form)
        _check_sizes(found.config, found.source.config, found.format, file)
        return Outline(found.config, found.top)
    theirs = read_json(file)
    form, config = understood(theirs, file, form=form)
    _check_sizes(config, theirs, form, file)
    return Outline(config, _top(file, theirs, form), form.assumed(theirs))


def _top(file: Path, theirs: dict[str, Any], form: Format) -> Top:
    """What stands on top by a config.json, which may be wrong about the number of classes, or by the tensors."""
    said = form.top_said(theirs)
    if (said is None or said.N_C) and file.name == "config.json" and has_parameters(file.parent):
        return describe(file.parent, form).top
    return said or GIVES_TOKENS


def config_of(where: str | Path) -> Config:
    """The config of a checkpoint, or of a config.json, without its weights.  Raises CheckpointError as `outline`."""
    return outline(where).config


def _check_sizes(config: Config, theirs: dict[str, Any], form: Format, file: Path) -> None:
    """Raises CheckpointError where a config has more layers or elements than any model."""
    sizes = {f.name: getattr(config, f.name) for f in fields(config) if f.type == "int"}
    if isinstance(config, DTransformerConfig):
        members = (member for mask in config.mask for member in mask.members)
        sizes["mask"] = max((n for member in members for n in astuple(member)), default=0)
    for name, n in sizes.items():
        most = MOST if name.startswith("L") else MOST_ELEMENTS
        if n > most:
            called = form.called(name, theirs)
            said = f"{called} ({name})" if called else name
            raise CheckpointError(f"{file}: {said} is more than {most:,}, and no model has so many: is it damaged?")


def understood(
    theirs: dict[str, Any], file: object, stored: Iterable[str] = (), form: Format | None = None
) -> tuple[Format, Config]:
    """The format and the config that their config.json describes.

    Args:
        theirs: its content.
        file: named in errors.
        stored: the tensors that are there; none where only the config is known.
        form: as for `describe`.

    Raises CheckpointError as `describe` does.
    """
    kind = theirs.get("model_type")
    form = form or next((known for known in READABLE if known.model_type == kind), None)
    if form is None and isinstance(kind, str) and kind in REFUSED:
        raise CheckpointError(f"{file}: {kind} has {REFUSED[kind]}, which we do not compute.")
    if form is None:
        readable = ", ".join(known.model_type for known in READABLE)
        raise CheckpointError(
            f"{file}: model_type = {kind!r} is none of those that can be read: {readable}. Say which of "
            f"these it is stored as, or give tables of your own: --format, or in `describe` and `diff` --stored."
        )
    for architecture in _said(theirs.get("architectures"), form.refused):
        raise CheckpointError(f"{file}: {architecture} gives {form.refused[architecture]}, which we do not compute.")
    seen = sorted({unwrapped(name) for name in stored} & form.sees)
    try:
        return form, form.read_config(theirs | ({STORED: seen} if stored and form.sees else {}))
    except (ValueError, RecursionError) as error:  # ConfigError, or a value too long or too deep to be shown
        raise CheckpointError(f"{file}: {error}") from None


def _said(architectures: Any, among: Iterable[str]) -> list[str]:
    return [name for name in among if isinstance(architectures, list) and name in architectures]


def format_for(config: Config) -> Format:
    """The first format that reads back exactly this config from what it writes; our own always does."""
    return next(known for known in FORMATS if known.expresses(config))


def written_as(described: Described, config: Config, to: str | None = None) -> Format:
    """The format in which a checkpoint is saved: `to`, or the one that it has, or the first that can say the same.

    Raises ConfigError: there is no format `to` that is written, or it cannot express the config.
    """
    if to is None:
        own = described.format
        return own if own in FORMATS and own.expresses(config) else format_for(config)
    form = next((known for known in FORMATS if known.model_type == to), None)
    if form is None:
        raise ConfigError(f"no format {to!r} is written, only {', '.join(known.model_type for known in FORMATS)}.")
    if why := form.lacks(config):
        raise ConfigError(f"{described.source.path} cannot be written as {to}: {why}")
    return form


def theta_source(source: Source) -> tuple[Config, Callable[[str, str], NDArray[np.float64]]]:
    """What the oracle needs of a checkpoint, each array read when it is asked for.

    Returns the config and `array(name, shape)`, which gives the array of theta that `Theta.items` calls `name`
    ("W[3].W_q[2]") in float64, a copy; `oracle.theta_from` takes it as it is.  Only the tensor that holds it is read.

    Raises CheckpointError as `describe` and `Format.plan` do, and where tied tensors differ.
    """
    import numpy as np

    described = describe(source)
    stored = theta_stored(described)
    return described.config, lambda name, shape: np.array(stored(name, shape), np.float64, order="C")


def theta_stored(described: Described) -> Callable[[str, str], NDArray[Any]]:
    """As `theta_source`, but array(name, shape) gives the numbers as they are stored, mapped from the file if possible.

    `oracle.lazy_theta` takes it.  Raises as `theta_source` does.
    """
    read = reader(described)

    def array(name: str, _: str) -> NDArray[Any]:
        if name in ON_TOP:
            return read(ON_TOP[name])
        return member(described.config, name, read(place(described.config, name)[0]))  # type: ignore[no-any-return]

    return array


def reader(described: Described) -> Callable[[str], NDArray[Any]]:
    """The function that reads one of our tensors; the checkpoint as a whole has been checked.

    Raises CheckpointError as `Format.plan` does, and where tied tensors differ.
    """
    plan = described.plan
    _check_twins(described, plan)
    stored = lru_cache(maxsize=3)(described.source.array)  # every head asks for its part of W_q, W_k and W_v

    def read(name: str) -> NDArray[Any]:
        if name not in plan:
            gives = described.head.gives if described.head else "something else"
            raise CheckpointError(f"{described.source.path} has no {name}: it is a model that gives {gives}.")
        return plan[name].load(stored(plan[name].name), described.config)  # type: ignore[no-any-return]

    return read


def _check_twins(described: Described, plan: dict[str, Origin]) -> None:
    """Raises CheckpointError where the config, or the format, says that two tensors are one, and the file differs."""
    import numpy as np

    source, bare = described.source, {unwrapped(name): name for name in described.source.tensors}
    copies = described.format.copies.items() if described.config.tied else ()
    pairs = [(bare[a], bare[b]) for a, b in copies if a in bare and b in bare]
    pairs += [(plan[a].name, plan[b].name) for a, b in TIED.items() if described.config.tied and a in plan]
    for one, other in pairs:
        if not np.array_equal(source.array(one), source.array(other)):
            raise CheckpointError(
                f"{source.path}: {one} and {other} differ, and the config says that they are tied: "
                f"which of them is meant is anyone's guess."
            )

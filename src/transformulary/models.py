"""Where a checkpoint becomes a model with its tokenizer, and back: the ecosystem's files, safely read and written.

config.json             sizes and choices; in the words of a published family that can express them, else in ours
model.safetensors       the parameters
tokenizer.json          the vocabulary
generation_config.json  how to generate by default
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformulary.errors import ConfigError, DataError
from transformulary.files import claimed, new_folder, unfinished, write_together
from transformulary.formats import (
    INDEX,
    READERS,
    TIED,
    Described,
    Format,
    Pooling,
    apart,
    classes,
    copied,
    describe,
    format_for,
    named_format,
    parts,
    read_json,
    reader,
    unwrapped,
    written_as,
)
from transformulary.nn import DTransformer, EClassifier, EDTransformer, EEmbedder, ETransformer, Transformer
from transformulary.paper import Config, DTransformerConfig, EDTransformerConfig, PreEDTransformerConfig
from transformulary.tokens import Tokenizer, load_tokenizer

#: The types in which parameters may be stored.
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
#: The same by the names of PyTorch.
PRECISIONS = {str(dtype).removeprefix("torch."): dtype for dtype in DTYPES.values()}
#: The content of files by their names.
Files = dict[str, bytes | str]


@dataclass(frozen=True)
class Loaded:
    """A checkpoint in memory.

    model       in the precision in which it is stored, not training
    tokenizer   None where the folder, or the GGUF file, has none that we read
    generation  the content of generation_config.json, in its own words; empty where there is none
    described   what it was loaded from, and by which tables
    """

    model: Transformer
    tokenizer: Tokenizer | None
    generation: dict[str, Any]
    described: Described

    def __repr__(self) -> str:
        return f"<Loaded: {type(self.model).__name__}, {self.described!r}, {self.tokenizer!r}>"

    def __call__(self, *sequences: Tensor, **more: Any) -> Any:
        """What the model computes: logits, classes or vectors.  Arguments and errors as for its `forward`."""
        return self.model(*sequences, **more)

    def save(self, folder: str | Path) -> None:
        """Write the model as it is now, in the format that it came from, with the files of its vocabulary as they are.

        As `models.save` does.
        """
        model, described = bare(self.model, Transformer), self.described
        dtype = str(model.W_e.weight.dtype).removeprefix("torch.")
        files = _converted(described, _named(model), written_as(described, model.config), dtype)
        if isinstance(model, EEmbedder) and _pooling(model) != described.pooling:
            files |= _pooling(model).files(model.config.d_e)
        _write(Path(folder), files)


def load(where: str | Path, form: str | Format | None = None) -> Loaded:
    """A model, on the processor, with its tokenizer and its settings for generation.

    Args:
        where: a folder, a file, or the name of a model in the Hugging Face cache: all that `open_source` finds.
        form: how it is stored, where its config.json does not say: a format, its name, or a file.py with tables.

    Raises:
        CheckpointError: a file is missing or damaged, a tensor is missing, extra or mis-shaped, a config key has no
            rule, or the tokenizer is not the one that the model was saved with; the message names file and tensor.
        ConfigError: there is no such format.
    """
    described = describe(where, named_format(form) if isinstance(form, str) else form)
    generation = described.source.folder / "generation_config.json"
    return Loaded(
        model=_load_model(described),
        tokenizer=load_tokenizer(described),
        generation=read_json(generation) if generation.is_file() else {},
        described=described,
    )


def decoder(loaded: Loaded) -> DTransformer:
    """The model, which is a decoder.  Raises CheckpointError where it is another."""
    _ = loaded.described.decoder
    return bare(loaded.model, DTransformer)


def save(
    folder: str | Path,
    model: nn.Module,
    tokenizer: Tokenizer | None = None,
    generation: Mapping[str, Any] | None = None,
) -> None:
    """Write a folder that `load` and `transformers` read.

    Wherever this is cut short, the folder holds the old model, the new one, or none that `load` would take; on a full
    disk, the old one (`files.write_together`).

    Args:
        folder: made if it is missing.
        model: one of `transformulary.nn`, compiled or wrapped or not; its precision is kept.
        tokenizer: the one that the model was trained with; its hash is stored, so that no other is taken for it.
        generation: further keys of generation_config.json, `temperature` say.
    """
    model = bare(model)
    form = format_for(model.config)
    ends = {"bos_token_id": tokenizer and tokenizer.bos_token, "eos_token_id": tokenizer and tokenizer.eos_token}
    about = {"dtype": str(model.W_e.weight.dtype).removeprefix("torch."), **ends}
    theirs = form.write_config(model.config) | about | {"transformulary": {"tokenizer": tokenizer and tokenizer.hash}}
    files = tokenizer.files() if tokenizer else {}
    files |= {"generation_config.json": _json({**ends, **(generation or {})})}
    files |= _pooling(model).files(model.config.d_e) if isinstance(model, EEmbedder) else {}
    _write(Path(folder), files | _model_files(form, model.config, _named(model), theirs))


def convert(
    where: str | Path,
    out: str | Path,
    to: str | None = None,
    dtype: str | None = None,
    overwrite: bool = False,
    form: str | Format | None = None,
) -> Described:
    """Write a checkpoint anew, whole or not at all: the same numbers, the same vocabulary, in files of today.

    Args:
        where: all that `open_source` finds.
        out: a new or empty folder.
        to: the `model_type` of another format that can say the same; None is the format that it has, or, where that is
            only read, the first that can.
        dtype: float64, float32, float16 or bfloat16; None keeps the one that it has.
        overwrite: `out` may hold a model, which is replaced.
        form: as for `load`.

    Returns what is at `out` now.

    Raises:
        ConfigError: there is no such format, or it cannot express this model; no such dtype, or one in which a number
            would become infinite; another process is writing to `out`.
        CheckpointError: as `load` does.
        DataError: `out` holds something, or with `overwrite` something other than a model.
    """
    described = describe(where, named_format(form) if isinstance(form, str) else form)
    written = written_as(described, described.config, to)
    if dtype is not None and dtype not in PRECISIONS:
        raise ConfigError(f"dtype = {dtype!r} is none of {', '.join(PRECISIONS)}.")
    stored = PRECISIONS[dtype or str(DTYPES[described.dtype]).removeprefix("torch.")]
    tensors = {name: _in(stored, name, tensor) for name, tensor in _tensors(described).items()}
    files = _converted(described, tensors, written, str(stored).removeprefix("torch."))
    if overwrite and Path(out).is_dir() and any(Path(out).iterdir()):
        with claimed(out):
            _rewrite(Path(out), files)
            return describe(out)
    with new_folder(out) as folder:
        _write(folder, files)
    return describe(out)


Kind = TypeVar("Kind", bound=Transformer)


def bare(model: nn.Module, kind: type[Kind] = Transformer) -> Kind:  # type: ignore[assignment]
    """The model, of that kind, inside what torch.compile and parallel training wrap around it."""
    while not isinstance(model, kind):
        inner = next((m for name, m in model.named_children() if unwrapped(f"{name}.") == ""), None)
        assert inner is not None, f"{type(model).__name__} is no {kind.__name__}"
        model = inner
    return model


def _pooling(model: EEmbedder) -> Pooling:
    return Pooling(model.pooling, model.normalised)


def _named(model: nn.Module) -> dict[str, Tensor]:
    """The model's tensors by our names."""
    inner = bare(model, Transformer)
    state: dict[str, Tensor] = inner.state_dict()
    return apart(inner.config, {unwrapped(name): tensor for name, tensor in state.items()})


def _model_files(form: Format, config: Config, tensors: Mapping[str, Tensor], theirs: dict[str, Any]) -> Files:
    """The parameters, and a config.json that says what kind of model they are."""
    stored = dict(form.stored(config, tensors, torch.cat))
    head = form.head(stored)
    theirs = {"architectures": [head.architecture], **theirs} if head else theirs
    n = classes(stored, head)
    if head and head.gives == "classes" and len(theirs.get("id2label") or ()) != n:
        labels = [f"LABEL_{i}" for i in range(n)]  # which is how `transformers` learns how many there are
        theirs |= {"id2label": dict(enumerate(labels)), "label2id": {label: i for i, label in enumerate(labels)}}
    return {"model.safetensors": _bytes(stored), "config.json": _json(theirs)}


def _bytes(stored: Mapping[str, Tensor]) -> bytes:
    return to_bytes({name: tensor.contiguous().cpu() for name, tensor in stored.items()}, {"format": "pt"})


def _converted(described: Described, tensors: Mapping[str, Tensor], form: Format, dtype: str) -> Files:
    """The files of a checkpoint with these tensors: its vocabulary and its settings are copied as they are.

    In its own format, names have the prefix that they had, and what we compute nothing with comes along.
    """
    source, config = described.source, described.config
    files: Files = {name: (source.folder / name).read_bytes() for name in copied(source.folder)}
    about: dict[str, Any] = {"dtype": dtype}
    if source.vocabulary and (tokenizer := load_tokenizer(described)):  # inside the file of the parameters
        ends = {"bos_token_id": tokenizer.bos_token, "eos_token_id": tokenizer.eos_token}
        files |= tokenizer.files() | {"generation_config.json": _json(ends)}
        about |= ends
    theirs = form.write_config(config) | described.format.kept(source.config, form) | about
    files |= _model_files(form, config, tensors, theirs)
    if form is described.format:
        prefix = "" if described.prefixed else form.prefix
        stored = {name.removeprefix(prefix): t for name, t in form.stored(config, tensors, torch.cat)}
        more = {name: _kept(described, at, PRECISIONS[dtype]) for name, at in described.kept()}
        for name, at, rows in described.unread():
            stored[name][:rows] = _in(stored[name].dtype, at, torch.tensor(source.array(at)[:rows]))
        files["model.safetensors"] = _bytes(stored | more)
    return files


def _write(folder: Path, files: Files, gone: Collection[str] = frozenset()) -> None:
    """Write the files of a model, without mixing them with those of another."""
    write_together(folder, files, "config.json", gone)


def _rewrite(folder: Path, files: Files) -> None:
    """Put a model in the place of another, of which nothing stays, or of what a killed process has left of one.

    Raises DataError: there is none.
    """
    begun = [path for name in files for path in unfinished(folder / name)]
    if not begun and not (folder / "config.json").is_file():
        raise DataError(f"{folder} holds no model to be replaced, and is not empty: nothing is overwritten.")
    parameters = [path.name for path in folder.iterdir() if path.suffix in READERS or path.name.endswith(INDEX)]
    left = [path.relative_to(folder).as_posix() for path in begun]
    _write(folder, files, {*copied(folder), *parameters, *left} - {*files})


def _tensors(described: Described) -> dict[str, Tensor]:
    """Every tensor of a checkpoint by our names, a tied one once."""
    read, dtype = reader(described), DTYPES[described.dtype]
    twins = TIED if described.config.tied else {}
    return {name: torch.tensor(read(name), dtype=dtype) for name in described.plan if name not in twins}


def _kept(described: Described, name: str, dtype: torch.dtype) -> Tensor:
    """A tensor that we compute nothing with, as it was; where the model is saved in another precision, in that one."""
    tensor, own = torch.tensor(described.source.array(name)), described.source.dtypes[name]
    if own not in DTYPES:  # no real numbers
        return tensor
    return _in(DTYPES[own] if dtype == DTYPES[described.dtype] else dtype, name, tensor)


def _in(dtype: torch.dtype, name: str, tensor: Tensor) -> Tensor:
    """The tensor in another precision.  Raises ConfigError where a number is too large for it."""
    found = tensor.to(dtype)
    if (found.isinf() & ~tensor.isinf()).any():
        raise ConfigError(
            f"{name} has {float(tensor.abs().max()):.4g}, and {str(dtype).removeprefix('torch.')} ends at "
            f"{torch.finfo(dtype).max:.4g}: it would become infinite. Take another dtype."
        )
    return found


#: What a model gives, or the class of its config -> such a model, of what is `Described`.
MODELS: dict[object, Callable[[Any], Transformer]] = {
    DTransformerConfig: lambda described: DTransformer(described.config),
    EDTransformerConfig: lambda described: EDTransformer(described.config),
    PreEDTransformerConfig: lambda described: EDTransformer(described.config),
    "tokens": lambda described: ETransformer(described.config),
    "vectors": lambda described: EEmbedder(described.config, described.pooling.pooling, described.pooling.normalised),
    "classes": lambda described: EClassifier(described.config, described.N_C),
}


def _load_model(described: Described) -> Transformer:
    tensors, config, head = _tensors(described), described.config, described.head
    with torch.device("meta"), Undrawn():  # shapes only
        model = MODELS[head.gives if head else type(config)](described)
    state = {
        name: nn.Parameter(torch.cat([tensors.pop(part) for part in parts(name)]))
        for name in model.state_dict()
        if not (config.tied and name in TIED)
    }
    state |= {twin: state[original] for twin, original in TIED.items() if config.tied and twin in model.state_dict()}
    model.load_state_dict(state, assign=True)
    return model.eval()


class Undrawn(TorchFunctionMode):
    """Inside, nothing of torch.nn.init runs: shapes have no numbers, and PyTorch takes seconds to find that out."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        drawn = getattr(func, "__module__", "") == nn.init.__name__
        return (*args, *kwargs.values())[0] if drawn else func(*args, **(kwargs or {}))


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True) + "\n"

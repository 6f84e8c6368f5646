"""Where a checkpoint lies: a folder, one file, shards, a GGUF file, a Hugging Face cache or its hub.  No torch.

Whatever it is, it becomes a `Source`: their config and their tensors, each read when it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from transformulary.errors import CheckpointError
from transformulary.formats import hub
from transformulary.formats.header import read_header
from transformulary.formats.strict import read_json

if TYPE_CHECKING:  # reading a config loads no NumPy
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: The types of numbers of a safetensors file, for NumPy; bfloat16 is read as its bits.
NUMPY = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip


@dataclass(frozen=True)
class Stored:
    """One tensor of a file.

    dtype  the type of its numbers, in safetensors' words
    shape  as stored
    read   gives the numbers: mapped from the file where that is possible
    """

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], Array]


@dataclass(frozen=True)
class Source:
    """A checkpoint as it lies on disk.

    path     what was found, for messages: the file, or the index of its shards
    config_path  the file that says the config: config.json, or `path` itself where that holds it
    config   their config.json; of a GGUF file its metadata, of nanoGPT's ckpt.pt its model_args
    tensors  their tensors by their names
    vocabulary  of a GGUF file: reads its metadata about tokens, by their names after `tokenizer.ggml.`
    """

    path: Path
    config_path: Path
    config: dict[str, Any]
    tensors: Mapping[str, Stored]
    vocabulary: Callable[[], dict[str, Any]] | None = None

    @property
    def folder(self) -> Path:
        """Where its other files are, the tokenizer's say."""
        return self.path.parent

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """{name: shape}."""
        return {name: tensor.shape for name, tensor in self.tensors.items()}

    @property
    def dtypes(self) -> dict[str, str]:
        """{name: type of its numbers}: "F32", "BF16"..."""
        return {name: tensor.dtype for name, tensor in self.tensors.items()}

    def array(self, name: str) -> Array:
        """The numbers of one tensor: as they are stored, but bfloat16 as float32 and quantised ones as float32."""
        return self.tensors[name].read()


#: What is in one file of parameters: the tensors, and the config where it holds that too.
Content = tuple[dict[str, Stored], dict[str, Any] | None]


def read_safetensors(path: Path) -> Content:
    """The tensors of one safetensors file, mapped into memory.  Raises CheckpointError as `read_header` does."""
    import numpy as np

    entries = read_header(path)
    start = path.stat().st_size - max((entry.end for entry in entries.values()), default=0)
    data = np.memmap(path, np.uint8, "r") if entries else np.empty(0, np.uint8)

    def reader(begin: int, end: int, dtype: str, shape: tuple[int, ...]) -> Callable[[], Array]:
        def read() -> Array:
            numbers = data[start + begin : start + end].view(NUMPY[dtype]).reshape(shape)
            return bfloat16(numbers) if dtype == "BF16" else numbers

        return read

    return {
        name: Stored(entry.dtype, entry.shape, reader(entry.begin, entry.end, entry.dtype, entry.shape))
        for name, entry in entries.items()
    }, None


def bfloat16(bits: Array) -> Array:
    """The float32 numbers whose upper halves are these 16 bits: bfloat16, without loss."""
    return (bits.astype("u4") << 16).view("f4")


def read_pickled(path: Path) -> Content:
    """What torch.save has written: a pytorch_model.bin, or nanoGPT's ckpt.pt with its config."""
    from transformulary.formats.pickled import read

    return read(path)


def read_gguf(path: Path) -> Source:
    """A GGUF file."""
    from transformulary.formats.gguf import read

    return read(path)


#: The second and later files of a split model.
LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")
#: The files beside the parameters that are the same whatever these are called: vocabulary, generation, pooling.
COPIED = re.compile(
    r"(generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|encoder|chat_template)\.json"
    r"|(modules|sentence_bert_config|config_sentence_transformers|[0-9]_Pooling/config)\.json"
    r"|(vocab|merges)\.txt|vocab\.bpe|chat_template\.jinja|[\w.]+\.(spm|model)"
)
#: How the index of shards ends.
INDEX = ".index.json"
#: How a folder calls its parameters, the preferred first.
STORED = ("model.safetensors", "pytorch_model.bin", "ckpt.pt")
#: Who reads a file of parameters.
READERS = {".safetensors": read_safetensors, ".bin": read_pickled, ".pt": read_pickled, ".pth": read_pickled}


def open_source(where: str | Path, needs_config: bool = True) -> Source:
    """The checkpoint at a path, in the Hugging Face cache under `org/name`, or on the hub at `hf://org/name`.

    Args:
        where: a folder with config.json and parameters (model.safetensors, pytorch_model.bin, either in shards with an
            index, or one .gguf file, split or not), or with nanoGPT's ckpt.pt; one file of parameters with config.json
            beside it; a ckpt.pt; a .gguf file, or any of those into which it was split; the name of a model that was
            downloaded before; or `hf://org/name`, which downloads it.
        needs_config: a file of parameters without a config.json beside it is an error; else its config is empty.

    Raises:
        CheckpointError: nothing is there; a file is missing, damaged or no such file; the message names it.
        MissingExtra: it needs PyTorch (pytorch_model.bin), the gguf package, or huggingface_hub.
    """
    path = _existing(where)
    file = (_parameters(path) or _nothing(path)) if path.is_dir() else path
    if not file.is_file():
        raise CheckpointError(
            f"{file} is no file: a model is not read from a pipe or a device. Save it in a file first."
        )
    if file.suffix == ".gguf":
        return read_gguf(file)
    if file.name.endswith(INDEX):
        return _beside(file, _shards(file), needs_config)
    if file.suffix not in READERS:
        raise CheckpointError(f"{file} is none of the files that hold a model: {', '.join([*READERS, '.gguf'])}.")
    tensors, config = READERS[file.suffix](file)
    return _beside(file, tensors, needs_config) if config is None else Source(file, file, config, tensors)


def config_file(where: str | Path, needs_config: bool = True) -> Path:
    """The file that says the config of a checkpoint, whose parameters need not be there.

    Args:
        where: as in `open_source`, or the file itself: config.json, whatever it is called.
        needs_config: as in `open_source`; else it may be the file of the parameters.

    Raises CheckpointError: there is none.
    """
    path = _existing(where, weights=False)
    file = (_parameters(path) or _config_file(path)) if path.is_dir() else path
    if file.suffix in SAYING or not holds_parameters(file):
        return file
    return _config_file(file.parent, file) if needs_config or (file.parent / "config.json").is_file() else file


#: How files of parameters end that say their own config, or may.
SAYING = (".gguf", ".pt")


def holds_parameters(path: Path) -> bool:
    """Whether a file of this name holds parameters, or says where they are."""
    return path.suffix in (*READERS, *SAYING) or path.name.endswith(INDEX)


def has_parameters(folder: Path) -> bool:
    """Whether a folder holds the parameters of a model."""
    return _parameters(folder) is not None


def copied(folder: Path) -> list[str]:
    """The names in a folder of those files that stay the same when the parameters are saved anew."""
    files = [path for path in (*folder.iterdir(), *folder.glob("*/config.json")) if path.is_file()]
    names = sorted(path.relative_to(folder).as_posix() for path in files)
    return [name for name in names if COPIED.fullmatch(name)]


def _existing(where: str | Path, weights: bool = True) -> Path:
    if where == "":
        raise CheckpointError("the name of the model is empty. Name its folder or file; . is the current folder.")
    if str(where).startswith(hub.SCHEME):
        return hub.download(str(where), COPIED, STORED if weights else ())
    return Path(where) if Path(where).exists() else hub.cached(str(where))


def _parameters(folder: Path) -> Path | None:
    """The file of parameters in a folder, or the index of its shards; None if it has none, or several .gguf files."""
    files = [folder / f"{name}{more}" for name in STORED for more in ("", INDEX)]
    packed = _packed(folder)
    return next((file for file in files if file.is_file()), packed[0] if len(packed) == 1 else None)


def _packed(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.gguf")) if not LATER_PART.search(path.name)]


def _nothing(folder: Path) -> NoReturn:
    """Raises CheckpointError that says what a folder lacks."""
    _config_file(folder)
    packed = _packed(folder)
    several = f" It has {len(packed)} .gguf files: name one of them." if packed else ""
    raise CheckpointError(
        f"{folder} has no {' nor '.join(STORED)}, whole or in shards, nor one .gguf file: it holds no model.{several}"
    )


def _beside(path: Path, tensors: dict[str, Stored], needs_config: bool) -> Source:
    if not needs_config and not (path.parent / "config.json").is_file():
        return Source(path, path, {}, tensors)
    config = _config_file(path.parent, path)
    return Source(path, config, read_json(config), tensors)


def _config_file(folder: Path, parameters: Path | None = None) -> Path:
    """Raises CheckpointError: there is none; `parameters` is the file beside which it should be."""
    path = folder / "config.json"
    if not path.is_file() and parameters:
        raise CheckpointError(
            f"{parameters} has no config.json beside it, which says what model it is. If you have tables that say it, "
            f"give them: --format, or in `describe` and `diff` --stored."
        )
    if not path.is_file():
        raise CheckpointError(f"{folder} has no config.json: a model is a folder with config.json and its parameters.")
    return path


def _shards(index: Path) -> dict[str, Stored]:
    """The tensors of all files that an index names."""
    files = read_json(index).get("weight_map")
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise CheckpointError(f"{index} has no weight_map that says in which file each tensor is.")
    for file in sorted(set(files.values())):
        path = index.parent / file
        if path.name != file or path.suffix not in READERS:
            raise CheckpointError(f"{index}: {file!r} is no file of parameters beside it.")
        if not path.is_file():
            raise CheckpointError(f"{index} names {file}, and it is not there: the download is incomplete.")
    tensors: dict[str, Stored] = {}
    for path in sorted({index.parent / file for file in files.values()}):
        for name, tensor in READERS[path.suffix](path)[0].items():
            if files.get(name) != path.name:
                raise CheckpointError(f"{path} has {name}, which {index.name} says is in {files.get(name, 'no file')}.")
            tensors[name] = tensor
    if lost := sorted(set(files) - set(tensors)):
        raise CheckpointError(f"{index}: {lost[0]} is not in {files[lost[0]]}, where it should be.")
    return tensors

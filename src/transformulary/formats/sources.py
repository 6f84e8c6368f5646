"""Where a checkpoint lies: a folder, one file, shards, a Hugging Face cache, a GGUF file.  No torch, no network.

Whatever it is, it becomes a `Source`: their config and their tensors, each read when it is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformulary.errors import CheckpointError
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
    folder   where its other files are (the tokenizer's say)
    config   their config.json; of a GGUF file its metadata
    tensors  their tensors by their names
    vocabulary  of a GGUF file: reads its metadata about tokens, by their names after `tokenizer.ggml.`
    """

    path: Path
    folder: Path
    config: dict[str, Any]
    tensors: Mapping[str, Stored]
    vocabulary: Callable[[], dict[str, Any]] | None = None

    @property
    def config_path(self) -> Path:
        """The file that says the config."""
        return self.path if self.path.suffix == ".gguf" else self.folder / "config.json"

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


def read_safetensors(path: Path) -> dict[str, Stored]:
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
    }


def bfloat16(bits: Array) -> Array:
    """The float32 numbers whose upper halves are these 16 bits: bfloat16, without loss."""
    return (bits.astype("u4") << 16).view("f4")


def read_pickled(path: Path) -> dict[str, Stored]:
    """The tensors of a pytorch_model.bin."""
    from transformulary.formats.pickled import read

    return read(path)


def read_gguf(path: Path) -> Source:
    """A GGUF file."""
    from transformulary.formats.gguf import read

    return read(path)


#: The second and later files of a split model.
LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")
#: How the parameters of a folder may be stored, the preferred first, and who reads such a file.
STORED = {"model.safetensors": read_safetensors, "pytorch_model.bin": read_pickled}
READERS = {".safetensors": read_safetensors, ".bin": read_pickled, ".pt": read_pickled, ".pth": read_pickled}


def open_source(where: str | Path) -> Source:
    """The checkpoint at a path, or in the Hugging Face cache under `org/name`.

    Args:
        where: a folder with config.json and parameters (model.safetensors, pytorch_model.bin, either in shards with an
            index, or one .gguf file, split or not); one file of parameters with config.json beside it; a .gguf file, or
            any of those into which it was split; or the name of a model that was downloaded before.

    Raises:
        CheckpointError: nothing is there; a file is missing, damaged or no such file; the message names it.
        MissingExtra: it needs PyTorch (pytorch_model.bin) or the gguf package.
    """
    path = _existing(where)
    if path.is_dir():
        return _folder(path)
    if path.suffix == ".gguf":
        return read_gguf(path)
    if path.name.endswith(".index.json"):
        return Source(path, path.parent, _config(path.parent), _shards(path))
    if path.suffix not in READERS:
        raise CheckpointError(f"{path} is none of the files that hold a model: {', '.join([*READERS, '.gguf'])}.")
    return Source(path, path.parent, _config(path.parent), READERS[path.suffix](path))


def config_file(where: str | Path) -> Path:
    """The file that says the config of a checkpoint, whose parameters need not be there.

    Args:
        where: as in `open_source`, or the file itself: config.json, whatever it is called, or a .gguf file.

    Raises CheckpointError: there is none.
    """
    path = _existing(where)
    if path.suffix in READERS or path.name.endswith(".index.json"):
        path = path.parent
    if not path.is_dir():
        return path
    unpacked = any((path / f"{name}{more}").is_file() for name in STORED for more in ("", ".index.json"))
    packed = [] if unpacked else sorted(path.glob("*.gguf"))
    return packed[0] if len(packed) == 1 else _config_file(path)


def _existing(where: str | Path) -> Path:
    if where == "":
        raise CheckpointError("the name of the model is empty. Name its folder or file; . is the current folder.")
    return Path(where) if Path(where).exists() else cached(str(where))


def _folder(folder: Path) -> Source:
    for name, read in STORED.items():
        file, index = folder / name, folder / f"{name}.index.json"
        if file.is_file():
            return Source(file, folder, _config(folder), read(file))
        if index.is_file():
            return Source(index, folder, _config(folder), _shards(index))
    found = [path for path in sorted(folder.glob("*.gguf")) if not LATER_PART.search(path.name)]
    if len(found) == 1:
        return read_gguf(found[0])
    _config(folder)
    several = f" It has {len(found)} .gguf files: name one of them." if found else ""
    raise CheckpointError(
        f"{folder} has no {' nor '.join(STORED)}, whole or in shards, nor one .gguf file: it holds no model.{several}"
    )


def _config(folder: Path) -> dict[str, Any]:
    return read_json(_config_file(folder))


def _config_file(folder: Path) -> Path:
    path = folder / "config.json"
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
        for name, tensor in READERS[path.suffix](path).items():
            if files.get(name) != path.name:
                raise CheckpointError(f"{path} has {name}, which {index.name} says is in {files.get(name, 'no file')}.")
            tensors[name] = tensor
    if lost := sorted(set(files) - set(tensors)):
        raise CheckpointError(f"{index}: {lost[0]} is not in {files[lost[0]]}, where it should be.")
    return tensors


def cached(name: str) -> Path:
    """The folder of a model in the Hugging Face cache; HF_HUB_CACHE and HF_HOME say where that is.

    Raises CheckpointError: it is no such name, or the cache does not have it.
    """
    cache = _cache()
    if not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", name, re.ASCII) or ".." in name:
        raise CheckpointError(f"{name} does not exist, and is no name of a model either (org/name).")
    repository = cache / f"models--{name.replace('/', '--')}"
    snapshots = sorted(repository.glob("snapshots/*"))
    main = repository / "refs" / "main"
    if main.is_file():
        commit = main.read_text(encoding="utf-8", errors="replace").strip()
        snapshots = [path for path in snapshots if path.name == commit]
    if not snapshots:
        raise CheckpointError(f"{name} does not exist, and the cache {cache} has no such model. Nothing is downloaded.")
    if len(snapshots) > 1:
        raise CheckpointError(f"{repository} has {len(snapshots)} versions: give the path of one of its snapshots.")
    return snapshots[0]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{home}/huggingface"
    return Path(os.environ.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()

"""What torch.save has written: the one kind of file that only PyTorch reads, and only with `weights_only`."""

from __future__ import annotations

import io
import zipfile
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numpy.typing import NDArray

from transformulary.errors import CheckpointError, require
from transformulary.formats.header import possible
from transformulary.formats.programs import made, operations
from transformulary.formats.sources import Content, Stored

#: What PyTorch calls the types of numbers -> what safetensors does.
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
#: What tensors by their names are made of, storages besides.  PyTorch would allow more, bytearray(10**12) for one.
ALLOWED = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"}
#: A larger list of names is no model's; the numbers are beside it.
MOST_BYTES = 2**24
#: The pickles of a file from before PyTorch 1.6.
OLD = ("its mark", "its version", "the machine", "the tensors", "the names of their numbers")


def read(path: Path) -> Content:
    """{name: tensor} of a file that torch.save has written, and no code in it is run.

    The numbers are mapped from the file into memory, unless it is from before PyTorch 1.6.

    nanoGPT's ckpt.pt has its tensors in "model" and its config in "model_args"; what else it holds is left there.

    Raises:
        CheckpointError: it is damaged, or holds anything but named tensors.
        MissingExtra: PyTorch is not installed.
    """
    require("torch", "torch", f"reading {path.name}")
    import torch

    archive = zipfile.is_zipfile(path)
    for program in _programs(path) if archive else _old_programs(path):
        _check(path, program)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=archive)
    except UnpicklingError:
        raise _refused(path) from None
    except Exception as error:  # a damaged file raises whatever its bytes happen to make of the reader
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path} cannot be read as weights ({first}).") from None
    config = None
    if isinstance(content, dict) and isinstance(content.get("model_args"), dict) and "model" in content:
        config = {**content["model_args"], "model_type": "nanogpt"}
        content = content["model"]
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise CheckpointError(f"{path} holds {type(content).__name__}, not tensors by their names.")
    return {name: _stored(path, name, tensor) for name, tensor in content.items()}, config


def _refused(path: Path) -> CheckpointError:
    return CheckpointError(f"{path} holds more than tensors, or is damaged: it is not read, no code is run.")


def _programs(path: Path) -> Iterator[bytes]:
    """The pickle in a zip archive, whose members are stored as they are: reading takes no more than the file's size.

    Raises CheckpointError: it is packed, or no such archive.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            packed = any(m.compress_type != zipfile.ZIP_STORED for m in members)
            packed = packed or sum(m.file_size for m in members) > path.stat().st_size
            programs = [m for m in members if m.filename.endswith("data.pkl") and m.file_size <= MOST_BYTES]
            program = archive.read(programs[0]) if len(programs) == 1 and not packed else b""
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise _refused(path) from None
    if packed:
        raise CheckpointError(f"{path} is packed as torch.save never packs: it would take more memory than its size.")
    yield program


def _old_programs(path: Path) -> Iterator[bytes]:
    """The pickles at the beginning of a file from before PyTorch 1.6; its numbers come after them."""
    with path.open("rb") as file:
        content = io.BytesIO(file.read(MOST_BYTES))
    for _ in OLD:
        begin = content.tell()
        try:
            deque(operations(content), 0)
        except Exception:  # a damaged file raises whatever its bytes happen to make of the reader
            raise _refused(path) from None
        yield content.getvalue()[begin : content.tell()]


def _check(path: Path, program: bytes) -> None:
    """Raises CheckpointError: a pickle makes anything but tensors, or claims more numbers than the file has bytes."""
    numbers: dict[Any, int] = {}
    try:
        for kind, one in made(program):
            if kind == "storage":
                _, _, key, _, n, *_ = (member.value for member in one.value)
                numbers[key] = int(n)
            elif str(one.value) not in ALLOWED and not _is_storage(str(one.value)):
                raise _refused(path)
    except Exception:  # as above
        raise _refused(path) from None
    if sum(numbers.values()) > path.stat().st_size:
        raise _refused(path)


def _is_storage(what: str) -> bool:
    module, _, name = what.partition(" ")
    return module == "torch" and name.endswith("Storage")


def _stored(path: Path, name: str, tensor: Any) -> Stored:
    import torch

    if not isinstance(tensor, torch.Tensor):
        nested = " If the parameters are inside, save that part alone." if isinstance(tensor, dict) else ""
        raise CheckpointError(f"{path}: {name} is {type(tensor).__name__}, not a plain tensor.{nested}")
    dtype = TYPES.get(str(tensor.dtype).removeprefix("torch."))
    larger = tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
    if dtype is None or larger or not possible(tuple(tensor.shape)):
        raise CheckpointError(f"{path}: {name} has {tensor.dtype} numbers in a layout that no parameter has.")
    return Stored(dtype, tuple(tensor.shape), _reader(tensor))


def _reader(tensor: Any) -> Callable[[], NDArray[Any]]:
    return lambda: (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).detach().numpy()

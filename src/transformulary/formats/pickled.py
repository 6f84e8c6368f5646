"""pytorch_model.bin: the one kind of file that only PyTorch reads, and only with `weights_only`."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numpy.typing import NDArray

from transformulary.errors import CheckpointError, require
from transformulary.formats.sources import Stored

#: What PyTorch calls the types of numbers -> what safetensors does.
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def read(path: Path) -> dict[str, Stored]:
    """{name: tensor} of a file that torch.save has written: mapped into memory, and no code in it is run.

    Raises:
        CheckpointError: it is damaged, holds anything but named tensors, or is older than PyTorch 1.6.
        MissingExtra: PyTorch is not installed.
    """
    require("torch", "torch", f"reading {path.name}")
    import torch

    _check_size(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except UnpicklingError:
        raise CheckpointError(
            f"{path} holds more than tensors, or is damaged: it is not read, no code is run."
        ) from None
    except Exception as error:  # a damaged file raises whatever its bytes happen to make of the reader
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{path} cannot be read as weights ({first}).") from None
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise CheckpointError(f"{path} holds {type(content).__name__}, not tensors by their names.")
    return {name: _stored(path, name, tensor) for name, tensor in content.items()}


def _check_size(path: Path) -> None:
    """The archive's members are stored as they are, so they cannot be larger than the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise CheckpointError(
            f"{path} is damaged, or older than PyTorch 1.6 (2020): load it and save it again with today's PyTorch."
        ) from None
    if any(m.compress_type != zipfile.ZIP_STORED for m in members) or sum(m.file_size for m in members) > (
        path.stat().st_size
    ):
        raise CheckpointError(f"{path} is packed as torch.save never packs: it would take more memory than its size.")


def _stored(path: Path, name: str, tensor: Any) -> Stored:
    import torch

    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_quantized:
        raise CheckpointError(f"{path}: {name} is {type(tensor).__name__}, not a plain tensor.")
    dtype = TYPES.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{path}: {name} has {tensor.dtype} numbers in a layout that no parameter has.")
    return Stored(dtype, tuple(tensor.shape), _reader(tensor))


def _reader(tensor: Any) -> Callable[[], NDArray[Any]]:
    return lambda: (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).detach().numpy()

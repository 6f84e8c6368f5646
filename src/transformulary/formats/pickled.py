"""What torch.save has written: the one kind of file that only PyTorch reads, and only with `weights_only`."""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numpy.typing import NDArray

from transformulary.errors import CheckpointError, require
from transformulary.formats.sources import Content, Stored

#: What PyTorch calls the types of numbers -> what safetensors does.
TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
#: What tensors by their names are made of, storages besides.  PyTorch would allow more, bytearray(10**12) for one.
ALLOWED = {"collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter"}
#: A larger list of names is no model's; the numbers are beside it.
MOST_BYTES = 2**26
#: Sizes, strides and where the numbers are: a tensor has a dozen.
LARGEST_TUPLE = 1000


def read(path: Path) -> Content:
    """{name: tensor} of a file that torch.save has written, mapped into memory, and no code in it is run.

    nanoGPT's ckpt.pt has its tensors in "model" and its config in "model_args"; what else it holds is left there.

    Raises:
        CheckpointError: it is damaged, holds anything but named tensors, or is older than PyTorch 1.6.
        MissingExtra: PyTorch is not installed.
    """
    require("torch", "torch", f"reading {path.name}")
    import torch

    _check(path)
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
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


def _check(path: Path) -> None:
    """What it takes to read the file is bounded by its size: nothing is packed, and nothing but tensors is made."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            packed = any(m.compress_type != zipfile.ZIP_STORED for m in members)
            packed = packed or sum(m.file_size for m in members) > path.stat().st_size
            programs = [m for m in members if m.filename.endswith("data.pkl") and m.file_size <= MOST_BYTES]
            program = archive.read(programs[0]) if len(programs) == 1 and not packed else b""
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise CheckpointError(
            f"{path} is damaged, or older than PyTorch 1.6 (2020): load it and save it again with today's PyTorch."
        ) from None
    if packed:
        raise CheckpointError(f"{path} is packed as torch.save never packs: it would take more memory than its size.")
    try:
        harmless = all(what in ALLOWED or _is_storage(what) for what in _made(program))
    except Exception:  # as above
        harmless = False
    if not harmless:
        raise _refused(path)


def _made(program: bytes) -> Iterator[str]:
    """What the program of a pickle would make, by name, itself not run.

    Raises ValueError where a tuple is larger than any that belongs to a tensor: made of a few that are made of a few,
    and so on, it is short in the file, and to hash it takes for ever.
    """
    stack: list[int | None] = []  # how many values each is made of, if it is a tuple; None is a mark
    memo: dict[Any, int | None] = {}
    for code, argument, _ in pickletools.genops(program):
        if code.name in ("GLOBAL", "STACK_GLOBAL"):
            yield str(argument)
        if "GET" in code.name:
            stack.append(memo[argument])
        elif "PUT" in code.name:
            memo[argument] = stack[-1]
        else:
            taken = _taken(stack, [kind.name for kind in code.stack_before])
            weight = 1 + sum(taken) if "TUPLE" in code.name else 1
            if weight > LARGEST_TUPLE:
                raise ValueError
            stack += [None if kind.name == "mark" else weight for kind in code.stack_after]


def _taken(stack: list[int | None], kinds: list[str]) -> list[int]:
    """Take from the stack what an operation takes."""
    taken: list[int | None] = []
    if "mark" in kinds:
        while (top := stack.pop()) is not None:
            taken.append(top)
        kinds = kinds[: kinds.index("mark")]
    taken += [stack.pop() for _ in kinds]
    return [weight or 1 for weight in taken]


def _is_storage(what: str) -> bool:
    module, _, name = what.partition(" ")
    return module == "torch" and name.endswith("Storage")


def _stored(path: Path, name: str, tensor: Any) -> Stored:
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise CheckpointError(f"{path}: {name} is {type(tensor).__name__}, not a plain tensor.")
    dtype = TYPES.get(str(tensor.dtype).removeprefix("torch."))
    if dtype is None or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{path}: {name} has {tensor.dtype} numbers in a layout that no parameter has.")
    return Stored(dtype, tuple(tensor.shape), _reader(tensor))


def _reader(tensor: Any) -> Callable[[], NDArray[Any]]:
    return lambda: (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).detach().numpy()

"""`training.safetensors` without PyTorch: what its header says, once the whole file has the checksum that it should."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from transformulary.errors import CheckpointError
from transformulary.formats.header import read_header, read_metadata
from transformulary.formats.strict import parse_object

NAME = "training.safetensors"
#: The versions that are written and read: of the file, and of what its header records of a run.
FORMAT, RECORD = 2, 1
#: What PyTorch calls the types of numbers.
TYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip
#: A tensor: name, PyTorch's type, shape, bytes.
Raw = tuple[str, str, tuple[int, ...], memoryview]


def checksum(text: str, tensors: Iterable[Raw]) -> str:
    """The fingerprint of a state: of the header's text and of its tensors, in the order of their names."""
    digest = hashlib.sha256(text.encode())
    for name, dtype, shape, data in sorted(tensors, key=lambda tensor: tensor[0]):
        digest.update(f"{name} {dtype} {shape}".encode())
        digest.update(data)
    return digest.hexdigest()


def read_state(path: Path) -> dict[str, Any]:
    """The header's text as an object.

    Raises CheckpointError, naming the file: it is truncated, damaged, no training state, or of another version.
    """
    entries, about = read_header(path), read_metadata(path)
    text = about.get("transformulary", "")
    header = parse_object(text.encode(errors="replace"), f"{path}: the header's text")
    if type(header.get("format")) is not int or header["format"] != FORMAT:
        raise CheckpointError(f"{path} has format {header.get('format')!r}; this version reads format {FORMAT}.")
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped, memoryview(mapped) as data:
        begin = len(data) - max((entry.end for entry in entries.values()), default=0)
        tensors = (
            (name, f"torch.{TYPES[e.dtype]}", e.shape, data[begin + e.begin : begin + e.end])
            for name, e in entries.items()
        )
        if about.get("sha256") != checksum(text, tensors):
            raise CheckpointError(f"{path} is damaged: its content does not have the checksum in its header.")
    return header

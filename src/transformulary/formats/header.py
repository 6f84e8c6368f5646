"""The header of a safetensors file, checked against the file's size before any tensor takes memory.

The file is: 8 bytes, the length n of the header, little-endian; n bytes of JSON,
{name: {"dtype", "shape", "data_offsets": [begin, end]}}; the numbers, without gaps or overlaps.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from math import prod
from os import SEEK_END
from pathlib import Path
from sys import byteorder
from typing import Any

from transformulary.errors import CheckpointError
from transformulary.formats.strict import parse_object

#: Bytes of one number.
DTYPES = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1,
    "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
LONGEST_HEADER = 100_000_000  # bytes; the format's own limit
#: No file of a model has so many, the largest ten thousand: more would take minutes.
MOST_TENSORS = 100_000
#: The sizes of a tensor, and what they multiply to where a 0 among them is left out.
MOST_SIZES, LARGEST = 32, 2**48


@dataclass(frozen=True)
class Entry:
    """One stored tensor: the type of its numbers, its shape, and where its bytes are."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_header(path: Path) -> dict[str, Entry]:
    """{name: Entry} of a safetensors file.

    Raises CheckpointError, naming the file and the tensor: the file is truncated or too long, the header is no
    such JSON or absurdly long, a name occurs twice, a shape is impossible or does not fit its bytes,
    or the tensors' bytes overlap or leave a gap.
    """
    entries, _, size = _content(path)
    _check_layout(path, entries, size)
    return entries


def read_metadata(path: Path) -> dict[str, str]:
    """What the header says beside the tensors.  Raises CheckpointError as `read_header` does."""
    entries, about, size = _content(path)
    _check_layout(path, entries, size)
    return about


def read_floats(path: Path, name: str) -> list[float] | None:
    """The float32 numbers of one tensor; None if there is no such tensor.

    Raises CheckpointError as `read_header` does, and for numbers of another type.
    """
    entries, _, size = _content(path)
    _check_layout(path, entries, size)
    if name not in entries:
        return None
    if entries[name].dtype != "F32":
        raise CheckpointError(f"{path}: {name} has the dtype {entries[name].dtype}, and F32 was due.")
    numbers = array("f")
    with path.open("rb") as file:
        file.seek(entries[name].begin - size, SEEK_END)
        numbers.frombytes(file.read(entries[name].end - entries[name].begin))
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()


def _content(path: Path) -> tuple[dict[str, Entry], dict[str, str], int]:
    """(the tensors, the texts beside them, bytes after the header)."""
    size = path.stat().st_size
    with path.open("rb") as file:
        n = int.from_bytes(file.read(8), "little")
        if size < 8 or n > min(size - 8, LONGEST_HEADER):
            raise CheckpointError(
                f"{path}: the header would be {n} bytes, the file has {size}: truncated, or no safetensors."
            )
        text = file.read(n)
    if text.count(b"{") > MOST_TENSORS:
        raise CheckpointError(
            f"{path}: the header has more than {MOST_TENSORS:,} tensors; no model has: is it damaged?"
        )
    content = parse_object(text, f"{path}: the header")
    about = content.pop("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(value, str) for value in about.values()):
        raise CheckpointError(f"{path}: __metadata__ in the header is not made of texts.")
    return {name: _entry(path, name, given) for name, given in content.items()}, about, size - 8 - n


def possible(shape: tuple[int, ...]) -> bool:
    """Whether NumPy and PyTorch have tensors of this shape: not all of one without numbers."""
    return len(shape) <= MOST_SIZES and prod(n or 1 for n in shape) <= LARGEST


def _entry(path: Path, name: str, given: Any) -> Entry:
    match given:
        case {"dtype": str(dtype), "shape": [*shape], "data_offsets": [begin, end], **rest} if (
            not rest and dtype in DTYPES and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        ):
            entry = Entry(dtype, tuple(shape), begin, end)
        case _:
            raise CheckpointError(f"{path}: the header's entry of {name} is not a dtype, a shape and two offsets.")
    if not possible(entry.shape):
        raise CheckpointError(f"{path}: {name} has {len(shape)} sizes, and no tensor has such: is it damaged?")
    if entry.end - entry.begin != prod(entry.shape) * DTYPES[dtype]:
        raise CheckpointError(
            f"{path}: {name} has {entry.end - entry.begin} bytes, and its shape {entry.shape} in {dtype} needs "
            f"{prod(entry.shape) * DTYPES[dtype]}."
        )
    return entry


def _check_layout(path: Path, entries: dict[str, Entry], size: int) -> None:
    """The tensors fill the `size` bytes after the header, one after another."""
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != position:
            raise CheckpointError(f"{path}: {name} begins at byte {entry.begin}, where byte {position} was due.")
        position = entry.end
    if position != size:
        what = "truncated" if position > size else "it has bytes that belong to no tensor"
        raise CheckpointError(f"{path}: the tensors need {position} bytes, the file has {size}: {what}.")

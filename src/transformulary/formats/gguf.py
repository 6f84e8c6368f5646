"""GGUF files, through the `gguf` package: metadata as a config, tensors dequantised to float32 when asked for."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import CheckpointError, require
from transformulary.formats.sources import Source, Stored

#: More entries of metadata (one per token, merge...) than any vocabulary has; the package makes an object of each.
MOST = 3_000_000
#: Bytes of one value, by type; 8 is a text, 9 a list.
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TEXT, LIST = 8, 9
#: What a tensor that is no parameter may hold.
WHOLE = {"I8": "I8", "I16": "I16", "I32": "I32", "I64": "I64", "F64": "F64"}


#: How the files of a split model are named: NAME-00001-of-00003.gguf.
PART = re.compile(r"(.*)-\d{5}-of-\d{5}\.gguf")
Fields = dict[str, Any]
#: What begins the names of metadata about tokens; to read them takes seconds, so it is done when they are asked for.
VOCABULARY = "tokenizer.ggml."


def read(path: Path) -> Source:
    """A GGUF file as a source: the config is its metadata of the architecture, `tensors` and `rope_freqs` besides.

    Of a split model, any of its files; the metadata is in the first.

    Raises:
        CheckpointError: it is damaged, has more metadata than any model, or is a part whose others are not there.
        MissingExtra: the gguf package is not installed.
    """
    require("gguf", "gguf", f"reading {path.name}")
    fields, tensors, vocabulary = _read(path)
    if (count := fields.get("split.count", 1)) != 1:
        files = [(part, *_read(part)) for part in _parts(path, count)]
        path, fields, _, vocabulary = files[0]
        tensors = {name: tensor for _, _, part, _ in files for name, tensor in part.items()}
        if len(tensors) != fields.get("split.tensors.count"):
            raise CheckpointError(
                f"{path} and the other {count - 1} files hold {len(tensors)} tensors, and the first says "
                f"{fields.get('split.tensors.count')}: they do not belong together."
            )
    return Source(path, path, _config(fields, tensors), tensors, vocabulary)


def _parts(path: Path, count: int) -> list[Path]:
    """All files of a split model."""
    if type(count) is not int or not 1 <= count < 10**5:
        raise CheckpointError(f"{path} says that it is one of {count!r} files: it is damaged.")
    named = PART.fullmatch(path.name)
    files = [path.with_name(f"{named[1]}-{k:05d}-of-{count:05d}.gguf") for k in range(1, count + 1)] if named else []
    if path not in files:
        raise CheckpointError(
            f"{path} is one of {count} files of a model, and the others are found by their names: they must end in "
            f"-00001-of-{count:05d}.gguf and so on."
        )
    if lost := [file.name for file in files if not file.is_file()]:
        raise CheckpointError(
            f"{path} is one of {count} files, and {lost[0]} is not there: the download is incomplete."
        )
    return files


def _read(path: Path) -> tuple[Fields, dict[str, Stored], Callable[[], Fields]]:
    """The metadata of one file, its tensors, and what reads the metadata about tokens."""
    from gguf import GGUFReader

    with _damaged(path):
        _check_size(path)
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}

    def vocabulary() -> Fields:
        with _damaged(path):
            about = [name for name in reader.fields if name.startswith("tokenizer.")]
            return {name.removeprefix(VOCABULARY): reader.fields[name].contents() for name in about}

    return fields, {tensor.name: _stored(path, tensor) for tensor in reader.tensors}, vocabulary


@contextmanager
def _damaged(path: Path) -> Iterator[None]:
    """A damaged file raises whatever its bytes happen to make of the reader."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        raise CheckpointError(f"{path} is damaged, or no GGUF file ({type(error).__name__}: {error}).") from None


def _config(fields: Fields, tensors: dict[str, Stored]) -> dict[str, Any]:
    architecture = fields.get("general.architecture")
    config = {name: value for name, value in fields.items() if name.startswith(f"{architecture}.")}
    if "token_embd.weight" in tensors:  # stored by some only
        config.setdefault(f"{architecture}.vocab_size", tensors["token_embd.weight"].shape[0])
    freqs = tensors.get("rope_freqs.weight")
    return {
        "model_type": f"gguf {architecture}",
        **config,
        "tensors": sorted(tensors),
        "rope_freqs": freqs and freqs.read().astype(float).tolist(),
    }


def _stored(path: Path, tensor: Any) -> Stored:
    kind = tensor.tensor_type.name
    shape = tuple(int(n) for n in reversed(tensor.shape))
    return Stored(WHOLE.get(kind, "F32"), shape, _reader(path, tensor, shape))


def _reader(path: Path, tensor: Any, shape: tuple[int, ...]) -> Callable[[], NDArray[Any]]:
    def numbers() -> NDArray[Any]:
        from gguf import dequantize

        if tensor.tensor_type.name in WHOLE:
            return np.asarray(tensor.data).reshape(shape)
        try:
            return dequantize(tensor.data, tensor.tensor_type).reshape(shape)
        except (NotImplementedError, ValueError) as error:
            raise CheckpointError(f"{path}: {tensor.name} cannot be dequantised ({error}).") from None

    return numbers


def _check_size(path: Path) -> None:
    """Count the entries of the metadata before the package makes an object of each."""
    with path.open("rb") as file:
        magic, version, tensors, entries = struct.unpack("<4sIQQ", file.read(24))
        if magic != b"GGUF" or version not in (2, 3):
            raise CheckpointError(f"{path} is no GGUF file of version 2 or 3.")
        count = tensors + entries
        for _ in range(entries if count <= MOST else 0):
            _skip_text(file)
            count += _skip(file, _number(file, "<I"), MOST - count)
            if count > MOST:
                break
    if count > MOST:
        raise CheckpointError(f"{path} has more than {MOST} entries of metadata: it is damaged, or no model.")


def _number(file: BinaryIO, kind: str) -> int:
    return int(struct.unpack(kind, file.read(struct.calcsize(kind)))[0])


def _skip_text(file: BinaryIO) -> None:
    file.seek(_number(file, "<Q"), 1)


def _skip(file: BinaryIO, kind: int, most: int, depth: int = 0) -> int:
    """Go past one value; how many values it is made of, counted no further than to more than `most`."""
    if kind == TEXT:
        _skip_text(file)
        return 1
    if kind != LIST:
        file.seek(SIZES[kind], 1)
        return 1
    inner, n = _number(file, "<I"), _number(file, "<Q")
    if n > most or depth > 3:
        return most + 1
    if inner in SIZES:
        file.seek(SIZES[inner] * n, 1)
        return n
    count = n
    for _ in range(n):
        count += _skip(file, inner, most - count, depth + 1)
        if count > most:
            break
    return count

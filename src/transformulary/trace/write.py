"""Run the oracle and write its values while they are computed; the folder appears whole or not at all."""

from __future__ import annotations

import json
import shutil
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from transformulary import __version__
from transformulary.errors import ConfigError
from transformulary.files import new_folder
from transformulary.oracle import Theta, watched
from transformulary.oracle.path import to_filename
from transformulary.oracle.precision import in_precision
from transformulary.oracle.values import numbers
from transformulary.oracle.whole import Model
from transformulary.paper import Config, Read
from transformulary.trace.names import names
from transformulary.trace.select import Selection, default
from transformulary.trace.values import Lines, axes, token_axis

Array = NDArray[Any]


def trace(
    theta: Theta,
    config: Config,
    x: Read | Sequence[int],
    out: str | Path,
    *,
    at: Iterable[str] = (),
    precision: str = "float64",
    format: str = "npz",
    about: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Run a model and write its values, each when it is computed, and an index of them.

    Args:
        theta: the parameters; a lazy theta keeps the memory at a small multiple of one layer.
        config: sizes and choices of the model.
        x: token ids, from 0; a `Read` where a model reads more than one sequence.
        out: a folder that does not exist yet, or is empty.
        at: paths with wildcards (`select`); `default` if there are none.
        precision: float64, or float32, bfloat16, float16: every operation rounds its result to it.
        format: npz (values.npz, one entry per path), safetensors (values.safetensors), or f32 (one raw file per
            value: little-endian float32, the last axis fastest).
        about: further keys of the index; "model_type" and "architecture" say which names of other programs there are.

    Returns:
        The index, as out/index.json holds it: "tokens", "context" and "segments" are what was read; "values" lists
        path, file, key, shape, axes, token_axis, dtype, algorithm, name, line, text and names of each.

    Raises:
        AlgorithmError: a path names no value of this model, or what is read is outside the algorithm's domain.
        ConfigError: there is no such precision or format.
        DataError: `out` holds something else.
        OSError: the files cannot be written; nothing is left of them.
    """
    if format not in FORMATS:
        raise ConfigError(f"format = {format!r} is none of {', '.join(FORMATS)}.")
    given, gives = Read.of(x), Model(config, theta).gives
    patterns = list(at) or default(config, gives)
    selection, lines = Selection(patterns, config, given, gives), Lines(config)
    model_type, architecture = ((about or {}).get(key, "") for key in ("model_type", "architecture"))
    model = Model(config, in_precision(theta, precision))
    values: list[dict[str, Any]] = []
    head = {"transformulary": __version__, **(about or {}), **_named(given), "precision": precision}
    with new_folder(out) as folder:
        with FORMATS[format](folder, np.float64 if precision == "float64" else np.float32) as write:

            def keep(path: str, value: Any) -> Any:
                if selection.wants(path):
                    array = numbers(value)
                    names_of_axes = axes(path, array)
                    values.append({
                        "path": path, **write(path, array), "shape": list(array.shape), "axes": names_of_axes,
                        "token_axis": token_axis(names_of_axes), **lines.about(path),
                        "names": names(path, config, model_type, len(given.x), architecture),
                    })  # fmt: skip
                return value

            model.run(watched(keep, selection.inside), given)
        index = head | {"format": format, "at": patterns, "config": config.to_dict(), "values": values}
        (folder / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return index


def _named(given: Read) -> dict[str, list[int]]:
    """What was read, as the index calls it."""
    read = {"tokens": given.x, "context": given.z, "segments": given.s}
    return {name: list(map(int, ids)) for name, ids in read.items() if ids or name == "tokens"}


class Writer(AbstractContextManager[Callable[[str, Array], dict[str, str]]]):
    """Writes values one after another: called with path and array, says in which file, under which key, as what."""

    def __init__(self, folder: Path, dtype: type[np.floating[Any]]) -> None:
        self.folder, self.dtype = folder, np.dtype(dtype).newbyteorder("<")

    def __enter__(self) -> Callable[[str, Array], dict[str, str]]:
        return self.write

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        return None

    def stored(self, array: Array) -> Array:
        """Whole numbers as int64; the others in the precision of the files."""
        whole = array.dtype.kind in "iub"
        return np.asarray(array, "<i8" if whole else self.dtype, order="C")

    @abstractmethod
    def write(self, path: str, array: Array) -> dict[str, str]:
        """Store one value; what the index says of where it is."""


class Npz(Writer):
    """values.npz: a zip archive of .npy files, as np.load reads it."""

    def __enter__(self) -> Callable[[str, Array], dict[str, str]]:
        self.archive = ZipFile(self.folder / "values.npz", "w")
        return self.write

    def write(self, path: str, array: Array) -> dict[str, str]:
        array = self.stored(array)
        with self.archive.open(ZipInfo(f"{path}.npy"), "w", force_zip64=True) as entry:  # a ZipInfo has no time in it
            np.lib.format.write_array(entry, array, allow_pickle=False)
        return {"file": "values.npz", "key": path, "dtype": str(array.dtype)}

    def __exit__(self, *_: object) -> None:
        self.archive.close()


class Safetensors(Writer):
    """values.safetensors: its header says where everything is, so the numbers wait in a file of their own."""

    def __enter__(self) -> Callable[[str, Array], dict[str, str]]:
        self.header: dict[str, Any] = {}
        self.data = (self.folder / "values.tmp").open("w+b")
        return self.write

    def write(self, path: str, array: Array) -> dict[str, str]:
        array, begin = self.stored(array), self.data.tell()
        self.data.write(array.tobytes())
        kind = {"f": "F", "i": "I"}[array.dtype.kind] + str(8 * array.dtype.itemsize)
        self.header[path] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [begin, self.data.tell()]}
        return {"file": "values.safetensors", "key": path, "dtype": str(array.dtype)}

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self.data:
            if kind is None:
                header = json.dumps(self.header).encode()
                header += b" " * (-len(header) % 8)
                self.data.seek(0)
                with (self.folder / "values.safetensors").open("wb") as file:
                    file.write(len(header).to_bytes(8, "little") + header)
                    shutil.copyfileobj(self.data, file)
        (self.folder / "values.tmp").unlink()


class Raw(Writer):
    """One file per value, its bare numbers as little-endian float32, the last axis fastest."""

    def write(self, path: str, array: Array) -> dict[str, str]:
        name = f"{to_filename(path)}.f32"
        (self.folder / name).write_bytes(array.astype("<f4").tobytes())
        return {"file": name, "key": "", "dtype": "float32"}


#: How values are written.
FORMATS: dict[str, type[Writer]] = {"npz": Npz, "safetensors": Safetensors, "f32": Raw}

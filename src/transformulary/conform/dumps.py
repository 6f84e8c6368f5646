"""Values that somebody else's program computed, as files: read by our paths, whatever they are called there.

A dump is a folder, or one `.npz` or `.safetensors` file.  In a folder every `.npy`, `.f32` and `.f64` file is one
value, named like the file, and `.npz` and `.safetensors` files hold several; `.f32` and `.f64` are plain
little-endian numbers, the last axis fastest, whose shapes stand in `shapes.json`, {"name": [rows, columns]}, in the
`index.json` of a trace, or are known to the caller, who else gets them as one row.
A name is a path, `10.6[l=1]/5.3`, or its form for file names, `10.6[l=1]+5.3`, or one that a renaming table knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from io import BytesIO
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import AlgorithmError, DataError, UserError
from transformulary.formats.header import Entry, read_header
from transformulary.formats.strict import parse_object
from transformulary.oracle.path import from_filename, parse
from transformulary.oracle.precision import PRECISIONS

Array = NDArray[Any]
Rename = Mapping[str, str | None]
#: So many unknown names are listed in a message.
MOST = 5
#: So many numbers more than any value has are read, so that what is wrong with them can be said; beyond, nothing is.
MORE = 2**20
#: Bytes within which the header of an array of NumPy's ends.
LONGEST_HEADER = 2**16


def read_dumps(
    place: str | Path,
    rename: Rename | None = None,
    known: Mapping[str, tuple[int, ...]] | None = None,
    tokens: str = "columns",
    most: int | None = None,
    check: Callable[[str, str], None] | None = None,
) -> dict[str, Array]:
    """{path: array} of a dump.

    Args:
        place: a folder, or one `.npz` or `.safetensors` file.
        rename: their name -> our path, or None for what is not to be read.  `{l}` and `{h}` in a name stand for a
            number counted from 0, `{l+1}` and `{h+1}` for one counted from 1, which fill `[l]` and `[h]` of the
            path: {"blocks.{l}.ln1": "10.5[l]"}.  Names that are not in the table must be paths.
        known: path -> shape of every value that there can be; without it any path and shape is taken.
        tokens: "columns", as in the paper, or "rows": matrices are then transposed.
        most: how many numbers the largest value can have; what has many more is not read.  Default: as `known` says.
        check: raises UserError for a path that the table says and that there is not; what is said of it comes second.

    Raises:
        DataError: a file is broken, of another kind or holds something else than real numbers; names are no
            paths, or not of known values; two names mean the same one; a shape is not the known one, or too large.
    """
    place = Path(place)
    if tokens not in ("columns", "rows"):
        raise DataError(f"tokens = {tokens!r} must be 'columns' or 'rows'.")
    if most is None and known:
        most = max(map(prod, known.values()))
    called = _Names(rename or {}, known, check)
    values: dict[str, Array] = {}
    entries = list(_entries(place))
    called.check([name for _, name, _ in entries], place)
    for where, name, stored in entries:
        path = called(name, where)
        if path is None:
            continue
        if most is not None and stored.size > most + MORE:
            raise DataError(
                f"{where}: {name} has {stored.size} numbers, and no value of this run has more than {most}: it was not "
                f"read. Either it is another value, or the run has other tokens than were given."
            )
        if path in values:
            raise DataError(f"{where}: {name} is {path}, which another name means too: one of them is wrong.")
        with _opening(where):
            values[path] = stored.read()
        values[path] = _shaped(values[path], path, where, known, tokens)
    return values


@dataclass(frozen=True)
class _Stored:
    """One array of a dump before it takes memory: the type of its numbers, how many they are, and what reads them."""

    dtype: Any
    size: int
    read: Callable[[], Array]


def _entries(place: Path) -> Iterator[tuple[Path, str, _Stored]]:
    """(file, name, array) of everything in a dump."""
    if not place.exists():
        raise DataError(f"{place} does not exist. A dump is a folder, or one .npz or .safetensors file.")
    files = sorted(place.iterdir()) if place.is_dir() else [place]
    raw = next((file for file in files if file.suffix in RAW), None)
    shapes = _shapes(raw.parent) if raw else None
    for file in files:
        if file.suffix == ".json" or file.name.startswith("."):
            continue  # says something about values, and holds none
        if file.suffix not in (*READERS, *RAW):
            raise DataError(f"{file} is none of {', '.join([*READERS, *RAW])}: what is in it, nobody can tell.")
        if not file.is_file():
            raise DataError(f"{file} is no file: a folder, a pipe or a device holds no values.")
        with _opening(file):
            found = _raw(file, shapes) if file.suffix in RAW else READERS[file.suffix](file)
        for name, stored in found.items():
            if stored.dtype.kind not in "fiub":
                raise DataError(f"{file}: {name} holds {stored.dtype}, and values are real numbers.")
            yield file, name, stored


@contextmanager
def _opening(file: Path) -> Iterator[None]:
    """Whatever readers trip over in bytes that are no such file, as a DataError."""
    try:
        yield
    except UserError:
        raise
    except Exception as wrong:
        if isinstance(wrong, OSError) and wrong.filename:
            raise  # not the bytes: it cannot be opened
        reason = " ".join(str(wrong).split()) or type(wrong).__name__
        raise DataError(f"{file} cannot be read: {reason}") from None


# names


class _Names:
    """Their names -> our paths."""

    def __init__(self, rename: Rename, known: Iterable[str] | None, check: Callable[[str, str], None] | None) -> None:
        if not isinstance(rename, Mapping):
            raise DataError(f"rename = {rename!r:.60} must be a table: their name -> path.")
        for theirs, ours in rename.items():
            if not isinstance(theirs, str) or not isinstance(ours, str | None):
                raise DataError(f"the renaming table has {theirs!r}: {ours!r:.60}; it is their name -> a path or None.")
        self.rules = [(_pattern(theirs), ours) for theirs, ours in rename.items()]
        self.theirs, self.known = list(rename), None if known is None else set(known)
        self.check_path = check or self._check_known

    def check(self, names: Sequence[str], place: Path) -> None:
        """Raise DataError, which says how to leave them out, if some are neither paths nor in the table."""
        unknown = [name for name in names if not self._said(name)]
        if not unknown:
            return
        more = f" and {len(unknown) - MOST} more" if len(unknown) > MOST else ""
        are, they = ("are no paths", "they are") if unknown[1:] else ("is no path", "it is")
        table = "the renaming table does not say" if self.theirs else "no renaming table says"
        hint = nearest(unknown[0], [*self.theirs, *(self.known or ())])
        raise DataError(
            f"{place}: {', '.join(unknown[:MOST])}{more} {are} such as 10.6[l=1]/5.3, and {table} what {they}. "
            f"{hint and hint + ' '}To leave a name out, write null for its path: {json.dumps({unknown[0]: None})}."
        )

    def _said(self, name: str) -> bool:
        """Whether a name is in the table, or is a path."""
        try:
            return any(pattern.fullmatch(name) for pattern, _ in self.rules) or bool(from_filename(name))
        except AlgorithmError:
            return False

    def __call__(self, name: str, where: Path) -> str | None:
        for (pattern, ours), theirs in zip(self.rules, self.theirs, strict=True):
            if found := pattern.fullmatch(name):
                if ours is None:
                    return None
                path = _filled(ours, found.groupdict())
                self._check(path, f"{where}: {name}, by the table's {theirs}", _counted(theirs))
                return path
        path = from_filename(name)
        self._check_known(path, f"{where}: {name}")
        return path

    def _check(self, path: str, what: str, hint: str) -> None:
        try:
            self.check_path(path, what)
        except UserError as error:
            raise DataError(f"{error} {hint}".rstrip()) from None

    def _check_known(self, path: str, what: str) -> None:
        if self.known is not None and path not in self.known:
            raise DataError(f"{what}: {path} is no value of this run. {nearest(path, self.known)}".rstrip())


def _pattern(theirs: str) -> re.Pattern[str]:
    """`blocks.{l}.ln1` -> a pattern with the group l0; {l+1} is l1."""
    if any(theirs.count(f"{{{index}") > 1 for index in "lh"):
        raise DataError(f"the name {theirs} of the renaming table counts one thing twice.")
    escaped = re.escape(theirs)
    return re.compile(re.sub(r"\\\{([lh])(?:\\\+(1))?\\\}", lambda m: rf"(?P<{m[1]}{m[2] or 0}>\d+)", escaped))


def _counted(theirs: str) -> str:
    """What to write where a name counts from 1, of one that says that it counts from 0."""
    counts = [index for index in "lh" if f"{{{index}}}" in theirs]
    return " ".join(f"{{{index}}} counts from 0; where names count from 1, write {{{index}+1}}." for index in counts)


def _filled(ours: str, found: Mapping[str, str]) -> str:
    """`10.5[l]` and {"l0": "2"} -> 10.5[l=3]."""
    for group, number in found.items():
        index, start = group[0], int(group[1])
        ours = ours.replace(f"[{index}]", f"[{index}={int(number) + 1 - start}]")
    return str(parse(ours))


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint at what a name that is not there may have meant."""
    close = get_close_matches(name, list(names), 3)
    return f"Nearest: {', '.join(close)}." if close else ""


# shapes


def _shaped(array: Array, path: str, where: Path, known: Mapping[str, tuple[int, ...]] | None, tokens: str) -> Array:
    """The array with tokens as columns, without a batch of one; plain numbers in the shape that is known."""
    rows = tokens == "rows"
    if known is None:
        return array.swapaxes(-1, -2) if rows and array.ndim > 1 else array
    due = known[path]
    theirs = (*due[:-2], *due[:-3:-1]) if rows else due  # the shape as they have it
    if array.shape in (theirs, (1, *theirs)) or (where.suffix in RAW and array.shape == (prod(due),)):
        array = array.reshape(theirs)
        return array.swapaxes(-1, -2) if rows and array.ndim > 1 else array
    if array.shape[::-1] == theirs:
        other = "columns" if rows else "rows"
        hint = f"It is transposed: tokens were expected as {tokens} (tokens = {other!r} if yours are {other})."
    else:
        hint = "Either it is another value, or it comes from a run of another size."
    raise DataError(f"{where}: {path} has the shape {array.shape}, and {theirs} is right. {hint}")


# files

#: What a safetensors file calls a type of numbers -> NumPy's name, little-endian.  BF16 is widened.
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?",
}  # fmt: skip

#: bfloat16 in numbers that NumPy has.
WIDENED = np.dtype("<f4", metadata={"precision": "bfloat16"})


def precision_of(value: Any) -> str:
    """The precision in which an array's numbers are stored; what is not a known float counts as float64."""
    name = name_of(getattr(value, "dtype", "float64"))
    return name if name in ("float16", "bfloat16", "float32") else "float64"


def name_of(kind: Any) -> str:
    """The name of an array's type, of whichever library: "bfloat16", "int64"."""
    own = getattr(kind, "name", str(kind).removeprefix("torch."))  # NumPy's name says nothing of the order of bytes
    return str((getattr(kind, "metadata", None) or {}).get("precision", own))


def read_safetensors(file: Path) -> dict[str, Array]:
    """Every tensor of a safetensors file; bfloat16 as float32, which `precision_of` knows.  Raises CheckpointError."""
    return {name: stored.read() for name, stored in _safetensors(file).items()}


def _safetensors(file: Path) -> dict[str, _Stored]:
    entries = read_header(file)
    with file.open("rb") as opened:
        start = 8 + int.from_bytes(opened.read(8), "little")

    def read(entry: Entry) -> Array:
        array = np.fromfile(file, DTYPES[entry.dtype], prod(entry.shape), offset=start + entry.begin)
        if entry.dtype == "BF16":
            array = (array.astype(np.uint32) << 16).view(WIDENED)
        return array.reshape(entry.shape)

    return {
        name: _Stored(np.dtype(DTYPES[entry.dtype]), prod(entry.shape), partial(read, entry))
        for name, entry in entries.items()
    }


def _npy(file: Path) -> dict[str, _Stored]:
    with file.open("rb") as opened:
        dtype, size = _header(opened, file.stat().st_size)
    return {file.stem: _Stored(dtype, size, partial(np.load, file, allow_pickle=False))}


def _npz(file: Path) -> dict[str, _Stored]:
    def read(name: str) -> Array:
        with ZipFile(file) as archive, archive.open(name) as opened:
            return np.asarray(np.lib.format.read_array(opened, allow_pickle=False))

    found: dict[str, _Stored] = {}
    with ZipFile(file) as archive:
        for info in archive.infolist():
            with archive.open(info) as opened:
                name = info.filename.removesuffix(".npy")
                if name in found:
                    raise ValueError(f"it has two arrays of the name {name}")
                found[name] = _Stored(*_header(opened, info.file_size), partial(read, info.filename))
    return found


def _header(opened: IO[bytes], size: int) -> tuple[Any, int]:
    """(type, how many numbers) of an array that NumPy wrote, in so many bytes; no more than its header is read."""
    head = BytesIO(opened.read(LONGEST_HEADER))
    if not head.getvalue().startswith(np.lib.format.MAGIC_PREFIX):
        raise ValueError("it does not begin as a file of NumPy does")
    version = np.lib.format.read_magic(head)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = header[version](head)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, and these are never read: they can run code")
    if head.tell() + prod(shape) * dtype.itemsize != size:
        raise ValueError(f"it has {size} bytes, and numbers of the shape {shape} need others: truncated")
    return dtype, prod(shape)


def read_index(place: Path) -> dict[str, Any]:
    """The `index.json` that `trace` wrote beside its values; nothing where there is none.  Raises DataError."""
    file = place / "index.json"
    index = parse_object(file.read_bytes(), file) if file.is_file() else {}
    if "transformulary" not in index:
        return {}
    try:
        shapes = {Path(entry["file"]).stem: entry["shape"] for entry in index["values"]}
        right = index["precision"] in PRECISIONS and all(type(v) is int for v in index["tokens"])
    except (KeyError, TypeError):
        right = False
    if not right:
        raise DataError(f"{file} is not as `transformulary trace` writes it.")
    return index | {"shapes": shapes}


def _shapes(folder: Path) -> Mapping[str, Any] | None:
    """{name: shape} as `shapes.json` says, or the index of a trace; None without them."""
    file = folder / "shapes.json"
    return parse_object(file.read_bytes(), file) if file.exists() else read_index(folder).get("shapes")


def _raw(file: Path, shapes: Mapping[str, Any] | None) -> dict[str, _Stored]:
    """Plain numbers: in the shape that is said, or, where none is, one after another."""
    width, bytes = int(file.suffix[2:]) // 8, file.stat().st_size
    if bytes % width:
        raise DataError(f"{file} has {bytes} bytes, which is no whole number of {file.suffix[1:]}: truncated.")
    size = bytes // width
    shape = (shapes or {}).get(file.stem, [size])
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise DataError(
            f"{file.parent}: the shape of {file.stem} is {shape!r:.60}, and must be a list of whole numbers."
        )
    if prod(shape) != size:
        raise DataError(f"{file} has {size} numbers, and the shape {shape} needs {prod(shape)}.")
    dtype = np.dtype(f"<f{width}")
    return {file.stem: _Stored(dtype, size, lambda: np.fromfile(file, dtype).reshape(shape))}


RAW = (".f32", ".f64")
READERS: dict[str, Callable[[Path], dict[str, _Stored]]] = {
    ".npz": _npz,
    ".npy": _npy,
    ".safetensors": _safetensors,
}

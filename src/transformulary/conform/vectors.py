"""Golden vectors: files from which a program in any language learns whether it computes what the paper says.

A folder of vectors holds `index.json` and one safetensors file per case.  In a file the tensors bear the names of
the inputs ("x"), of the parameters ("W[1].W_q[2]", layers and heads from 1) and the paths of the values
("10.6[l=1]/5.2[h=1]/4.6:softmax"); the three never meet, since only a path begins with a digit.  Tokens are
columns, ids and positions count from 0.  Values are float64 (int64 for ids and counts), parameters float32, which
holds them exactly.

The same version of this package writes the same bytes on the same machine, every time.  On another one inputs and
parameters are the same bytes; values may differ in their last bits, as its BLAS and its mathematical library round,
far within what the index allows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from transformulary import __version__
from transformulary.conform.cases import CASES, Run, error, run
from transformulary.conform.dumps import nearest, precision_of, read_dumps, read_safetensors
from transformulary.errors import DataError
from transformulary.files import new_folder, read_text, write_atomically
from transformulary.oracle.values import axes

Array = NDArray[Any]

FORMAT = "transformulary vectors"
VERSION = 1
#: From so many roundings on, a value is all rounding, in any precision.
MOST = 2**53
#: The largest relative error of one rounding, by precision.
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


# writing


def write_vectors(out: str | Path) -> None:
    """Write every case into the new folder `out`, whole or not at all.

    Raises DataError if `out` exists already and is not an empty folder.
    """
    with new_folder(out) as folder:
        cases = [_write_case(folder, run(case)) for case in CASES]
        head = {"format": FORMAT, "version": VERSION, "transformulary": __version__, "unit_roundoff": UNIT_ROUNDOFF}
        write_atomically(folder / "index.json", _index(head, cases))


def _write_case(folder: Path, r: Run) -> dict[str, Any]:
    """Write one file; returns the case's entry in the index."""
    parameters = {name: array.astype(np.float32) for name, array in r.parameters.items()}
    data = save({**r.inputs, **parameters, **r.values})
    file = f"{r.case.name}.safetensors"
    write_atomically(folder / file, data)
    return {
        "name": r.case.name,
        "about": r.case.about,
        "algorithm": r.case.number,
        "config": r.config,
        "file": file,
        "sha256": hashlib.sha256(data).hexdigest(),
        "inputs": {name: list(array.shape) for name, array in r.inputs.items()},
        "parameters": {name: list(array.shape) for name, array in parameters.items()},
        "output": r.output,
        "values": {
            path: {
                "shape": list(array.shape),
                "axes": axes(path),
                "roundoffs": r.roundoffs[path],
            }
            for path, array in r.values.items()
        },
    }


def _index(head: dict[str, Any], cases: Iterable[dict[str, Any]]) -> str:
    """The index as JSON, one line for every value, so that people can read it too."""

    def entries(case: dict[str, Any]) -> Iterator[str]:
        for key, value in case.items():
            if key == "values":
                lines = ",\n".join(f"    {json.dumps(path)}: {json.dumps(entry)}" for path, entry in value.items())
                yield f'   "values": {{\n{lines}}}'
            else:
                yield f"   {json.dumps(key)}: {json.dumps(value)}"

    top = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    texts = ",\n".join("  {\n" + ",\n".join(entries(case)) + "}" for case in cases)
    return f'{{\n{top},\n "cases": [\n{texts}]}}\n'


# reading


@dataclass(frozen=True)
class Vectors:
    """One case as its files say it: `entry` is its part of the index."""

    folder: Path
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def paths(self) -> dict[str, tuple[int, ...]]:
        """Path -> shape of every value."""
        return {path: tuple(value["shape"]) for path, value in self.entry["values"].items()}

    @cached_property
    def tensors(self) -> dict[str, Array]:
        """Every tensor of the case's file by name.  Raises DataError if it is not the file that was written."""
        file = self.folder / self.entry["file"]
        if hashlib.sha256(file.read_bytes()).hexdigest() != self.entry["sha256"]:
            raise DataError(f"{file} is not what index.json says was written (sha256). Write the vectors again.")
        found = read_safetensors(file)
        if other := [path for path, shape in self.paths.items() if path not in found or found[path].shape != shape]:
            raise DataError(f"{file} has no {other[0]} in the shape that index.json says. Write the vectors again.")
        return found


def has_vectors(folder: str | Path) -> bool:
    """Whether a folder holds golden vectors rather than a model."""
    return (Path(folder) / "index.json").is_file()


def read_vectors(folder: str | Path) -> dict[str, Vectors]:
    """{name: case} of the vectors in a folder, in the order of the index; no tensor is read yet.

    Raises DataError if there is no index, or one of something else, or of a version that this code does not know.
    """
    if not has_vectors(folder):
        raise DataError(f"{folder} holds no vectors: `transformulary vectors write` makes them, with an index.json.")
    file = Path(folder) / "index.json"
    try:
        index = json.loads(read_text(file))
        kind = index["format"], index["version"]
        cases = {entry["name"]: Vectors(Path(folder), entry) for entry in index["cases"]}
    except (ValueError, KeyError, TypeError, RecursionError) as wrong:
        raise DataError(f"{file} is no index of vectors ({type(wrong).__name__}: {wrong}).") from None
    if kind != (FORMAT, VERSION):
        raise DataError(f"{file} is {kind[0]!r}, version {kind[1]!r}; known is {FORMAT!r}, version {VERSION}.")
    if damaged := next((says for case in cases.values() for says in _damaged(case.entry)), ""):
        raise DataError(f"{file} is damaged: {damaged:.200}. Write the vectors again.")
    return cases


def _damaged(entry: Mapping[str, Any]) -> Iterator[str]:
    """What of a case in an index is not as it was written, as far as that shows."""
    name, values = f"{entry['name']!r:.60}", entry.get("values")
    for key in ("name", "file", "sha256"):
        if not isinstance(entry.get(key), str) or Path(entry[key]).name != entry[key]:
            yield f"{name} has {key} = {entry.get(key)!r:.60}"
    if not isinstance(values, Mapping):
        yield f"{name} has values = {values!r:.60}"
        return
    for path, value in values.items():
        shape, roundoffs = (value.get(key) if isinstance(value, Mapping) else None for key in ("shape", "roundoffs"))
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            yield f"{name}, {path} has shape = {shape!r:.60}"
        if isinstance(roundoffs, bool) or not (isinstance(roundoffs, int | float) and 0 <= roundoffs < MOST):
            yield f"{name}, {path} has roundoffs = {roundoffs!r:.60}"


# comparing


@dataclass(frozen=True)
class Row:
    """What was found at one value: the error and what is allowed, both relative to the value's largest number."""

    case: str
    path: str
    error: float
    allowed: float
    verdict: str  # pass, differ or missing

    def __str__(self) -> str:
        numbers = "" if self.verdict == "missing" else f" (error {self.error:.1e}, allowed {self.allowed:.1e})"
        return f"{self.case} {self.path}: {self.verdict}{numbers}"


def compare_vectors(
    dumps: str | Path,
    vectors: str | Path,
    rename: Mapping[str, str | None] | None = None,
    tokens: str = "columns",
    precision: str | None = None,
) -> list[Row]:
    """Compare what a program dumped with the vectors.

    Args:
        dumps: a folder that holds, for every case computed, a folder, `.npz` or `.safetensors` file of its name.
        vectors: the folder that `write_vectors` wrote.
        rename, tokens: as for `read_dumps`.
        precision: what the program computed in, a key of UNIT_ROUNDOFF; by default that of every dumped array.

    Returns:
        One row for every value of the cases that were dumped, in the order in which the paper computes them.

    Raises DataError as `read_vectors` and `read_dumps` do, and if no dump bears the name of a case, or one a
    name that no case has, or `dumps` is no folder.
    """
    cases = read_vectors(vectors)
    if precision not in (None, *UNIT_ROUNDOFF):
        raise DataError(f"precision = {precision!r} is none of {', '.join(UNIT_ROUNDOFF)}.")
    if not (isinstance(dumps, str | Path) and Path(dumps).is_dir()):
        raise DataError(
            f"{dumps!s:.60} is no folder. What is compared with vectors is one that holds, by case, what was dumped."
        )
    found = {_case_of(place): place for place in sorted(Path(dumps).iterdir()) if not place.name.startswith(".")}
    if unknown := [name for name in found if name not in cases]:
        raise DataError(f"{found[unknown[0]]} bears no name of a case. {nearest(unknown[0], cases)}")
    if not found:
        raise DataError(f"{dumps} is empty. Put there what was computed, one folder or file for a case: 10-gpt2.npz.")
    rows: list[Row] = []
    for name in (name for name in cases if name in found):
        due = {path: cases[name].tensors[path].shape for path in cases[name].paths}
        theirs = read_dumps(found[name], rename, due, tokens)
        rows += compare_values(theirs, cases[name], precision)
    return rows


def _case_of(place: Path) -> str:
    return place.name if place.is_dir() else place.stem


def compare_values(theirs: Mapping[str, Array], case: Vectors, precision: str | None = None) -> list[Row]:
    """One row for every value of a case: `theirs` by path, in the shapes of the vectors."""
    return [_row(theirs.get(path), case, path, precision) for path in case.paths]


@np.errstate(all="ignore")  # theirs may be infinite
def _row(theirs: Array | None, case: Vectors, path: str, precision: str | None) -> Row:
    if theirs is None:
        return Row(case.name, path, float("nan"), float("nan"), "missing")
    roundoff = UNIT_ROUNDOFF[precision or precision_of(theirs)]
    allowed = case.entry["values"][path]["roundoffs"] * roundoff
    found = error(case.tensors[path].astype(np.float64), theirs.astype(np.float64))
    return Row(case.name, path, found, allowed, "pass" if found <= allowed else "differ")

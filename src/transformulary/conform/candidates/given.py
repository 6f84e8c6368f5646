"""Values that somebody gives by path: whether the run has them, and which of their axes counts tokens."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod

from transformulary.conform.candidates.candidate import Array, single
from transformulary.conform.compared import is_line
from transformulary.conform.dumps import nearest
from transformulary.conform.notes import NOTE, Note
from transformulary.errors import CandidateError
from transformulary.oracle.lines import line_at
from transformulary.oracle.path import parse
from transformulary.oracle.values import axes
from transformulary.oracle.whole import Model, sizes_at
from transformulary.paper import Read
from transformulary.trace.select import INDEX, first, kinds

Shape = tuple[int, ...]
#: No whole number from here on is one of float64 for certain.
MOST = 2**53
#: Families of heads, of pairs of numbers: their members and what is made of them are compared, not the families.
FAMILIES = {"H", "d_attn/2", "d_e/2"}


def check_paths(paths: Iterable[str], model: Model, given: Read, what: str) -> None:
    """Raise CandidateError, which names the nearest, where a path is no value of this run."""
    every = kinds(model.config, model.gives)
    for path in paths:
        known = first(path) in every
        last = sizes_at(path, model.config, given) if known else {"h": model.config.H, "l": model.layers}
        if not known or any(not 1 <= int(i) <= last.get(name, int(i)) for name, i in INDEX.findall(path)):
            raise CandidateError(f"{what}: {path} is no value of this run. {nearest(path, _alike(path, every, last))}")


def _alike(path: str, every: Iterable[str], last: Mapping[str, int]) -> list[str]:
    """Every kind of value, with the indices of a path as far as there are any."""
    given = {name: min(max(int(i), 1), last.get(name, int(i))) for name, i in INDEX.findall(path)}
    return [INDEX.sub(lambda m: f"{m[1]}={given.get(m[1], 1)}", kind) for kind in every]


def shape(path: str, model: Model, given: Read) -> Shape:
    """The shape of the value at a path in a run."""
    c = model.config
    sizes = {
        "d_e": c.d_e, "d_attn": c.d_attn, "d_mid": c.d_mid, "d_mlp": c.d_mlp, "N_V": c.N_V, "H": c.H,
        "H*d_mid": c.H * c.d_mid, "d_attn/2": c.d_attn // 2, "d_e/2": c.d_e // 2,
        "d_f": getattr(c, "d_f", 0), "N_C": model.N_C, **sizes_at(path, c, given),
    }  # fmt: skip
    return tuple(sizes[axis] for axis in axes(path))


def largest(model: Model, given: Read) -> int:
    """How many numbers the largest value of a run has."""
    return max(prod(shape(path, model, given)) for path in kinds(model.config, model.gives))


def given_values(
    values: Mapping[str, Array], model: Model, given: Read, tokens: str | None, what: str
) -> tuple[dict[str, Array], tuple[Note, ...]]:
    """({path: value, tokens as columns}, what was done to them).

    Args:
        values: by path; a batch of one is left out.
        tokens: "columns" or "rows"; None: as their shapes say, columns where they do not.
        what: whose values they are.

    Raises:
        CandidateError: a path is no value of this run; a value before the last one has another shape.
    """
    if tokens not in (None, "columns", "rows"):
        raise CandidateError(f"tokens = {tokens!r} must be 'columns' or 'rows'.")
    check_paths(values, model, given, what)
    due = {path: shape(path, model, given) for path in values}
    values = {path: _in_shape(path, value, due[path], tokens, what) for path, value in values.items()}
    _check_length(values, model, given, what)
    compared = {path: value for path, value in values.items() if is_compared(path)}
    found = {path: single(value, len(due[path])) for path, value in compared.items()}
    rows = tokens == "rows" or (tokens is None and _rows(found, due, what))
    found = {path: _turned(value) if rows else value for path, value in found.items()}
    for path, value in found.items():
        check_shape(path, value, model, given, what, f" (tokens are {tokens}, it was said)" if tokens else "")
    return found, tuple(_notes(values, found, rows and tokens is None))


def _in_shape(path: str, value: Array, due: Shape, tokens: str | None, what: str) -> Array:
    """Plain numbers, if they are as many as a matrix has, in its shape, tokens as they are said to be."""
    if value.ndim != 1 or len(due) != 2 or value.size != prod(due):
        return value
    if tokens is None:
        raise CandidateError(
            f"{what}: {path} is {value.size} plain numbers: say with --tokens-as whether tokens are rows or columns, "
            f"or give the shape by the file's name in a shapes.json beside it, such as {json.dumps({path: due})}."
        )
    return value.reshape(due[::-1] if tokens == "rows" else due)


def check_shape(path: str, value: Array, model: Model, given: Read, what: str, remark: str = "") -> None:
    """Raise CandidateError where the oracle cannot go on with a value: it has another shape than the run's."""
    due = shape(path, model, given)
    if value.shape != due and path != model.output:  # nothing goes on with the last one
        raise CandidateError(
            f"{what}: {path} has the shape {value.shape}, and {due} is right{remark}. "
            f"Either it is another value, or it comes from a model of another size."
        )


def is_compared(path: str) -> bool:
    """Whether the oracle can go on with a value of theirs: no number that counts or points, no family."""
    whole = is_length(path) or parse(path).name.startswith("bucket")
    return not whole and not FAMILIES.intersection(axes(path))


def _notes(values: Mapping[str, Array], found: Mapping[str, Array], turned: bool) -> Iterator[Note]:
    if turned:
        yield Note("values", NOTE, "they have tokens as rows, and were transposed")
    if left := [path for path in values if path not in found and not is_length(path)]:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        yield Note("values", NOTE, f"{left[0]}{more} not compared: what is made of them is")


def is_length(path: str) -> bool:
    """Whether the value at a path is the length of a sequence."""
    return is_line(path) and line_at(path).counts


def _check_length(values: Mapping[str, Array], model: Model, given: Read, what: str) -> None:
    """Whether all values would be right with another number of tokens."""
    counted = {line_at(path).side: _whole(path, value, what) for path, value in values.items() if is_length(path)}
    for side, option in (("z", "--context-tokens"), ("x", "--tokens")):
        if _all_fit(values, model, given):
            return
        ell, sizes = given.length(side), sorted({size for value in values.values() for size in value.shape})
        for n in [counted[side]] if side in counted else sizes:
            if n != ell and (side in counted or _all_fit(values, model, replace(given, **{side: (0,) * n}))):
                raise CandidateError(
                    f"{what}: the values are of {n} tokens, and the run has {ell}: give their ids with {option}."
                )


def _whole(path: str, length: Array, what: str) -> int:
    if length.size != 1 or not (0 <= length.item() < MOST and float(length.item()).is_integer()):
        raise CandidateError(f"{what}: {path} is {length.tolist()!s:.60}, and must be one whole number: of the tokens.")
    return int(length.item())


def _all_fit(values: Mapping[str, Array], model: Model, given: Read) -> bool:
    return all(_fits(path, value, model, given) for path, value in values.items())


def _fits(path: str, value: Array, model: Model, given: Read) -> bool:
    """Whether a value has its shape in a run, either way round."""
    due = shape(path, model, given)
    if is_length(path):
        return bool(value.item() == given.length(line_at(path).side))
    return due in (single(value, len(due)).shape, _turned(single(value, len(due))).shape)


def _turned(value: Array) -> Array:
    return value.swapaxes(-1, -2) if value.ndim > 1 else value


def _rows(values: Mapping[str, Array], due: Mapping[str, Shape], what: str) -> bool:
    """Whether values have tokens as rows: some fit only so.  Raises CandidateError if others only fit as columns."""
    as_rows, as_columns = [], []
    for path, value in values.items():
        if value.shape != due[path] and _turned(value).shape == due[path]:
            as_rows.append(path)
        elif value.shape == due[path] != _turned(value).shape:
            as_columns.append(path)
    if as_rows and as_columns:
        raise CandidateError(
            f"{what}: {as_rows[0]} has tokens as rows, and {as_columns[0]} has them as columns: which is transposed? "
            f"Make them all the same."
        )
    return bool(as_rows)

"""What every candidate comes to: values by path, and what else could be learned of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from transformulary.conform.allowance import UNIT
from transformulary.conform.notes import Note
from transformulary.errors import CandidateError

Array = NDArray[Any]


@dataclass(frozen=True)
class Candidate:
    """A candidate after it has run.

    name       what to call it in a report
    seen       path -> value: float64, tokens are columns
    precision  what it computed most values in: "float64", "float32", "bfloat16", "float16"
    kinds      path -> the precision of that value, where it is another one
    lower      line ("10.5") -> the lower precision in which its published code computes that line on purpose
    x, z       its token ids, and those of the context, where it has its own tokenizer
    weights    its parameters by its own names, as they are stored, bfloat16 as float32
    buffers    its other tensors of real numbers, of which some may be parameters
    own        `seen` are results of functions that were each given the oracle's own values: no line
               depends on another one's result
    notes      what was found beside its lines: see `decoding.py` and `attending.py`
    """

    name: str
    seen: Mapping[str, Array]
    precision: str = "float64"
    kinds: Mapping[str, str] = field(default_factory=dict)
    lower: Mapping[str, str] = field(default_factory=dict)
    x: tuple[int, ...] | None = None
    z: tuple[int, ...] | None = None
    weights: Mapping[str, Array] = field(default_factory=dict)
    buffers: Mapping[str, Array] = field(default_factory=dict)
    own: bool = False
    notes: tuple[Note, ...] = ()


def array(value: Any, what: str) -> Array:
    """Numbers of NumPy, PyTorch, JAX or of anything with `__array__`, in float64, copied.  Raises CandidateError."""
    try:
        found, numbers = _read(value)
        if numbers.dtype == np.float64 and not (found.ndim and found.dtype.kind in "OSU"):
            return numbers.copy()
    except CandidateError as error:
        raise CandidateError(f"{what} {error}") from None
    except (TypeError, ValueError):
        raise CandidateError(f"{what} is {type(value).__name__}, and must be an array of numbers.") from None
    except Exception as error:  # their own code reads it: `__array__`; or there is no memory for a copy
        why = f"{type(error).__name__}: {said(error)}"
        raise CandidateError(f"{what} is {type(value).__name__}, whose numbers cannot be read: {why}.") from None
    raise CandidateError(f"{what} is an array of {found.dtype}, and values are real numbers.")


def _read(value: Any) -> tuple[Array, Array]:
    """(what NumPy makes of a value, the same in float64 if that can be)."""
    if value is None:  # NumPy makes a NaN of it
        raise TypeError
    if isinstance(value, np.ndarray) and np.ma.is_masked(value):
        raise CandidateError("is a masked array: some of its numbers are not there.")
    if hasattr(value, "detach"):  # PyTorch: its NumPy has no bfloat16, and no gradient
        if value.is_meta:
            raise CandidateError("is a meta tensor: it has a shape, and no numbers.")
        value = value.detach().cpu()
        value = value if value.is_complex() else value.double()
    found = np.asarray(value)
    return found, found if found.dtype.kind in "cmM" else np.asarray(found, np.float64)


def said(error: BaseException) -> str:
    """What an error of somebody else's class says of itself, if it can."""
    try:
        return str(error)
    except Exception:
        return "its own text fails"


def single(value: Array, ndim: int) -> Array:
    """Without a batch of one, wherever its axis is, if there is an axis too many."""
    return value.squeeze(value.shape.index(1)) if value.ndim == ndim + 1 and 1 in value.shape else value


def stored(value: torch.Tensor) -> Array:
    """The numbers of a parameter, in its own memory where NumPy has its type; bfloat16 as float32, without loss."""
    value = value.detach().cpu()
    return np.asarray(value.float() if value.dtype == torch.bfloat16 else value)


def lowest(precisions: Iterable[str]) -> str:
    """The precision with the largest rounding; float64 of none."""
    return max(precisions, key=UNIT.__getitem__, default="float64")


def most(kinds: Iterable[str]) -> str:
    """The precision of most values; of equally many, the lowest."""
    count = Counter(kinds)
    return lowest(kind for kind in count if count[kind] == max(count.values()))

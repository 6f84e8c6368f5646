"""What a user calls a candidate becomes one: by its kind, its suffix, or what is in its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import isfunction
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import numpy as np
from torch import nn

from transformulary.conform.allowance import UNIT
from transformulary.conform.candidates.batches import check_batches
from transformulary.conform.candidates.candidate import Candidate, array, lowest, most
from transformulary.conform.candidates.decoding import check_decoding
from transformulary.conform.candidates.functions import SIGNATURES, WHOLE, Functions, run_functions
from transformulary.conform.candidates.given import check_paths, given_values, largest
from transformulary.conform.candidates.imported import imported
from transformulary.conform.candidates.places import Table, make_table
from transformulary.conform.candidates.pytorch import failing, watch_model
from transformulary.conform.dumps import precision_of, read_dumps, read_index
from transformulary.conform.notes import NOTE, UNSEEN, Note
from transformulary.conform.reference import Reference
from transformulary.errors import CandidateError, require
from transformulary.formats import describe
from transformulary.paper import (
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
    Read,
)


def candidates_of(
    what: Any,
    ref: Reference,
    x: Read,
    *,
    text: str = "",
    table: Table | None = None,
    rename: Mapping[str, str | None] | None = None,
    orientation: str | None = None,
    precision: str | None = None,
    decoding: bool = True,
) -> list[Candidate]:
    """The candidates that `what` is, each after its run on x.  See `conform` for what it may be."""
    if _holds_values(what):
        return [_given(what, ref, x, rename, orientation, precision)]
    if precision is not None:
        raise CandidateError(
            f"precision = {precision!r} is said of values; what code computes in is seen: leave it out."
        )
    if isinstance(what, Candidate):
        return [what]
    if isinstance(what, nn.Module):
        return [_watched(what, ref, x, table, "", decoding)]
    if isinstance(what, Functions):
        return run_functions(what, ref.whole, x, "functions")
    if isinstance(what, Mapping):
        return candidates_of(Functions(what), ref, x)
    if str(what) in LIBRARIES:
        found = _watched(of_folder(ref, LIBRARIES[str(what)]), ref, x, table, str(what), decoding)
        ids, notes = _read_by_transformers(ref, text) if str(what) == "transformers" else (None, ())
        return [replace(found, x=ids, notes=(*notes, *found.notes))]
    if not isinstance(what, str | Path) or what == "" or not Path(what).exists():
        missing = f"there is no {what or repr('')}" if isinstance(what, str | Path) else f"{what!r:.60} is none"
        raise CandidateError(
            f"{missing}. A candidate is a Python file, dumps, a model's folder, or {' or '.join(LIBRARIES)}."
        )
    path = Path(what)
    if path.suffix == ".py":
        with imported(path) as module:
            return _python(module, path, ref, x, text, table, decoding)
    return [_watched(_ours(path), ref, x, None, str(path), decoding)]


def _callables(what: Mapping[Any, Any]) -> bool:
    return bool(what) and all(callable(value) for value in what.values())


def _holds_values(what: Any) -> bool:
    """Whether a candidate is values by path, or dumps of them."""
    if isinstance(what, Mapping):
        return not _callables(what)
    if not isinstance(what, str | Path) or what == "" or str(what) in LIBRARIES:
        return False
    path = Path(what)
    return path.exists() and path.suffix not in (".py", ".gguf") and not (path / "config.json").is_file()


def _given(
    what: Mapping[str, Any] | str | Path,
    ref: Reference,
    x: Read,
    rename: Mapping[str, str | None] | None,
    orientation: str | None,
    precision: str | None,
) -> Candidate:
    """Values by path, each in the precision of its numbers, or in a lower one in which all were computed."""
    if precision not in (None, *UNIT):
        raise CandidateError(f"precision = {precision!r} is none of {', '.join(UNIT)}.")
    if isinstance(what, Mapping):
        raw, name, traced = what, "values", {}
    else:

        def check(path: str, of: str) -> None:
            check_paths([path], ref.whole, x, of)

        raw, name = read_dumps(what, rename, most=largest(ref.whole, x), check=check), str(what)
        traced = read_index(Path(what))
    computed = lowest((precision or "float64", traced.get("precision", "float64")))
    values = {path: array(value, path) for path, value in raw.items()}
    seen, notes = given_values(values, ref.whole, x, orientation, name)
    kinds = {path: lowest((precision_of(raw[path]), computed)) for path in seen}
    ids, context = (tuple(traced[read]) if read in traced else None for read in ("tokens", "context"))
    return Candidate(name, seen, most(kinds.values()), kinds, x=ids, z=context, notes=notes)


def _watched(
    model: nn.Module,
    ref: Reference,
    x: Read,
    table: Table | None,
    name: str,
    decoding: bool,
    ids: tuple[int, ...] | None = None,
    cached: Callable[..., Any] | None = None,
) -> Candidate:
    found = watch_model(model, ref.whole, x, table, name)
    notes = _decoding(model, ref, x, lowest((found.precision, *found.lower.values())), cached) if decoding else ()
    return replace(found, x=ids, notes=(*found.notes, *notes))


def _decoding(
    model: nn.Module, ref: Reference, x: Read, precision: str, cached: Callable[..., Any] | None
) -> Iterator[Note]:
    """Notes of other ways to run a model than on one sequence as a whole."""
    if isinstance(ref.config, DTransformerConfig):
        return check_decoding(model, ref, x.x, precision, cached)
    return check_batches(model, ref, x, precision)


def _python(
    module: ModuleType, path: Path, ref: Reference, x: Read, text: str, table: Table | None, decoding: bool
) -> list[Candidate]:
    """A Python file: with `load(folder)`, a PyTorch model; else functions."""
    own = {name: getattr(module, name) for name in (*SIGNATURES, *WHOLE) if callable(getattr(module, name, None))}
    ids = _ids(module, text)
    if load := getattr(module, "load", None):
        model = of_folder(ref, load)
        table = table or _table(module, path)
        return [_watched(model, ref, x, table, path.stem, decoding, ids, getattr(module, "decode", None))]
    if not own:
        has = ", ".join(name for name, value in vars(module).items() if isfunction(value)) or "no function"
        known = ", ".join((*SIGNATURES.values(), *WHOLE))
        raise CandidateError(f"{path} has {has}; what can be compared is {known}, or load(folder) -> a PyTorch model.")
    says = {"tokens": "TOKENS", "make": "ARRAY", "output": "OUTPUT"}
    said = {ours: getattr(module, name) for ours, name in says.items() if hasattr(module, name)}
    found = run_functions(Functions(own, **said), ref.whole, x, path.stem)
    return [replace(found[0], x=ids), *found[1:]]


def _ids(module: ModuleType, text: str) -> tuple[int, ...] | None:
    tokenize = getattr(module, "tokenize", None)
    if tokenize is None or not text:
        return None
    with failing("tokenize(text)"):
        return tuple(int(v) for v in np.asarray(tokenize(text)).ravel())


def _table(module: ModuleType, path: Path) -> Table | None:
    names = {"PLACES": "places", "LOWER": "lower", "TOKENS": "tokens", "OUTPUT": "output"}
    found = {ours: getattr(module, name) for name, ours in names.items() if hasattr(module, name)}
    return make_table(found, str(path)) if "places" in found else None


def of_folder(ref: Reference, load: Callable[[str], Any]) -> nn.Module:
    """What `load` makes of the reference's folder, or of one that is written for a preset."""
    with TemporaryDirectory() as temporary:
        folder = ref.folder or Path(temporary)
        if ref.folder is None:
            ref.save(folder)
        with failing("load(folder)", f"; the folder holds the checkpoint of {ref.name}: --against says which"):
            model = load(str(folder.absolute()))
    if not isinstance(model, nn.Module):
        raise CandidateError(f"load(folder) returned {type(model).__name__}; it must return a torch.nn.Module.")
    return model


#: What a model is and gives -> their class that finds the right one.
AUTOMATIC = {
    (DTransformerConfig, "tokens"): "AutoModelForCausalLM",
    (ETransformerConfig, "tokens"): "AutoModelForMaskedLM",
    (ETransformerConfig, "classes"): "AutoModelForSequenceClassification",
    (ETransformerConfig, "vectors"): "AutoModel",
    (EDTransformerConfig, "tokens"): "AutoModelForSeq2SeqLM",
    (PreEDTransformerConfig, "tokens"): "AutoModelForSeq2SeqLM",
}


def _transformers(folder: str | Path) -> Any:
    require("transformers", "transformers", "comparing what transformers computes")
    import transformers
    from transformers.utils import logging

    described = describe(folder)
    kind = AUTOMATIC[type(described.config), described.gives]
    with _silent(logging):
        return getattr(transformers, kind).from_pretrained(folder, local_files_only=True).double()


def _read_by_transformers(ref: Reference, text: str) -> tuple[tuple[int, ...] | None, tuple[Note, ...]]:
    """The ids that its tokenizer makes of a text, but for special ones, and a note of those that it adds."""
    if not text or ref.folder is None or not ref.folder.is_dir():
        return None, ()
    from transformers import AutoTokenizer
    from transformers.utils import logging

    try:
        with failing("its tokenizer"), _silent(logging):
            tokenizer = AutoTokenizer.from_pretrained(ref.folder, local_files_only=True)
            ids, whole = (tuple(tokenizer(text, add_special_tokens=more)["input_ids"]) for more in (False, True))
            added = tokenizer.convert_ids_to_tokens([v for v in whole if v not in ids])
    except CandidateError as error:
        return None, (Note("tokens", UNSEEN, str(error)),)
    says = f"its tokenizer by itself adds {', '.join(added)}, and both ran without: --tokens says other ids"
    return ids, (Note("tokens", NOTE, says),) * (ids != whole)


@contextmanager
def _silent(logging: Any) -> Iterator[None]:
    """Only errors of `transformers`, and no bar of its progress; afterwards as it was."""
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _ours(folder: str | Path) -> nn.Module:
    from transformulary.models import load

    return load(folder).model.double()


LIBRARIES: dict[str, Callable[[str], Any]] = {"transformers": _transformers, "ours": _ours}

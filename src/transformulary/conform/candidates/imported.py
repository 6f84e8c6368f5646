"""A user's Python file, run as Python would run it: what it imports, at once or later, may lie beside it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from transformulary.conform.candidates.pytorch import check_signature, failing
from transformulary.errors import CandidateError

#: What a file may have beside functions to compare.
CALLED = ("load(folder)", "tokenize(text)", "decode(model, pieces)")


@contextmanager
def imported(path: Path) -> Iterator[ModuleType]:
    """The module that a file is; its code may be called inside.

    Its folder is where it finds its imports until then, and its name finds it among the modules (of dataclasses and
    pickles).  Afterwards both, and the working folder, are as they were.

    Raises CandidateError: it is no file; it fails; `load` or another of `CALLED` cannot be called as it will be.
    """
    if not path.is_file():
        raise CandidateError(f"{path} is no file. A candidate in Python is a file of functions, or with load(folder).")
    name, here, among = _name(path), Path.cwd(), [*sys.path]
    spec = spec_from_file_location(name, path)
    assert spec and spec.loader
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent.absolute()))
    try:
        with failing(str(path)):
            spec.loader.exec_module(module)
        for usual in CALLED:
            check_signature(getattr(module, usual.partition("(")[0], None), usual)
        yield module
    finally:
        sys.path[:] = among
        sys.modules.pop(name, None)
        os.chdir(here)


def _name(path: Path) -> str:
    """That of the file, where nothing else that can be imported has it: torch.py is not `torch`."""
    stem = path.stem
    free = stem.isidentifier() and stem not in sys.modules
    if free:
        with suppress(ValueError):
            spec = find_spec(stem)
            free = spec is None or spec.origin == str(path.absolute())
    return stem if free else f"candidate {stem.replace('.', '_')}"

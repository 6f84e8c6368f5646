"""A format by the word that means it: one of ours, or a file of yours that holds the tables."""

from __future__ import annotations

import runpy
from pathlib import Path

from transformulary.errors import ConfigError
from transformulary.formats.folder import READABLE
from transformulary.formats.format import Format

#: What the name of a file of tables ends with.
SUFFIX = ".py"


def named_format(word: str) -> Format:
    """The format called `word` ("bert"), or the one that the Python file `word` has as FORMAT.  The file is run.

    Raises ConfigError: there is no such format, or the file fails or has none.
    """
    if not word.endswith(SUFFIX):
        form = next((known for known in READABLE if known.model_type == word), None)
        if form is None:
            known = ", ".join(known.model_type for known in READABLE)
            raise ConfigError(f"there is no format {word!r}: a file ending in {SUFFIX}, or one of {known}.")
        return form
    if not Path(word).is_file():
        raise ConfigError(f"there is no file {word!r} with the tables of a format.")
    try:
        form = runpy.run_path(word).get("FORMAT")
    except (Exception, SystemExit) as error:  # whatever the program does
        raise ConfigError(f"{word} cannot be run ({type(error).__name__}: {error}).") from None
    if not isinstance(form, Format):
        raise ConfigError(f"{word} has no FORMAT, which would be a transformulary.formats.Format.")
    return form

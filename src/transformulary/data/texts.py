"""Files -> texts -> a part to learn from and a part held out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from transformulary.errors import ConfigError, DataError
from transformulary.files import read_text


@dataclass(frozen=True)
class Piece:
    """A whole text, or what a cut left of it: `first` holds its beginning, `last` its end."""

    text: str
    first: bool = True
    last: bool = True


def read_texts(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """The texts of some files, in the order given; a folder stands for its `*.txt` files, sorted, at any depth.

    Raises:
        DataError: a path is empty, does not exist or cannot be read, a folder has no `*.txt`, a file is not UTF-8,
            or no file has any text.
    """
    paths = list(paths)
    if "" in paths:
        raise DataError("a path is empty: it names no text. Is a variable of the shell not set?")
    files = [file for path in paths for file in text_files(Path(path))]
    texts = [_read(file) for file in files]
    if not any(texts):
        raise DataError(f"{', '.join(map(str, files[:3]))}: no text; a model cannot learn from 0 characters.")
    return texts


def text_files(path: Path) -> list[Path]:
    """The file itself, or the `*.txt` files of a folder."""
    if not path.exists():
        raise DataError(f"{path} does not exist; name a text file, or a folder with *.txt files.")
    if not path.is_dir():
        return [path]
    if not (found := sorted(path.rglob("*.txt"))):
        raise DataError(f"{path} is a folder without *.txt files; name the files themselves.")
    return found


def _read(file: Path) -> str:
    try:
        return read_text(file)
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error


def split(texts: Iterable[str], held_out: float = 0.1) -> tuple[list[Piece], list[Piece]]:
    """Cut off the last part of all the text, in the order given: (to learn from, held out).

    Args:
        texts: whole documents.
        held_out: fraction of all characters, 0 <= held_out < 1, rounded to a whole number of characters.

    Returns:
        Two lists of pieces, which share no character; at most one text is cut in two.

    Raises:
        ConfigError: held_out is outside [0, 1).
    """
    if not 0 <= held_out < 1:
        raise ConfigError(f"held_out = {held_out} is outside [0, 1): it is the fraction of the text not learnt from.")
    texts = [text for text in texts if text]
    total = sum(map(len, texts))
    left = total - round(total * held_out)  # characters still to learn from
    learn, keep = [], []
    for text in texts:
        n = min(left, len(text))
        left -= n
        if n > 0:
            learn.append(Piece(text[:n], last=n == len(text)))
        if n < len(text):
            keep.append(Piece(text[n:], first=n == 0))
    return learn, keep

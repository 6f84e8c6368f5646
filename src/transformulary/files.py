"""The user's files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from transformulary.errors import DataError


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path`; at every moment the file there is the old or the new one, whole.

    Creates the folder if it is missing.  Raises OSError if it cannot be done; the old file is then untouched.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder to be filled in the `with` block; it appears at `path` when that ends, or, if it fails, not at all.

    Raises:
        DataError: there is something at `path` other than an empty folder.
        OSError: it cannot be written; the error names `path`.
    """
    path = Path(path)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise DataError(
            f"{path} exists and is not an empty folder: nothing is overwritten. Name a new one, or remove it."
        )
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        for file in temporary.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        if path.exists():
            path.rmdir()
        os.replace(temporary, path)
    except OSError as error:
        if error.filename is None and error.errno:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file: a byte-order mark is removed, newlines are kept as they are.

    Raises:
        DataError: a byte is not UTF-8; the message names the file and the byte's offset.
        OSError: the file cannot be read.
    """
    return to_text(Path(path).read_bytes(), str(path))


def to_text(data: bytes, name: str) -> str:
    """The text of UTF-8 bytes, as `read_text` reads them from the file `name`.

    Raises DataError as `read_text` does.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        likely = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"
        raise DataError(
            f"{name} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; guessing its meaning could "
            f"change the text. Convert it; if it is {likely}: iconv -f {likely} -t UTF-8"
        ) from None

"""Reading and writing the user's files."""

from __future__ import annotations

import os
from pathlib import Path

from transformulary.errors import DataError


def read_text(path: str | os.PathLike[str]) -> str:
    """The text of a UTF-8 file: a byte-order mark is removed, newlines are kept as they are.

    Raises:
        DataError: a byte is not UTF-8; the message names the file and the byte's offset.
        OSError: the file cannot be read.
    """
    data = Path(path).read_bytes()
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        likely = "UTF-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "WINDOWS-1252"
        raise DataError(
            f"{path} is not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}; guessing what it means would "
            f"change the text. If it is {likely}: iconv -f {likely} -t UTF-8 {path} > NEW_FILE"
        ) from None

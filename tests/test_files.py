"""Reading the user's files."""

import pytest

from transformulary.errors import DataError
from transformulary.files import read_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"\xef\xbb\xbfone\r\ntwo\rthree\n", "one\r\ntwo\rthree\n"),
        (b"\xef\xbb\xbf\xef\xbb\xbf", "\ufeff"),  # only the first is a byte-order mark
        ("é\u2028\x85\x0b\x1c\x00".encode(), "é\u2028\x85\x0b\x1c\x00"),
        (b"\n\n\n", "\n\n\n"),
    ],
)
def test_text_is_kept_as_it_is(tmp_path, data, text):
    """Reading removes one byte-order mark and nothing else."""
    path = tmp_path / "text"
    path.write_bytes(data)

    assert read_text(path) == text


@pytest.mark.parametrize(
    ("data", "offset", "likely"),
    [
        (b"it\x92s", 2, "WINDOWS-1252"),
        ("né".encode("latin-1"), 1, "WINDOWS-1252"),
        ("hi".encode("utf-16"), 0, "UTF-16"),
        (b"ab\xed\xa0\x80", 2, "WINDOWS-1252"),  # a lone surrogate
    ],
)
def test_what_is_not_utf8_is_an_error(tmp_path, data, offset, likely):
    """An invalid byte is named with its file and offset, and the message says how to convert the file."""
    path = tmp_path / "text"
    path.write_bytes(data)

    with pytest.raises(DataError, match=rf"text is not UTF-8: byte 0x{data[offset]:02x} at offset {offset};.*{likely}"):
        read_text(path)

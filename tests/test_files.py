"""Reading and writing the user's files."""

import os
import random
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from transformulary import files
from transformulary.errors import ConfigError, DataError
from transformulary.files import claimed, new_folder, read_text, unfinished, write_atomically, write_together

TWO = {"weights": "w" * 100, "key": "k"}


@contextmanager
def full_disk(n=1000):
    """No file can be longer than n bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


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


@pytest.mark.parametrize(("data", "content"), [(b"\x00\xff", b"\x00\xff"), ("é\n", b"\xc3\xa9\n")])
def test_writing_makes_folders_and_replaces(tmp_path, data, content):
    """A file is written with the folders above it, replaced by the next writing, and nothing else is left there."""
    path = tmp_path / "a" / "b"

    write_atomically(path, "x" * 100)
    write_atomically(path, data)

    assert content == path.read_bytes()
    assert [path] == list(path.parent.iterdir())


def test_writing_that_fails_changes_nothing(tmp_path):
    """Where the disk is full, the error names the file, the old one stays, and no other file or folder is left."""
    path = tmp_path / "file"
    write_atomically(path, "old")

    with full_disk():
        with pytest.raises(OSError, match="File too large") as caught:
            write_atomically(path, "new" * 1000)
        with pytest.raises(OSError, match="File too large"):
            write_atomically(tmp_path / "a" / "b" / "file", "new" * 1000)

    assert str(path) == caught.value.filename
    assert "old" == path.read_text()
    assert [path] == list(tmp_path.iterdir())


def test_a_full_disk_leaves_all_files_of_a_folder(tmp_path):
    """Where one of several cannot be written, all old ones stay, and nothing else is left."""
    write_together(tmp_path, TWO, "key")

    with full_disk(), pytest.raises(OSError, match="File too large") as caught:
        write_together(tmp_path, {"key": "new", "more/file": "new", "weights": "new" * 1000}, "key", {"old"})

    assert str(tmp_path / "weights") == caught.value.filename
    assert contents(tmp_path) == TWO


@pytest.mark.parametrize("same", [True, False])
def test_files_are_never_mixed(tmp_path, monkeypatch, same):
    """Whenever the moves of several files are cut short there is no key, though it may say what the old one says.

    What was written for them is found.
    """
    new = {"weights": "W", "names": "N", "key": TWO["key"] if same else "K"}
    move, moves = os.replace, []

    def cut(*names):
        if len(moves) == n:
            raise KeyboardInterrupt
        moves.append(move(*names))

    for n in range(3):
        moves.clear()
        folder = tmp_path / str(n)
        write_together(folder, TWO, "key")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "replace", cut)
            write_together(folder, new, "key")

        assert n == len(moves)
        assert not (folder / "key").exists()
        assert [new["key"]] == [path.read_text() for path in unfinished(folder / "key")]


def test_one_file_that_changes_is_replaced_at_once(tmp_path, monkeypatch):
    """The key is not removed where it and all others but one stay as they are, through a link as well."""
    write_together(tmp_path / "a", TWO, "key")
    (tmp_path / "b").symlink_to("a")
    monkeypatch.setattr(Path, "unlink", None)

    write_together(tmp_path / "b", TWO | {"weights": "new"}, "key")

    assert contents(tmp_path / "a") == TWO | {"weights": "new"}


def test_files_that_are_links(tmp_path):
    """What links lead to is replaced, the links stay; what is to go goes."""
    write_together(tmp_path / "a", TWO | {"old": ""}, "key")
    (tmp_path / "b").mkdir()
    for name in (*TWO, "old"):
        (tmp_path / "b" / name).symlink_to(tmp_path / "a" / name)

    write_together(tmp_path / "b", {"weights": "W", "key": "K"}, "key", {"old"})

    assert contents(tmp_path / "a") == {"weights": "W", "key": "K", "old": ""}
    assert contents(tmp_path / "b") == {"weights": "W", "key": "K"}
    assert (tmp_path / "b" / "key").is_symlink()


def test_a_folder_where_a_file_is_due(tmp_path):
    """It is said before anything changes."""
    write_together(tmp_path, {"weights": "w", "names/file": "n"}, "weights")

    with pytest.raises(DataError, match="names is no file"):
        write_together(tmp_path, {"weights": "new", "names": "new"}, "weights")

    assert contents(tmp_path) == {"weights": "w", "names/file": "n"}


def test_a_link_stays(tmp_path):
    """The file that a link leads to is replaced, there already or not, and the link stays."""
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    link.symlink_to("folder/target")

    for data in ("first", "second"):
        write_atomically(link, data)

        assert link.is_symlink()
        assert data == target.read_text()
        assert [target] == list(target.parent.iterdir())


def test_what_is_no_file_is_written_to(tmp_path):
    """A pipe gets the data and stays a pipe."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    write_atomically(pipe, "data")

    assert b"data" == os.read(reader, 100)
    assert pipe.is_fifo()
    os.close(reader)


TO_STDOUT = """
from transformulary.files import write_atomically
print("before", flush=True)
write_atomically("/dev/stdout", "data\\n")
print("after")
"""


@pytest.mark.parametrize("append", [False, True])
def test_standard_output_as_a_file(tmp_path, append):
    """/dev/stdout gets the data between what is printed before and after, also where it is a file."""
    out, source = tmp_path / "out", str(Path(files.__file__).parents[1])

    with out.open("ab" if append else "wb") as stdout:
        environment = os.environ | {"PYTHONPATH": source}
        subprocess.run([sys.executable, "-c", TO_STDOUT], env=environment, stdout=stdout, check=True)

    assert "before\ndata\nafter\n" == out.read_text()


def test_a_stream_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    """The error of a device that takes nothing names it."""
    monkeypatch.setattr(files, "_stream", lambda path: os.open("/dev/null", os.O_RDONLY))

    with pytest.raises(OSError, match="pipe") as caught:
        write_atomically(tmp_path / "pipe", "data")

    assert str(tmp_path / "pipe") == caught.value.filename


def test_a_folder_is_claimed_once(tmp_path):
    """While a folder is claimed nobody else gets it; afterwards it is free, and an empty one that was made is gone."""
    folder = tmp_path / "a" / "b"

    with claimed(folder):
        with pytest.raises(ConfigError, match="is in use"), claimed(folder):
            raise AssertionError("claimed twice")
        (folder / "file").touch()
    with claimed(folder):
        (folder / "file").unlink()

    assert [folder] == list((tmp_path / "a").iterdir())
    with claimed(tmp_path / "c" / "d"):
        pass
    assert not (tmp_path / "c").exists()


def test_what_a_killed_process_had_begun_is_removed(tmp_path):
    """The next to make that folder removes it, its own process number or another; a living one's, and others', stay."""
    killed = [tmp_path / f".out.{pid}.tmp" for pid in (os.getpid(), 1)]
    others = [tmp_path / name for name in (".out.99.tmp", ".out.b.tmp", ".out.b.1.tmp")]
    for folder in (*killed, *others):
        folder.mkdir()
        (folder / "file").touch()

    with claimed(others[0]), new_folder(tmp_path / "out") as folder:
        (folder / "new").touch()

    assert sorted([tmp_path / "out", *others]) == sorted(tmp_path.iterdir())
    assert ["new"] == [file.name for file in (tmp_path / "out").iterdir()]


@pytest.mark.parametrize("there", [True, False])
def test_a_link_to_an_empty_folder_is_filled(tmp_path, there):
    """What is written through a link, dangling or not, appears where it leads; the link stays."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    if there:
        (tmp_path / "real").mkdir()

    with new_folder(tmp_path / "link") as folder:
        (folder / "file").write_text("new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text() == "new"


def test_where_a_file_system_begins(tmp_path, monkeypatch):
    """A mount point cannot be replaced by a folder: said before anything is computed."""
    monkeypatch.setattr(Path, "is_mount", lambda path: path.name == "disk")
    (tmp_path / "disk").mkdir()

    with pytest.raises(DataError, match="disk is where another file system begins"), new_folder(tmp_path / "disk"):
        raise AssertionError("it was computed")


def test_a_folder_without_a_name():
    """An empty name, a variable of the shell that is not set say, is no folder: not even the one where we are."""
    with pytest.raises(DataError, match=r"^the name of the folder is empty"), new_folder(""):
        raise AssertionError("it was computed")


def test_a_folder_that_another_run_made(tmp_path):
    """What appears meanwhile is not overwritten, and the message says whose it is."""
    with pytest.raises(DataError, match="k was made meanwhile by another run"), new_folder(tmp_path / "k") as folder:
        (folder / "file").write_text("second")
        write_atomically(tmp_path / "k" / "file", "first")

    assert (tmp_path / "k" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_a_folder_that_fails_is_not_there(tmp_path):
    """Neither the new folder nor those above it are left where filling it fails."""
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "a" / "out") as folder:
        (folder / "new").touch()
        raise ZeroDivisionError

    assert [] == list(tmp_path.iterdir())


WRITE_FOR_EVER = """
import itertools, sys
from transformulary.files import write_atomically
for n in itertools.count(1):
    write_atomically(sys.argv[1], f"{n} " * 100_000)
    print(n, flush=True)
"""


@pytest.mark.parametrize("seed", range(10))
def test_killed_while_writing(tmp_path, seed):
    """Killed at any moment, the file is whole: the last one reported, or the next."""
    path, source = tmp_path / "file", str(Path(files.__file__).parents[1])
    command = [sys.executable, "-c", WRITE_FOR_EVER, path]
    writer = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": source}, stdout=subprocess.PIPE, text=True)

    writer.stdout.readline()
    sum(range(random.Random(seed).randrange(10**6)))  # until some moment
    os.kill(writer.pid, signal.SIGKILL)
    reported = [1, *map(int, writer.communicate()[0].split())][-1]

    assert path.read_text() in (f"{n} " * 100_000 for n in (reported, reported + 1))


@pytest.mark.parametrize("inside", [True, False], ids=["a file of it", "the folder"])
def test_what_cannot_be_written_is_named_as_asked(tmp_path, inside):
    """Neither a file of the unfinished folder nor that itself is named: what the user calls it is."""
    (tmp_path / "file").touch()
    out = tmp_path / "out" if inside else tmp_path / "file" / "out"

    with pytest.raises(OSError, match=r"too long|Not a directory") as error, new_folder(out) as folder:
        write_atomically(folder / "here" / "..." / ("x" * 300), b"")

    assert error.value.filename == str(out)


def test_another_file_is_named_as_it_is(tmp_path):
    """An error about a file elsewhere, while a folder is filled, names that file."""
    with pytest.raises(FileNotFoundError) as error, new_folder(tmp_path / "out"):
        (tmp_path / "missing").read_bytes()

    assert error.value.filename == str(tmp_path / "missing")

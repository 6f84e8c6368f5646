"""The user's files."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

from transformulary.errors import ConfigError, DataError

#: Bytes of two files that are compared at once.
BLOCK = 2**20


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path`; at every moment the file there is the old or the new one, whole.

    Creates the folder if it is missing.  Where `path` is a link, the file that it leads to is replaced.  What is no
    file, a device or a pipe, or is where stdout or stderr goes, is written to and not replaced.

    Raises OSError, which names the file, if it cannot be done; the old file is then untouched, and no folder stays that
    was made for nothing.
    """
    content = _bytes(data)
    if (place := _stream(Path(path))) is None:
        _replace({Path(path): content})
        return
    with _about(path), open(place, "wb") as stream:
        stream.write(content)


def write_together(
    folder: str | Path, files: Mapping[str, bytes | str], key: str, gone: Collection[str] = frozenset()
) -> None:
    """Write several files of a folder, of which each would be misread beside an old one.

    All are written beside the old files first, so that these stay where that fails, on a full disk say.  Then they take
    their places.  If more than one changes, `key`, without which the others are nothing, is removed before and comes
    last: wherever this is cut short, the folder holds what was there, what is to be there, or no `key`.

    Args:
        folder: made if it is missing; nobody else writes to it meanwhile (`claimed`).
        files: their content, by their names in the folder.
        key: the name of one of them.
        gone: names of files that are removed with the old ones.

    Raises:
        DataError: there is something other than a file where one is due.
        OSError: as for `write_atomically`.
    """
    contents = {Path(folder) / name: _bytes(data) for name, data in files.items()}
    if odd := [path for path in contents if path.exists() and not path.is_file()]:
        raise DataError(f"{odd[0]} is no file, and one would be written there. Remove it, or name another folder.")
    changed = {path: content for path, content in contents.items() if not _holds(path, content)}
    old = [Path(folder) / name for name in gone]
    if len(changed) + len(old) > 1:
        last = Path(folder) / key
        changed[last] = changed.pop(last, contents[last])
        old = [Path(os.path.realpath(last)), *old]  # a link stays
    _replace(changed, [path for path in old if path.exists()])


def unfinished(path: Path) -> list[Path]:
    """What a process that was killed has left of `path`: the file or folder that it had begun to write beside it."""
    begun = re.compile(rf"\.{re.escape(path.name)}\.\d+\.tmp")
    return [beside for beside in path.parent.glob(".*.tmp") if begun.fullmatch(beside.name)]


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _holds(path: Path, content: bytes) -> bool:
    """Whether this is what the file holds."""
    if not path.is_file() or path.stat().st_size != len(content):
        return False
    with path.open("rb") as file:
        return all(file.read(BLOCK) == content[i : i + BLOCK] for i in range(0, len(content), BLOCK))


@contextmanager
def _about(path: str | Path) -> Iterator[None]:
    """An OSError from inside names the file that the user knows."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def _stream(path: Path) -> Path | int | None:
    """What to open where `path` is not a file of its own: the path, or a descriptor that shares its position."""
    if not path.exists():
        return None
    for descriptor in (1, 2):
        with suppress(OSError):  # it is closed
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return os.dup(descriptor)
    return None if path.is_file() else path


def _replace(contents: Mapping[Path, bytes], gone: Sequence[Path] = ()) -> None:
    """Write files, all beside where they belong; then remove what is to go, and move them to their places in order."""
    real = {path: Path(os.path.realpath(path)) for path in contents}
    new = {path: _temporary(place) for path, place in real.items()}
    with ExitStack() as folders:
        try:
            for path, content in contents.items():
                with _about(path):
                    folders.enter_context(made(new[path].parent))
                    _write(new[path], content)
            for path in gone:
                path.unlink()
            for path in contents:
                with _about(path):
                    os.replace(new[path], real[path])
        except BaseException:
            if all(path.exists() for path in gone):  # else what is new is all that there is
                for temporary in new.values():
                    temporary.unlink(missing_ok=True)
            raise


def _write(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _temporary(path: Path) -> Path:
    """What is written to become `path`; `unfinished` finds it, and what a killed process has left is another."""
    names = (path.with_name(f".{path.name}.{n}.tmp") for n in count(os.getpid()))
    return next(name for name in names if not name.exists())


@contextmanager
def made(folder: Path) -> Iterator[None]:
    """The folder is there inside; afterwards, folders that were made for it and are still empty are not."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    finally:
        for path in missing:
            try:
                path.rmdir()
            except FileNotFoundError:  # it was moved away, or removed
                continue
            except OSError:  # it is not empty: something was written
                break


@contextmanager
def claimed(folder: str | Path) -> Iterator[bool]:
    """The folder, made if it is missing, is this block's alone: who else claims it meanwhile is refused.

    The claim is a lock that the system keeps on the folder itself (`flock`): it ends with the process, however
    that ends, and leaves no file.  Where the system has no such lock (Windows, some network drives), nobody is
    refused, and the block gets False.

    Raises ConfigError if another process, or another block of this one, has claimed it.
    """
    folder = Path(folder)
    with made(folder):
        try:
            import fcntl
        except ImportError:
            yield False
            return
        descriptor = os.open(folder, os.O_RDONLY)
        locked = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise ConfigError(
                f"{folder} is in use: another run writes there. Wait until it ends, or name another folder."
            ) from None
        except OSError:  # a file system without locks
            locked = False
        try:
            yield locked
        finally:
            os.close(descriptor)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """A folder to be filled in the `with` block; it appears at `path` when that ends, or, if it fails, not at all.

    Where `path` is a link, it appears where that leads.  What a killed process had begun to fill for `path` is
    removed: its claim ended with it.

    Raises:
        DataError: there is something at `path` other than an empty folder, or it is where a file system begins; it has
            no name.
        OSError: it cannot be written; the error names `path`.
    """
    if not str(path):
        raise DataError("the name of the folder is empty. Give the name of a new one.")
    target = Path(os.path.realpath(path))
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise DataError(
            f"{path} exists and is not an empty folder: nothing is overwritten. Name a new one, or remove it."
        )
    if target.is_mount():
        raise DataError(f"{path} is where another file system begins, and cannot be replaced. Name a new folder in it.")
    _remove_abandoned(target)
    temporary = _temporary(target)
    try:
        with claimed(temporary):
            try:
                yield temporary
                for file in filter(Path.is_file, temporary.rglob("*")):
                    with file.open("rb") as written:
                        os.fsync(written.fileno())
                _appear(temporary, target, path)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        if error.errno and (error.filename is None or str(temporary) in str(error.filename)):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def _appear(folder: Path, target: Path, name: str | Path) -> None:
    """Move a folder to where nothing is, or an empty one; `name` is what the user calls it."""
    try:
        if target.exists():
            target.rmdir()
        os.replace(folder, target)
    except OSError:
        if not target.exists() or not any(target.iterdir()):
            raise
        raise DataError(f"{name} was made meanwhile by another run: it stays, and this one is not written.") from None


def check_file(path: Path) -> None:
    """Raise DataError where no file can be written: it is a folder, or in something that is none."""
    if path.is_dir():
        raise DataError(f"{path} is a folder. Name a file in it.")
    nearest = next(folder for folder in path.parents if folder.exists())
    if not nearest.is_dir():
        raise DataError(f"{path} cannot be written: {nearest} is no folder.")


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary folders of `path` whose process has ended, however it did."""
    for folder in unfinished(path):
        with suppress(ConfigError, OSError), claimed(folder) as certain:
            if certain:
                shutil.rmtree(folder)


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

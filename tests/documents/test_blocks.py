"""Every code block of README and docs runs, and prints what it says it prints.

python   the blocks of one document are one program, run from top to bottom in an empty folder
pycon    the same as an interactive session: what is printed is compared
console  each `$ command` runs in that folder; the lines below it are compared with what it prints on stdout
         (a command that fails: on stderr).  `...` stands for any text, alone on a line for any lines.
"""

import contextlib
import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

#: What a fenced block may be: run, or plain text.
LANGUAGES = {"python", "pycon", "console", "text", "toml", "json"}

#: Commands that are shown and not run here, because this very run is what they start, or because they set it up.
NOT_RUN = ("make ", "git clone ", "cd ", "pip install ")


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is the line of the document where its text begins, from 1."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a document."""
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1) for m in found]


def commands(block: Block) -> list[tuple[str, str, int]]:
    """(command, expected output, line) of a console block."""
    found = re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
    return [(m[1], m[2], block.line + block.text.count("\n", 0, m.start())) for m in found]


def matches(expected: str, printed: str) -> bool:
    """Whether the output is the expected one, `...` standing for anything."""
    lines = [re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in expected.strip().splitlines()]
    pattern = "".join(r"(?:.*\n)*" if line == ".*\n" else line for line in lines)
    return re.fullmatch(pattern, printed.strip() + "\n") is not None


def run_console(block: Block, document: str) -> None:
    """Run the commands of a block and compare what they print."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    environment = {**os.environ, "PATH": os.pathsep.join(paths), "COLUMNS": "100"}
    for command, expected, line in commands(block):
        if command.startswith(NOT_RUN):
            continue
        done = subprocess.run(command, shell=True, capture_output=True, env=environment)
        printed = (done.stderr if done.returncode else done.stdout).decode()
        assert matches(expected, printed), f"{document}:{line}: `{command}` printed\n{printed}instead of\n{expected}"


def run_python(block: Block, document: str, names: dict[str, object]) -> None:
    """Run a block as the next part of its document's program."""
    exec(compile("\n" * (block.line - 1) + block.text, document, "exec"), names)


def run_session(block: Block, document: str, names: dict[str, object]) -> None:
    """Run an interactive session and compare what it prints."""
    session = doctest.DocTestParser().get_doctest(block.text, names, document, document, block.line - 1)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=report.append, clear_globs=False)
    names |= session.globs
    assert result.failed == 0, "".join(report)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_document_run(path, tmp_path, capsys):
    """What a reader types in, from top to bottom, does what the document says."""
    names: dict[str, object] = {"__name__": "__main__"}
    document = path.relative_to(ROOT).as_posix()
    with contextlib.chdir(tmp_path):
        for block in blocks(path):
            if block.language == "console":
                run_console(block, document)
            elif block.language == "python":
                run_python(block, document, names)
            elif block.language == "pycon":
                run_session(block, document, names)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_block_says_what_it_is(path):
    """No code hides from these tests under another name."""
    assert {block.language for block in blocks(path)} - LANGUAGES == set()


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path):
    """Every relative link of a document is a file of the repository."""
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    files = [target for target in targets if "://" not in target]

    assert [target for target in files if not (path.parent / target).exists()] == []


@pytest.mark.parametrize(
    ("expected", "printed", "equal"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\nb\n", "a\nc\n", False),
        ("a ... c\n", "a b c\n", True),
        ("a ... c\n", "a\nb c\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "a\nb\nc\n", True),
        ("a.c\n", "abc\n", False),
    ],
)
def test_elision(expected, printed, equal):
    """`...` in a line stands for text of that line, `...` alone for any number of lines; nothing else does."""
    assert matches(expected, printed) == equal

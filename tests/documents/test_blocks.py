"""Every code block of README and docs runs, and prints what it says it prints.

python   the blocks of one document are one program, run from top to bottom in a folder that holds examples/ alone;
         a block that begins with `# NAME.py` is that file, too
pycon    the same as an interactive session: what is printed is compared
console  each `$ command` runs in that folder; the lines below it are compared with what it prints on stdout
         (or, if that is nothing, on stderr).  `...` stands for any text, alone on a line for any lines;
         3e-16 or 3.1e-16 for whatever rounding in float64 leaves on this machine.
"""

import contextlib
import doctest
import os
import re
import shutil
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


#: What rounding leaves in float64, as it is written in the documents (escaped) and as it may be printed.
ROUNDING, ANY_ROUNDING = re.compile(r"\d(\\\.\d)?e\\-1[4-7]"), r"(\d(\.\d)?e-1[4-9]|0(\.0)?e\+00)"


def matches(expected: str, printed: str) -> bool:
    """Whether the output is the expected one, `...` standing for anything."""
    escaped = [re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in expected.strip().splitlines()]
    lines = [ROUNDING.sub(lambda _: ANY_ROUNDING, line) for line in escaped]
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
        printed = (done.stdout or done.stderr).decode()
        assert matches(expected, printed), f"{document}:{line}: `{command}` printed\n{printed}instead of\n{expected}"


def run_python(block: Block, document: str, names: dict[str, object]) -> None:
    """Run a block as the next part of its document's program, and keep it if it is a file."""
    if file := re.match(r"# (\w+\.py)\n", block.text):
        Path(file[1]).write_text(block.text, encoding="utf-8")
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
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
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
        ("to 3e-16, 1.2e-15\n", "to 0e+00, 4.5e-16\n", True),
        ("to 3e-16\n", "to 3e-12\n", False),
        ("to 3e-12\n", "to 2e-12\n", False),
    ],
)
def test_elision(expected, printed, equal):
    """`...` in a line stands for text of that line, alone for any lines, a rounding for any rounding; nothing else."""
    assert matches(expected, printed) == equal

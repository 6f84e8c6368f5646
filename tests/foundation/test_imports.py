"""Who may import whom (docs/architecture.md)."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from foundation.repository import ROOT, SOURCE, name, source_files

#: Everything below may import these as well.
COMMON = {"errors", "files", "tables"}

MAY_IMPORT = {
    "errors": set(),
    "files": set(),
    "tables": set(),
    "paper": set(),
    "oracle": {"paper"},
    "pseudocode": {"paper", "oracle"},  # of the oracle only oracle.source, its text: NumPy is not loaded
    "nn": {"paper"},
    "formats": {"paper"},
    "tokens": {"paper", "formats"},
    "models": {"paper", "nn", "formats", "tokens"},
    "ragged": set(),
    "encode": {"paper", "nn", "formats", "tokens", "models", "ragged"},
    "pages": {"paper", "pseudocode", "formats"},
    "data": {"tokens"},
    "train": {"paper", "nn", "formats", "tokens", "models", "data"},
    "generate": {"paper", "nn", "formats", "tokens", "models", "ragged", "encode"},
    "measure": {"nn", "tokens", "models", "ragged", "data", "train", "encode", "generate"},
    "conform": {"paper", "oracle", "pseudocode", "nn", "formats", "tokens", "models", "generate", "trace"},
    "pytest_plugin": {"conform"},
    "trace": {"paper", "oracle", "pseudocode"},
    "view": {"paper", "pseudocode", "nn", "formats", "tokens", "models", "encode", "generate"},
}

#: The standard library is enough for these.
PLAIN = {"errors", "files", "tables", "paper", "pseudocode"}
#: These hold no tensor of PyTorch: they serve the oracle, or a reader who has not installed it.
NO_TORCH = PLAIN | {"oracle", "pages", "formats", "tokens", "trace"}
#: But for the one reader of PyTorch's own files, which imports it when it is called.
READS_PICKLES = SOURCE / "formats" / "pickled.py"


def part(path: Path) -> str:
    """The part of the package that a file belongs to: its folder, or the file itself at the top."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """The full names of the modules that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            top = node.module == "transformulary"
            yield from (f"transformulary.{alias.name}" for alias in node.names) if top else [node.module]


def ours(tree: ast.AST) -> set[str]:
    """The parts of this package that a file imports."""
    modules = (module for module in imports(tree) if module.startswith("transformulary."))
    return {module.split(".")[1] for module in modules} - {"__version__"}


def others(tree: ast.AST) -> set[str]:
    """The packages beyond the standard library that a file imports."""
    return {module.split(".")[0] for module in imports(tree)} - sys.stdlib_module_names - {"transformulary"}


def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"))


INNER = [path for path in source_files() if part(path) not in {"cli", "__init__", "__main__"}]
#: `cli/_x.py` is no verb but shared by some, and imported inside their functions if it loads more.
VERBS = [path for path in source_files() if part(path) == "cli" and not path.stem.startswith("_")]
VERBS += [SOURCE / "cli" / "__init__.py", SOURCE / "__init__.py", SOURCE / "__main__.py"]


@pytest.mark.parametrize("path", INNER, ids=name)
def test_a_part_imports_only_what_the_table_allows(path):
    """Imports go one way: down the table."""
    allowed = MAY_IMPORT[part(path)] | COMMON | {part(path)}

    assert ours(tree(path)) - allowed == set()


@pytest.mark.parametrize("path", VERBS, ids=name)
def test_the_command_line_imports_inside_functions(path):
    """What a verb loads before it is called is the standard library and what needs nothing more."""
    statements = [node for node in tree(path).body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    top = ast.Module([node for node in statements if not _for_types_only(node)], [])

    assert (ours(top) - PLAIN - {"cli"}, others(top)) == (set(), set())


def _for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@pytest.mark.parametrize("path", [path for path in INNER if part(path) in PLAIN], ids=name)
def test_the_standard_library_is_enough(path):
    """What the paper says, the errors and the pseudocode can be read without any other package."""
    assert others(tree(path)) == set()


@pytest.mark.parametrize("path", [path for path in INNER if part(path) in NO_TORCH and path != READS_PICKLES], ids=name)
def test_no_torch(path):
    """The oracle and what serves readers never import PyTorch."""
    assert "torch" not in others(tree(path))


def test_every_package_imported_is_declared():
    """What the package imports stands in pyproject.toml, in the base install or in an extra for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for extra, lines in project["optional-dependencies"].items() if extra != "dev" for line in lines]
    declared = {line.partition(">=")[0] for line in project["dependencies"] + extras}

    imported = set().union(*(others(tree(path)) for path in source_files()))

    assert imported - declared == set()


def test_the_table_has_no_circle():
    """The table itself is a ladder: nothing reaches itself by importing."""

    def reach(start: str) -> set[str]:
        below = MAY_IMPORT[start]
        return below.union(*(reach(one) for one in below))

    assert [start for start in MAY_IMPORT if start in reach(start)] == []

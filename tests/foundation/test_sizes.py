"""Small files and small functions: one path from README to arithmetic, and no page of it long."""

import ast

import pytest

from foundation.repository import ROOT, name, tracked

FILES = [path for path in sorted(tracked()) if path.suffix == ".py"] if (ROOT / ".git").exists() else []
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from `def` to the last statement; the docstring is not counted."""
    doc = function.body[0] if ast.get_docstring(function) else None
    return function.end_lineno - function.lineno + 1 - (doc.end_lineno - doc.lineno + 1 if doc else 0)


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_file_has_at_most_400_lines(path):
    """A file is read in one sitting."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@pytest.mark.parametrize("path", FILES, ids=name)
def test_a_function_has_at_most_40_lines(path):
    """A function is seen at once; its docstring does not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))

    too_long = {f.name: length(f) for f in ast.walk(tree) if isinstance(f, FUNCTION) and length(f) > 40}

    assert too_long == {}

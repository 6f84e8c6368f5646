"""Small files and small functions: one path from README to arithmetic, and no page of it long."""

import ast

import pytest

from foundation.repository import ROOT, name, source_files, tracked

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


def is_algorithm(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """An algorithm of the paper is one function, as long as the paper prints it."""
    return any(ast.unparse(decorator).startswith("algorithm(") for decorator in function.decorator_list)


@pytest.mark.parametrize("path", source_files(), ids=name)
def test_a_function_has_at_most_40_lines(path):
    """A function of the package is seen at once; its docstring does not count."""
    functions = [f for f in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(f, FUNCTION)]

    too_long = {f.name: length(f) for f in functions if length(f) > 40 and not is_algorithm(f)}

    assert too_long == {}


@pytest.mark.parametrize("path", [path for path in FILES if path.name.startswith("test_")], ids=name)
def test_a_test_states_its_fact(path):
    """Every test says in its docstring what is true."""
    functions = [f for f in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(f, FUNCTION)]

    assert [f.name for f in functions if f.name.startswith("test_") and not ast.get_docstring(f)] == []

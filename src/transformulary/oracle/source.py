"""The text of the oracle: its functions by number, the label of every statement, and where a line stands.

Standard library only: what renders the source, and what watches it, both read it through this module.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

#: The files of the algorithms, in the order in which they import each other.
FILES = tuple(
    Path(__file__).with_name(f"{name}.py") for name in ("components", "transformers", "learning", "procedures")
)

#: Index variables: they count from 0 in the source and from 1 in print and in paths.
INDICES = frozenset({"t", "t_z", "t_x", "u", "l", "h", "n", "i"})

#: Strings of any kind, and what a comment says.
STRING_OR_COMMENT = re.compile(r'''"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#+ *(?P<says>.*)''')

Comprehension = ast.ListComp | ast.GeneratorExp | ast.SetComp


@dataclass(frozen=True)
class Source:
    """Parsed files of the oracle.

    functions  name -> the function of one algorithm
    tables     name of a closed table of choices -> {key: expression}
    labels     (file, line of text) -> the number that the comment there gives
    notes      (file, line of text) -> a comment that is a remark, not a number
    """

    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    tables: dict[str, dict[str, ast.expr]] = field(default_factory=dict)
    labels: dict[tuple[Path, int], str] = field(default_factory=dict)
    notes: dict[tuple[Path, int], str] = field(default_factory=dict)

    def name(self, number: str | int) -> str | None:
        """The function that is Algorithm `number`, "10" or "4r"; None if there is none."""
        return next((name for name, n in self.numbers.items() if n == str(number)), None)

    def label(self, path: Path, node: ast.stmt | ast.expr) -> str | None:
        """The number of a statement: the comment on its first line (for, while) or on its last."""
        if isinstance(node, ast.For | ast.While):
            head = node.iter if isinstance(node, ast.For) else node.test
            return self.labels.get((path, head.end_lineno or node.lineno))
        if isinstance(node, ast.If | ast.FunctionDef):
            return None
        return self.labels.get((path, node.end_lineno or node.lineno)) or self.labels.get((path, node.lineno))

    def lines(self, number: str | int) -> list[str]:
        """The labels of one algorithm in the order of its text, without repetition."""
        name = self.name(number)
        if name is None:
            raise KeyError(number)
        path, fn = self.files[name], self.functions[name]
        inside = range(fn.lineno, (fn.end_lineno or fn.lineno) + 1)
        return list(dict.fromkeys(label for (p, line), label in self.labels.items() if p == path and line in inside))


@cache
def read() -> Source:
    """The oracle's source as it stands in the files."""
    source = Source()
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        _comments(source, path, text)
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and (number := _number(node)):
                source.functions[node.name] = node
                source.numbers[node.name] = number
                source.files[node.name] = path
            target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
            table = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(table, ast.Dict):
                keys = [ast.literal_eval(k) for k in table.keys if k]
                source.tables[target.id] = dict(zip(keys, table.values, strict=True))
    return source


def _comments(source: Source, path: Path, text: str) -> None:
    for number, says in comments(text):
        table = source.labels if re.fullmatch(r"\d+[a-z]?", says) else source.notes
        table[path, number] = says


def comments(text: str) -> Iterator[tuple[int, str]]:
    """(line of text, what it says) of every comment of a Python file; as `tokenize` finds them, ten times as fast."""
    for found in STRING_OR_COMMENT.finditer(text):
        if found["says"] is not None:
            yield text.count("\n", 0, found.start()) + 1, found["says"].rstrip()


def _number(node: ast.FunctionDef) -> str | None:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "algorithm":
            return str(ast.literal_eval(decorator.args[0]))
    return None


@dataclass(frozen=True)
class Place:
    """Where a line of text stands: its algorithm, its label, and the index variables that loops run over there."""

    number: str
    label: str
    loops: tuple[str, ...]


@cache
def places() -> dict[tuple[str, int], Place]:
    """(file, line of text) -> Place, for every line of text that belongs to a numbered statement."""
    source, found = read(), {}
    for name, fn in source.functions.items():
        path, number = source.files[name], source.numbers[name]
        for node, loops in _statements(fn.body, ()):
            if label := source.label(path, node):
                head = getattr(node, "iter", None) or getattr(node, "test", None) or node
                lists = [n for n in ast.walk(head) if isinstance(n, ast.ListComp)]
                members = tuple(ast.unparse(n.generators[0].target) for n in lists)
                for line in range(node.lineno, (head.end_lineno or node.lineno) + 1):
                    own = source.labels.get((path, line), label)  # Algorithm 5 has two numbers in one statement
                    found[str(path), line] = Place(number, own, loops + members)
    return found


def _statements(body: list[ast.stmt], loops: tuple[str, ...]) -> list[tuple[ast.stmt, tuple[str, ...]]]:
    out: list[tuple[ast.stmt, tuple[str, ...]]] = []
    for node in body:
        out.append((node, loops))
        inside = (*loops, node.target.id) if isinstance(node, ast.For) and isinstance(node.target, ast.Name) else loops
        for block in ("body", "orelse"):
            out += _statements(getattr(node, block, []), inside)
    return out

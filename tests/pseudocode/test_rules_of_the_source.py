"""The oracle's source keeps the rules that make it print: whoever adds a variant gets its pseudocode for nothing.

Each rule lists its violations in a function of the source; it is tested on the oracle and on a text that breaks it.
"""

import ast
import io
import re
from tokenize import COMMENT, generate_tokens

import pytest

from transformulary.oracle import notation
from transformulary.oracle.source import FILES, INDICES, comments, read
from transformulary.paper import PRACTICES, SLOTS
from transformulary.paper.masks import MASKS
from transformulary.pseudocode.specialise import is_size, order

BUILTINS = {"len", "sum", "range", "list", "max", "min"}
HELPERS = {
    "W_qkv",
    "sharing",
    "gradient",
    "norm",
    "matrices",
    "embeddings",
    "Mask",
    *(kind.__name__ for kind in MASKS.values()),
}
#: Lists of tokens that an algorithm writes token by token, as the paper does.
WRITTEN = {"x_tilde"}


def unnumbered(function, label):
    """A statement without a number names sizes, makes indices, draws, chooses or copies; or it only returns a name."""
    for statement in statements(function):
        if label(statement) or isinstance(statement, ast.If | ast.FunctionDef | ast.Expr) or is_size(statement):
            continue
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name):
            continue
        value = getattr(statement, "value", None)
        call = getattr(getattr(value, "func", None), "id", "")
        copy = isinstance(value, ast.Tuple | ast.ListComp) and "list(" in ast.unparse(value)
        if not (isinstance(value, ast.IfExp) or call in ("indices", "draws") or copy):
            yield f"no number: {ast.unparse(statement)}"


def out_of_order(function, label):
    """Numbers grow down the text; the branches of a choice may share one."""
    yield from _out_of_order(function.body, label, (0, ""))[1]


def _out_of_order(body, label, before):
    """(the last number of some statements, what is wrong in them); each branch goes on from before the choice."""
    wrong = []
    for statement in body:
        number = order(label(statement) or "0")
        if number < before and label(statement):
            wrong.append(f"{number} after {before}: {ast.unparse(statement)}")
        ends = [
            _out_of_order(getattr(statement, block, []), label, max(before, number)) for block in ("body", "orelse")
        ]
        before = max(end for end, _ in ends)
        wrong += [violation for _, violations in ends for violation in violations]
    return before, wrong


def foreign_calls(function, label):
    """Lines call the functions of the notation, algorithms, tables of choices, and len, sum, range."""
    known = {*notation.__all__, *read().functions, *BUILTINS, *HELPERS, "loss"}
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None)
            table = isinstance(node.func, ast.Subscript) and getattr(node.func.value, "id", "") in read().tables
            if not table and name not in known:
                yield f"unknown function: {ast.unparse(node)}"


def choices_not_passed_on(function, label):
    """An algorithm that takes the choices c is called with them."""
    takes = {name for name, f in read().functions.items() if "c" in [a.arg for a in f.args.args]}
    for node in ast.walk(function):
        name = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
        if name in takes and not any(ast.unparse(a).startswith(("c", "dropped(c,")) for a in node.args):
            yield f"without c: {ast.unparse(node)}"


def other_indices(function, label):
    """What counts is one of the index letters; only they move from 0 to 1 in print."""
    for node in ast.walk(function):
        target = getattr(node, "target", None) if isinstance(node, ast.For | ast.comprehension) else None
        if target is not None and ast.unparse(target) not in INDICES | {"x_n"}:
            yield f"not an index letter: {ast.unparse(target)}"


def changes_in_place(function, label):
    """A value is bound anew, not changed."""
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign):
            yield f"changed in place: {ast.unparse(node)}"
        entry = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
        if entry and ast.unparse(node.targets[0]).partition("[")[0] not in WRITTEN:
            yield f"changed in place: {ast.unparse(node)}"


def hidden_choices(function, label):
    """Conditions are about the choices (or an optional hyperparameter), or end the algorithm; nothing else decides."""
    for node in ast.walk(function):
        ends = isinstance(node, ast.If) and len(node.body) == 1 and isinstance(node.body[0], ast.Return)
        chooses = isinstance(node, ast.If) and re.match(r"(c|how)\.\w+|\w+ is not None", ast.unparse(node.test))
        if isinstance(node, ast.If) and not ends and not chooses:
            yield f"not the config's: if {ast.unparse(node.test)}"
        if isinstance(node, ast.Try | ast.With | ast.Match | ast.Break | ast.Continue | ast.NamedExpr):
            yield f"no line of the paper: {ast.unparse(node)}"


def foreign_letters(function, label):
    """Names are ASCII: LaTeX commands without backslash."""
    for node in ast.walk(function):
        name = getattr(node, "id", getattr(node, "attr", ""))
        if not name.isascii():
            yield f"not ASCII: {name}"


RULES = [
    unnumbered,
    out_of_order,
    foreign_calls,
    choices_not_passed_on,
    other_indices,
    changes_in_place,
    hidden_choices,
    foreign_letters,
]

BROKEN = {
    unnumbered: "def f(x, c):\n    y = x + x\n    return y",
    out_of_order: "def f(x, c):\n    y = x + x  # 2\n    y = y + x  # 1\n    return y",
    foreign_calls: "def f(x, c):\n    y = np.abs(x)  # 1\n    return y",
    choices_not_passed_on: "def f(x, c):\n    y = layer_norm(x, x, x)  # 1\n    return y",
    other_indices: "def f(x, c):\n    y = [x[j] for j in range(3)]  # 1\n    return y",
    changes_in_place: "def f(x, c):\n    x += 1  # 1\n    return x",
    hidden_choices: "def f(x, c):\n    if len(x) > 3:\n        x = x  # 1\n    return x",
    foreign_letters: "def f(x, c):\n    γ = x  # 1\n    return γ",
}


def statements(function):
    """Every statement of a function, in the order of its text."""
    for node in function.body:
        yield node
        for block in ("body", "orelse"):
            yield from statements(ast.Module(getattr(node, block, []), []))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_oracle_keeps(rule):
    """The oracle's algorithms break no rule."""
    source = read()

    violations = [
        f"{name}: {violation}"
        for name, function in source.functions.items()
        for violation in rule(function, lambda node, path=source.files[name]: source.label(path, node))
    ]

    assert violations == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_text_that_breaks(rule):
    """Each rule notices a text that breaks it."""
    text = BROKEN[rule]
    labels = {k: found[1] for k, row in enumerate(text.splitlines(), 1) if (found := re.search(r"# (\d+)", row))}

    violations = list(rule(ast.parse(text).body[0], lambda node: labels.get(node.end_lineno)))

    assert violations


def test_numbers_stand_at_statements():
    """Every numbered comment ends a line on which a statement, its head or one of its members begins or ends."""
    source = read()
    ends = {
        (path, line)
        for name, path in source.files.items()
        for node in ast.walk(source.functions[name])
        for line in (getattr(node, "lineno", 0), getattr(node, "end_lineno", 0))
    }

    assert set(source.labels) <= ends


def test_tables_of_choices_have_the_slots_values():
    """Every table that a line looks up has exactly the values of one slot, functions or one-expression lambdas."""
    tables = read().tables

    for name, table in tables.items():
        slots = [slot for slot, values in (SLOTS | PRACTICES).items() if set(values) == set(table)]
        assert slots, name
        assert all(isinstance(entry, ast.Name | ast.Lambda) for entry in table.values()), name


def test_comments_are_found_as_python_finds_them():
    """Every comment of the oracle, at its line; a # in a string of any kind is none."""
    texts = [path.read_text(encoding="utf-8") for path in FILES]
    texts.append('x = "# 1"  # 2\ny = \'"# 3\'  #   4 \nz = """\n# 5 "\n"""  # 6\nw = "\\"# 7"  ## 8')

    for text in texts:
        tokens = generate_tokens(io.StringIO(text).readline)
        expected = [(t.start[0], t.string.lstrip("#").strip()) for t in tokens if t.type == COMMENT]
        assert expected == list(comments(text))
    assert [says for _, says in comments(texts[-1])] == ["2", "4", "6", "8"]

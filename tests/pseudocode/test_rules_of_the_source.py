"""The oracle's source keeps the rules that make it print: whoever adds a variant gets its pseudocode for nothing.

Each rule lists its violations in a function of the source; it is tested on the oracle and on a text that breaks it.
"""

import ast
import builtins
import io
import re
from pathlib import Path
from symtable import symtable
from textwrap import indent
from tokenize import COMMENT, generate_tokens

import pytest

from pseudocode.published import CONFIGS
from transformulary.oracle import notation
from transformulary.oracle.source import FILES, INDICES, comments, read
from transformulary.paper import PRACTICES, SLOTS, Inference, Training, parameters
from transformulary.paper.masks import MASKS
from transformulary.paper.parameters import POSITIONAL, split
from transformulary.pseudocode.formulas import OPERATORS, Formulas
from transformulary.pseudocode.specialise import annotation, choice, is_size, order

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
#: What a model and its practice choose, and what parameters are called.
CHOICES = {
    name for kind in (*CONFIGS.values(), Training(), Inference()) for name in (*vars(kind), "dropout", "decoupled")
}
TABLES = [*map(parameters, CONFIGS.values()), *POSITIONAL.values()]
PARAMETERS = {
    split(name)[0]
    for table in TABLES
    for shapes in (table, *table.values())
    if isinstance(shapes, dict)
    for name in shapes
}


def unnumbered(function, label):
    """A statement without a number names sizes, makes indices, room for tokens, draws or chooses; or returns a name."""
    for statement in statements(function):
        if label(statement) or isinstance(statement, ast.If | ast.FunctionDef | ast.Expr) or is_size(statement):
            continue
        if isinstance(statement, ast.Return) and isinstance(statement.value, ast.Name):
            continue
        value = getattr(statement, "value", None)
        call = getattr(getattr(value, "func", None), "id", "")
        if not (isinstance(value, ast.IfExp) or call in ("indices", "draws", "unwritten")):
            yield f"no number: {ast.unparse(statement)}"


def out_of_order(function, label):
    """Numbers grow down the text, none comes twice; the branches of a choice may share one."""
    yield from _out_of_order(function.body, label, (0, ""))[1]


def _out_of_order(body, label, before):
    """(the last number of some statements, what is wrong in them); each branch goes on from before the choice."""
    wrong = []
    for statement in body:
        number = order(label(statement) or "0")
        if number <= before and label(statement):
            wrong.append(f"{label(statement)} after {before[0]}{before[1]}: {ast.unparse(statement)}")
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
        if target is not None and ast.unparse(target) not in INDICES:
            yield f"not an index letter: {ast.unparse(target)}"


def changes_in_place(function, label):
    """A value is bound anew, to one name or several, not changed."""
    for node in ast.walk(function):
        if isinstance(node, ast.AugAssign | ast.Delete):
            yield f"changed in place: {ast.unparse(node)}"
        if isinstance(node, ast.Assign):
            bound = node.targets[0].elts if isinstance(node.targets[0], ast.Tuple) else [node.targets[0]]
            if len(node.targets) > 1 or not all(isinstance(t, ast.Name) or _written(t) for t in bound):
                yield f"changed in place: {ast.unparse(node)}"


def _written(target):
    return isinstance(target, ast.Subscript) and ast.unparse(target).partition("[")[0] in WRITTEN


def hidden_choices(function, label):
    """Choices are the config's, or of an optional hyperparameter; data end a loop, or a text in a numbered line."""
    optional = {f"{a.arg} is not None" for a in function.args.kwonlyargs}
    told = [n for n in ast.walk(function) if isinstance(n, ast.If) and ast.unparse(n.test) in optional]
    not_printed = {id(part) for n in told for part in ast.walk(n)}
    for node in ast.walk(function):
        decides = isinstance(node, ast.If | ast.IfExp) and choice(node.test) is None
        if decides and id(node) not in not_printed and not _ends(node, label):
            yield f"not the config's: if {ast.unparse(node.test)}"
        if isinstance(node, ast.For | ast.While) and node.orelse:
            yield f"else of a loop: {ast.unparse(node.orelse[0])}"


def _ends(node, label):
    """Whether a choice is a line that returns where data are in a set of the config's: if y in how.stop."""
    test, body = node.test, node.body
    returns = isinstance(node, ast.If) and not node.orelse and isinstance(body[0], ast.Return) and label(body[0])
    found = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In)
    return returns and found and choice(test.comparators[0]) is not None


def no_lines(function, label):
    """What stands in an algorithm is an assignment, a loop, a choice, a loss or a return."""
    for statement in statements(function):
        text = isinstance(statement, ast.Expr) and isinstance(getattr(statement.value, "value", None), str)
        if not text and not isinstance(
            statement, ast.Assign | ast.AugAssign | ast.For | ast.While | ast.If | ast.FunctionDef | ast.Return
        ):
            yield f"no line of the paper: {ast.unparse(statement)}"


def without_notation(function, label):
    """Whatever a formula is made of is printed, all of it."""
    conditions = {
        id(part) for n in ast.walk(function) if isinstance(n, ast.If | ast.IfExp) for part in ast.walk(n.test)
    }
    for node in ast.walk(ast.Module(function.body, [])):
        known = hasattr(Formulas, type(node).__name__) or isinstance(node, (*LINES, ast.IfExp, ast.Slice, ast.Starred))
        if isinstance(node, ast.expr) and id(node) not in conditions and (not known or _lost(node)):
            yield f"there is no notation for {ast.unparse(node)}"


#: What `statements` prints as lines.
LINES = (ast.ListComp, ast.GeneratorExp)


def _lost(node):
    """Whether print would leave out a part of an expression."""
    match node:
        case ast.UnaryOp():
            return not isinstance(node.op, ast.USub)
        case ast.BinOp():
            return type(node.op) not in (*OPERATORS, ast.Mult, ast.Div, ast.Pow, ast.FloorDiv)
        case ast.Compare():
            return len(node.ops) > 1 or type(node.ops[0]) not in OPERATORS
        case ast.Slice():
            return node.step is not None
        case ast.Call():
            return bool(node.keywords)
        case ast.ListComp() | ast.GeneratorExp():
            return len(node.generators) > 1 or bool(node.generators[0].ifs)
        case ast.SetComp():
            return len(node.generators) > 1 or len(node.generators[0].ifs) != 1
    return False


def foreign_attributes(function, label):
    """What has a dot is a choice, a parameter, a transpose or a size."""
    sizes = {id(n) for s in statements(function) if is_size(s) for n in ast.walk(s)}
    thetas = {a.arg for f in ast.walk(function) if isinstance(f, ast.FunctionDef) for a in _arguments(f)}
    for node in ast.walk(ast.Module(function.body, [])):
        if isinstance(node, ast.Attribute) and node.attr != "T" and id(node) not in sizes:
            of = getattr(node.value, "id", "")
            if not ((of in ("c", "how") and node.attr in CHOICES) or (of in thetas and node.attr in PARAMETERS)):
                yield f"neither choice nor parameter: {ast.unparse(node)}"


def _arguments(function):
    return (a for a in (*function.args.posonlyargs, *function.args.args) if annotation(a) == "Theta")


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
    no_lines,
    without_notation,
    foreign_attributes,
    foreign_letters,
]

#: (rule, lines of an algorithm that break it, what is said)
BROKEN = [
    (unnumbered, "m = e + e", "no number: m = e + e"),
    (unnumbered, "m = [list(e) for t in range(3)]", "no number: m = [list(e) for t in range(3)]"),
    (out_of_order, "m = e + e  # 2\nm = m + e  # 1", "1 after 2: m = m + e"),
    (out_of_order, "m = e + e  # 1\nm = m + e  # 1", "1 after 1: m = m + e"),
    (foreign_calls, "m = np.abs(e)  # 1", "unknown function: np.abs(e)"),
    (choices_not_passed_on, "m = layer_norm(e, e, e)  # 1", "without c: layer_norm(e, e, e)"),
    (other_indices, "m = [e[j] for j in range(3)]  # 1", "not an index letter: j"),
    (changes_in_place, "e += 1  # 1", "changed in place: e += 1"),
    (changes_in_place, "e[0] = 1  # 1", "changed in place: e[0] = 1"),
    (changes_in_place, "e[0], m = (m, m)  # 1", "changed in place: e[0], m = (m, m)"),
    (changes_in_place, "e.a = 3  # 1", "changed in place: e.a = 3"),
    (changes_in_place, "m = k = e  # 1", "changed in place: m = k = e"),
    (changes_in_place, "del e[0]  # 1", "changed in place: del e[0]"),
    (no_lines, "del e[0]  # 1", "no line of the paper: del e[0]"),
    (no_lines, "with e:\n    m = e  # 1", "no line of the paper: with e:\n    m = e"),
    (hidden_choices, "if len(e) > 3:\n    m = e + e  # 1", "not the config's: if len(e) > 3"),
    (hidden_choices, "if c.eps and len(e) > 3:\n    m = e + e  # 1a", "not the config's: if c.eps and len(e) > 3"),
    (hidden_choices, "if len(e) > 3:\n    return e", "not the config's: if len(e) > 3"),
    (hidden_choices, "if len(e) > 3:\n    return e  # 1", "not the config's: if len(e) > 3"),
    (hidden_choices, "if e in how.stop:\n    return e", "not the config's: if e in how.stop"),
    (hidden_choices, "if e is not None:\n    m = e + e  # 1", "not the config's: if e is not None"),
    (
        hidden_choices,
        "if k is not None and len(e) > 3:\n    m = e + e  # 1",
        "not the config's: if k is not None and len(e) > 3",
    ),
    (hidden_choices, "m = e if len(e) > 3 else -e  # 1", "not the config's: if len(e) > 3"),
    (hidden_choices, "m = e if len(e) > 3 else -e", "not the config's: if len(e) > 3"),
    (hidden_choices, "for t in range(3):  # 1\n    m = e  # 2\nelse:\n    m = -e  # 3", "else of a loop: m = -e"),
    (without_notation, "m = e or -e  # 1", "there is no notation for e or -e"),
    (without_notation, "m = ~e  # 1", "there is no notation for ~e"),
    (without_notation, "m = e ^ e  # 1", "there is no notation for e ^ e"),
    (without_notation, "m = 0 < e < 1  # 1", "there is no notation for 0 < e < 1"),
    (without_notation, "m = e[::2]  # 1", "there is no notation for ::2"),
    (without_notation, "m = sum(e, start=1)  # 1", "there is no notation for sum(e, start=1)"),
    (
        without_notation,
        "m = [e[t] for t in range(3) if e[t] > 0]  # 1",
        "there is no notation for [e[t] for t in range(3) if e[t] > 0]",
    ),
    (foreign_attributes, "m = e.real  # 1", "neither choice nor parameter: e.real"),
    (foreign_attributes, "m = theta.real  # 1", "neither choice nor parameter: theta.real"),
    (foreign_attributes, "m = c.nothing * e  # 1", "neither choice nor parameter: c.nothing"),
    (foreign_letters, "γ = e  # 1", "not ASCII: γ"),
]


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


@pytest.mark.parametrize(("rule", "lines", "said"), BROKEN, ids=[lines.splitlines()[0] for _, lines, _ in BROKEN])
def test_lines_that_break(rule, lines, said):
    """Each rule refuses lines that break it, and says what it is that it refuses."""
    text = "def f(e, /, theta: Theta, c, how, *, k=None):\n" + indent(lines, "    ")
    labels = {i: found[1] for i, row in enumerate(text.splitlines(), 1) if (found := re.search(r"# (\d+\w?)", row))}

    violations = list(rule(ast.parse(text).body[0], lambda node: labels.get(node.end_lineno)))

    assert violations == [said]


def test_every_rule_refuses_something():
    """No rule is without lines that break it."""
    assert {rule for rule, _, _ in BROKEN} == set(RULES)


def unbound(text):
    """The names that functions of a file use, and that the file neither imports nor defines."""
    module = symtable(text, "file", "exec")
    bound = {s.get_name() for s in module.get_symbols() if s.is_imported() or s.is_assigned()} | {*dir(builtins)}
    scopes = [*module.get_children()]
    for scope in scopes:
        scopes += scope.get_children()
        yield from (s.get_name() for s in scope.get_symbols() if s.is_global() and s.get_name() not in bound)


@pytest.mark.parametrize("file", [*FILES, Path(notation.__file__)], ids=lambda file: file.stem)
def test_every_name_is_imported(file):
    """A page is printed whether its names mean something or not: the oracle's files import whatever they use."""
    assert [] == list(unbound(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("line", ["m = tan(e)", "m = [tan(e[t]) for t in range(3)]", "m = dict(a=lambda t: tan(t))"])
def test_a_name_that_is_not_imported(line):
    """It is refused wherever it stands: in a line, in a member of a list, in a table's function."""
    text = f"from cmath import {{}}\ndef f(e):\n    {line}\n    return m + sqrt(len(m))\n"

    assert (["tan"], []) == tuple(list(unbound(text.format(names))) for names in ("sqrt", "sqrt, tan"))


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

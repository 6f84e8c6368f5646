"""Mistakes in the renderer are noticed: each mutant fails at least one of the checks of this folder."""

import ast
import dataclasses

import numpy as np
import pytest

from pseudocode import test_golden, test_pages, test_printers, test_text
from pseudocode.page_reader import Book
from pseudocode.published import CONFIGS, by_the_oracle
from transformulary import oracle
from transformulary.oracle.source import Source
from transformulary.pseudocode import describe, formulas, grouping, html, latex, mathml, nodes, statements, text
from transformulary.pseudocode.formulas import Formulas
from transformulary.pseudocode.nodes import ATOM, Infix, Sym


@pytest.fixture(autouse=True)
def anew():
    """Every test prints its lines anew, with its mutant or without."""
    statements.lines.cache_clear()
    yield
    statements.lines.cache_clear()


def computes(name, form="text"):
    """Whether the pages of a model compute the oracle's P."""
    config = CONFIGS[name]
    theta = oracle.random_theta(config, np.random.default_rng(1))
    try:
        P = test_pages.by_the_reader(Book(test_pages.pages(config, form=form), config), config, theta)
    except Exception:  # a page that nobody can execute is noticed too
        return False
    return np.array_equal(P, by_the_oracle(config, theta))


def is_golden():
    """Whether all fifteen pages are the paper's."""
    pages = test_golden.golden()
    return all(lines == test_golden.numbered(test_golden.render(number)) for number, lines in pages.items())


def reads_back():
    """Whether text read back is the formula, where parentheses decide."""
    q, k, m = Sym("q"), Sym("k"), Sym("m")
    examples = [Infix("−", q, Infix("+", k, m)), Infix("", q, Infix("+", k, m)), Infix("", q, Infix("⊙", k, k))]
    return all(np.allclose(*test_text.read_back(node)) for node in examples)


def no_parentheses_around_sums(patch):
    real = nodes.level
    patch.setattr(grouping, "level", lambda node: ATOM if isinstance(node, Infix) and node.op == "+" else real(node))


def no_parentheses_after_minus(patch):
    patch.setitem(nodes.LEVELS, "−", 3.5)
    patch.setattr(grouping, "RELATION", 4)


def hadamard_binds_like_a_product(patch):
    patch.setitem(nodes.LEVELS, "⊙", nodes.PRODUCT)


def indices_not_moved(patch):
    real = Formulas.index
    patch.setattr(
        Formulas, "index", lambda self, node: real(self, node) if isinstance(node, ast.Slice) else self.plus(node, 0)
    )


def values_not_moved(patch):
    patch.setattr(Formulas, "Name", lambda self, node: self.symbol(node.id))


def slices_one_too_long(patch):
    real = Formulas.index

    def index(self, node):
        found = real(self, node)
        longer = isinstance(found, Infix) and found.op == ":"
        return dataclasses.replace(found, right=Infix("+", found.right, nodes.Num(1))) if longer else found

    patch.setattr(Formulas, "index", index)


def gammas_swapped(patch):
    real = text.letters
    other = {"gamma_1": "gamma_2", "gamma_2": "gamma_1"}
    patch.setattr(text, "letters", lambda name, *plain: real(other.get(name, name), *plain))


def transposes_lost(patch):
    patch.setattr(Formulas, "Attribute", lambda self, n: self(n.value) if n.attr == "T" else Sym(n.attr))


def end_missing(patch):
    real = statements._Lines.loop
    patch.setattr(statements._Lines, "loop", lambda self, *a: iter(list(real(self, *a))[:-1]))


def wrong_label(patch):
    real = Source.label
    wrong = {"7": "6"}
    patch.setattr(Source, "label", lambda *a: wrong.get(real(*a), real(*a)))


def heads_grouped_by_floor(patch):
    patch.setitem(text.FENCES, "ceiling", text.FENCES["floor"])


def band_one_too_wide(patch):
    patch.setitem(formulas.OPERATORS, next(op for op, sign in formulas.OPERATORS.items() if sign == "<"), "≤")


def mask_transposed(patch):
    real = Formulas.mask_is

    def mask_is(self, mask, *name):
        found = real(self, mask, *name)
        entry = found.left
        return (
            dataclasses.replace(found, left=dataclasses.replace(entry, at=entry.at[::-1])) if found.op == "=" else found
        )

    patch.setattr(Formulas, "mask_is", mask_is)


def bar_in_the_wrong_place(patch):
    real = Formulas.algorithm

    def algorithm(self, name, args):
        found = real(self, name, args)
        return dataclasses.replace(found, given=found.given[::-1]) if name == "MHAttention" else found

    patch.setattr(Formulas, "algorithm", algorithm)


MUTANTS = [
    no_parentheses_around_sums,
    no_parentheses_after_minus,
    hadamard_binds_like_a_product,
    indices_not_moved,
    values_not_moved,
    slices_one_too_long,
    gammas_swapped,
    transposes_lost,
    end_missing,
    wrong_label,
    heads_grouped_by_floor,
    band_one_too_wide,
    mask_transposed,
    bar_in_the_wrong_place,
]


def test_without_mutant_all_checks_pass():
    """The checks that follow hold for the renderer as it is."""
    assert is_golden()
    assert reads_back()
    assert all(map(computes, ("Llama", "GPT-Neo", "Marian")))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_is_noticed(mutant, monkeypatch):
    """A renderer with this mistake fails a check."""
    mutant(monkeypatch)

    assert not (is_golden() and reads_back() and all(map(computes, ("Llama", "GPT-Neo", "Marian"))))


# mistakes of the printers of LaTeX and HTML


def swapped_names(printer):
    def mutant(patch):
        real, other = printer.letters, {"gamma_1": "gamma_2", "W_k": "W_q"}
        patch.setattr(printer, "letters", lambda name, *plain: real(other.get(name, name), *plain))

    return mutant


def swapped_marks(printer):
    def mutant(patch):
        real = printer._symbol
        patch.setattr(printer, "_symbol", lambda own, low, high, *rest: real(own, high, low, *rest))

    return mutant


def ceiling_is_floor(printer):
    return lambda patch: patch.setitem(printer.FENCES, "ceiling", printer.FENCES["floor"])


def no_parentheses(printer):
    def mutant(patch):
        real = grouping._Grouping.__call__

        def call(self, node, least=0):
            return real(self, node, least if self.flat else 0)

        patch.setattr(grouping._Grouping, "__call__", call)

    return mutant


def parentheses_of_the_slash_only(printer):
    """A fraction in a product is neither built up nor in parentheses."""

    def mutant(patch):
        real = nodes.level
        loose = (nodes.Frac,)
        patch.setattr(grouping, "level", lambda node: ATOM if isinstance(node, loose) else real(node))

    return mutant


def everything_on_one_level(printer):
    def mutant(patch):
        real = printer.numbered
        patch.setattr(printer, "numbered", lambda row, *kind: real(dataclasses.replace(row, depth=0), *kind))

    return mutant


def labels_lost(printer):
    def mutant(patch):
        real = printer.numbered
        patch.setattr(printer, "numbered", lambda row, *kind: real(dataclasses.replace(row, label=""), *kind))

    return mutant


def fraction_upside_down(patch):
    real = latex._built_up
    patch.setattr(latex, "_built_up", lambda above, below: real(below, above))


def at_most_is_less(patch):
    patch.setitem(latex.OPERATORS, "≤", " < ")


def no_brackets_around_tall_things(patch):
    patch.setattr(mathml, "_fenced", lambda pair, inside: inside)


FORMULAS, PAGES = {"latex": latex, "html": mathml}, {"latex": latex, "html": html}
PRINTERS_MUTANTS = [
    *(
        pytest.param(form, mutant(printer), id=f"{form}: {mutant.__name__}")
        for printers, mutants in (
            (FORMULAS, [swapped_names, swapped_marks, ceiling_is_floor, no_parentheses, parentheses_of_the_slash_only]),
            (PAGES, [everything_on_one_level, labels_lost]),
        )
        for form, printer in printers.items()
        for mutant in mutants
    ),
    pytest.param("latex", fraction_upside_down, id="latex: fraction_upside_down"),
    pytest.param("latex", at_most_is_less, id="latex: at_most_is_less"),
    pytest.param("html", no_brackets_around_tall_things, id="html: no_brackets_around_tall_things"),
]
PRINTED = ("Llama", "GPT-Neo", "Llama, yarn")


def examples_read_back(form):
    """Whether formulas in which parentheses decide, printed in two dimensions and read, are these formulas."""
    q, m = Sym("q"), Sym("m")
    examples = [nodes.Power(nodes.Frac(m, nodes.Num(2)), nodes.Num(3)), Infix("", q, Infix("+", q, q))]
    seen = ((test_text.value(node, test_text.VALUES), test_printers.seen(node, form)) for node in examples)
    return all(np.allclose(*both) for both in seen)


def says_what_the_text_says(form):
    """Whether a format has the rows of the text, and computes what the oracle computes."""
    try:
        rows = (
            test_printers.bare(describe(CONFIGS[name], format=form), form)
            == test_printers.bare(describe(CONFIGS[name]), "text")
            for name in PRINTED
        )
        return examples_read_back(form) and all(rows) and all(computes(name, form) for name in PRINTED)
    except (AssertionError, KeyError):  # what nobody can read is noticed too
        return False


@pytest.mark.parametrize("form", ["latex", "html"])
def test_without_mutant_formats_agree(form):
    """The checks that follow hold for the printers as they are."""
    assert says_what_the_text_says(form)


@pytest.mark.parametrize(("form", "mutant"), PRINTERS_MUTANTS)
def test_mutant_of_a_printer_is_noticed(form, mutant, monkeypatch):
    """A printer with this mistake fails a check."""
    mutant(monkeypatch)

    assert not says_what_the_text_says(form)

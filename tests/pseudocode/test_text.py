"""The text of a formula has exactly the parentheses that a reader needs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pseudocode.formula_reader import FUNCTIONS, OPERATIONS, compiled, product
from transformulary.pseudocode.formulas import number
from transformulary.pseudocode.nodes import Apply, Big, Entry, Fence, Frac, Infix, Num, Power, Prefix, Root, Sym, Words
from transformulary.pseudocode.text import text

RNG = np.random.default_rng(0)
VALUES = {"q": RNG.normal(size=(2, 2, 2)) @ [1, 1j], "k": RNG.normal(size=(2, 2, 2)) @ [1, 1j], "m": 1.7 + 0.3j}


class Names(dict):
    """The reader's names: q and k are matrices, m is a number, i counts."""

    def __or__(self, other):
        return Names({**self, **other})

    def symbol(self, base, low, high):
        return self[base]

    def call(self, name, arguments):
        return FUNCTIONS[name](*arguments)


leaves = st.sampled_from([Sym("q"), Sym("k"), Sym("m"), Num(2), Num(3), Num(-2), Power(Sym("q"), Words("T"))])


def bigger(formulas):
    return st.one_of(
        st.builds(Infix, st.sampled_from(["+", "−", "⊙", ""]), formulas, formulas),
        st.builds(Frac, formulas, formulas),
        st.builds(Prefix, st.just("−"), formulas),
        st.builds(Root, formulas),
        st.builds(Power, formulas, st.sampled_from([Num(2), Num(3), Infix("+", Num(1), Num(2)), Frac(Num(3), Num(2))])),
        st.builds(lambda x: Apply(Words("exp"), (x,)), formulas),
        st.builds(lambda x: Big(Infix("=", Sym("i"), Num(1)), Num(3), Infix("", Sym("i"), x)), formulas),
    )


def value(node, names):
    """What a formula is, computed from the tree and not from its text."""
    match node:
        case Sym(name):
            return names[name]
        case Num(number):
            return number
        case Infix("", a, b):
            return product(value(a, names), value(b, names))
        case Infix(op, a, b):
            return OPERATIONS[op](value(a, names), value(b, names))
        case Frac(a, b):
            return value(a, names) / value(b, names)
        case Prefix("−", a):
            return -value(a, names)
        case Root(a):
            return np.sqrt(value(a, names))
        case Power(a, Words("T")):
            return value(a, names).T
        case Power(a, n):
            return value(a, names) ** (value(n, names) + 0.0)
        case Apply(_, (a,)):
            return np.exp(value(a, names))
        case Big(_, Num(last), body):
            return sum(value(body, names | {"i": i}) for i in range(1, last + 1))


def read_back(node):
    """(value of the tree, value of its text): the same if the text has the parentheses that it needs."""
    with np.errstate(all="ignore"):
        names = Names(VALUES)
        return np.asarray(value(node, names)), np.asarray(compiled(text(node))(names) + 0j)


@given(st.recursive(leaves, bigger, max_leaves=8))
@settings(max_examples=400)
def test_text_read_back_is_the_formula(node):
    """Any formula, printed and read with a reader's precedence, is that formula."""
    tree, read = read_back(node)

    np.testing.assert_allclose(read, tree, rtol=1e-9)


q, k, m = Sym("q"), Sym("k"), Sym("m")


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Infix("−", q, Infix("+", k, m)), "q − (k + m)"),
        (Infix("−", Infix("−", q, k), m), "q − k − m"),
        (Infix("", q, Infix("+", k, m)), "q (k + m)"),
        (Infix("", q, Infix("", k, m)), "q (k m)"),
        (Infix("", q, Infix("⊙", k, m)), "q (k ⊙ m)"),
        (Infix("⊙", Infix("", q, k), m), "q k ⊙ m"),
        (Infix("", Frac(q, k), m), "(q/k) m"),
        (Frac(Infix("", q, k), Infix("", k, m)), "q k / (k m)"),
        (Frac(q, Frac(k, m)), "q/(k/m)"),
        (Power(Infix("−", q, m), Num(2)), "(q − m)²"),
        (Power(Num(10), Num(-12)), "10⁻¹²"),
        (Power(m, Frac(Num(1), Sym("tau"))), "m^{1/τ}"),
        (Infix("+", q, Num(-2)), "q + (−2)"),
        (Infix("", Num(-2), m), "−2 m"),
        (Root(Infix("+", m, Num(1))), "√(m + 1)"),
        (Sym("gamma_1", low=(Sym("l"),)), "γ_l¹"),
        (Sym("W_mlp2", high=(Sym("l"),)), "W_mlp2^l"),
        (Sym("W_ed", low=(Sym("l"),)), "𝓦_l^{e/d}"),
        (Sym("W_qkv", high=(Sym("h"), Fence("ceiling", (Frac(Sym("h"), Num(4)),)))), "W_qkv^{h,⌈h/4⌉}"),
        (Sym("e", low=(Sym("ell_x"),)), "e_{ℓ_x}"),
        (Entry(Sym("X_tilde"), (None, Infix("−", Sym("t"), Num(1)))), "X̃[:,t−1]"),
    ],
)
def test_text(node, expected):
    """Worked examples of the notation."""
    assert expected == text(node)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.000123, "1.23 · 10⁻⁴"), (1e-5, "10⁻⁵"), (2e-7, "2 · 10⁻⁷"), (-1.5e-9, "−1.5 · 10⁻⁹"), (1.5e300, "1.5 · 10³⁰⁰")],
)
def test_small_and_large_numbers(value, expected):
    """One digit before the point, and a power of ten."""
    assert expected == text(number(value))

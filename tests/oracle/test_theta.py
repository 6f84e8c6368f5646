"""Parameters by name, declared zeros, and derivatives."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from pseudocode.published import CONFIGS
from strategies import d_configs, seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle import Theta, Zero, derivative, gradient, random_theta
from transformulary.oracle.theta import embeddings, matrices
from transformulary.paper import SLOTS, EDTransformerConfig, leaves, number_of_parameters, parameters
from transformulary.paper.parameters import POSITIONAL


@pytest.mark.parametrize("name", [*CONFIGS, "a variant"])
def test_every_number_is_counted(name, monkeypatch):
    """The count of a model is how many numbers its parameters are, a variant's too, which only declares its own."""
    monkeypatch.setitem(SLOTS, "positions", (*SLOTS["positions"], "alibi"))
    monkeypatch.setitem(POSITIONAL, "alibi", {"a[H]": "1"})
    config = CONFIGS[name] if name in CONFIGS else replace(CONFIGS["GPT-2"], positions="alibi")

    theta = random_theta(config, np.random.default_rng(0))

    assert sum(a.size for a in theta.leaves()) == number_of_parameters(config)


@given(d_configs(), seeds)
def test_theta_has_the_parameters_of_the_table(config, rng):
    """random_theta has exactly the arrays, and shapes, of the table of parameters."""
    theta = random_theta(config, rng)

    expected = sum(n * math.prod(shape) for _, n, shape in leaves(parameters(config), config))
    assert sum(a.size for a in theta.leaves()) == expected


def test_a_declared_absence_is_zero():
    """An absent parameter indexes, multiplies and adds as 0."""
    A = np.arange(4.0).reshape(2, 2)
    zero = Theta(absent={"b_q"}).b_q

    np.testing.assert_array_equal(A + zero[:, None], A)
    np.testing.assert_array_equal(zero + A, A)
    assert isinstance(A @ zero, Zero)
    assert isinstance(2 * zero[3], Zero)


def test_an_undeclared_absence_is_an_error():
    """A parameter that is neither there nor declared absent is named, with those that are there."""
    with pytest.raises(AlgorithmError, match="no parameter W_p; it has W_e"):
        _ = Theta(W_e=np.ones(1)).W_p


def test_arithmetic():
    """Thetas add, subtract and scale entry by entry, through layers and bundles."""
    a = Theta(W_e=np.array([1.0, 2.0]), W=[Theta(W_q=[np.array([3.0])])], absent={"b_u"})

    b = a - 0.5 * (a + a)

    assert [array.tolist() for array in b.leaves()] == [[0, 0], [0]]
    assert [name for name, _ in a.items()] == ["W_e", "W[1].W_q[1]"]


def test_gradient_of_a_polynomial():
    """The complex step is exact to rounding: d/dx (x^3 y) and d/dy."""
    theta = Theta(x=np.array([2.0]), y=np.array([5.0]))

    g = gradient(lambda t: (t.x**3 * t.y)[0], theta)

    assert math.isclose(g.x[0], 60, rel_tol=1e-15)
    assert math.isclose(g.y[0], 8, rel_tol=1e-15)
    assert math.isclose(derivative(lambda t: (t.x**3 * t.y)[0], theta, theta), 3 * 40 + 40, rel_tol=1e-15)


def test_public_names_exist():
    """Every name that the package announces can be imported."""
    for name in oracle.__all__:
        assert getattr(oracle, name) is not None


def test_tables_of_the_context_are_tables():
    """W_e_z and W_p_z are embeddings as W_e and W_p are; those of places do not decay."""
    c = EDTransformerConfig(N_V=5, ell_max=3, L_enc=1, L_dec=1, H=1, d_e=2, d_mlp=2, separate=["W_e", "W_p"])
    theta = random_theta(c, np.random.default_rng(0))

    assert {"W_e", "W_e_z", "W_p", "W_p_z"} == {name for name, a in embeddings(theta).items() if a.any()}
    assert {"W_p", "W_p_z"} == {name for name, a in matrices(theta).items() if a.ndim == 2 and not a.any()}

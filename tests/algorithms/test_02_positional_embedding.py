"""Algorithm 2: positional embedding, learned and by formula."""

import math

import numpy as np
import pytest

from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import DTransformerConfig

W_p = np.array([[1.0, 2.0], [3.0, 4.0]])


def config(d_e, ell_max=16):
    return DTransformerConfig(N_V=3, ell_max=ell_max, L=1, H=1, d_e=d_e, d_mlp=1)


def test_column_of_the_table():
    """e_p = W_p[:, ell]; position 0 is the paper's first."""
    e_p = oracle.positional_embedding(0, W_p)

    np.testing.assert_array_equal(e_p, [1.0, 3.0])


@pytest.mark.parametrize("ell", [-1, 2])
def test_no_such_position(ell):
    """A position beyond ell_max is an error."""
    with pytest.raises(AlgorithmError, match="table of ell_max = 2 positions"):
        oracle.positional_embedding(ell, W_p)


def test_sinusoid_as_printed():
    """The paper's own: W_p[2i-1, t] = sin(t / ell_max^(2i/d_e)), W_p[2i, t] = cos(...), i and t from 1."""
    c = config(d_e=4, ell_max=16)

    e_p = oracle.sinusoid(2, c)  # the paper's t = 3

    angle_1, angle_2 = 3 / 16 ** (2 / 4), 3 / 16 ** (4 / 4)
    expected = [math.sin(angle_1), math.cos(angle_1), math.sin(angle_2), math.cos(angle_2)]
    np.testing.assert_allclose(e_p, expected, rtol=0, atol=1e-15)


def test_sinusoid_vaswani_odd_width():
    """The original Transformer's at position 1 with d_e = 5: the last cosine is left out."""
    e_p = oracle.sinusoid_vaswani(1, config(d_e=5))

    np.testing.assert_allclose(e_p, [0.841471, 0.540302, 0.025116, 0.999685, 0.000631], rtol=0, atol=5e-7)


def test_sinusoid_paper_is_vaswani_shifted():
    """With ell_max = 10000 the paper's rows 1..d-2 are Vaswani's rows 3..d at the same number t (erratum E1)."""
    c = config(d_e=8, ell_max=10000)

    paper = oracle.sinusoid(4, c)  # t = 5, counted from 1
    vaswani = oracle.sinusoid_vaswani(5, c)  # t = 5, counted from 0

    np.testing.assert_allclose(paper[:6], vaswani[2:], rtol=0, atol=1e-14)


def test_sinusoid_halves_is_vaswani_reordered():
    """Marian's table has the original Transformer's rows, sines first."""
    c = config(d_e=6)

    halves, vaswani = oracle.sinusoid_halves(3, c), oracle.sinusoid_vaswani(3, c)

    np.testing.assert_array_equal(halves, np.concatenate([vaswani[0::2], vaswani[1::2]]))


def test_sinusoid_t2t_reaches_10000():
    """Tensor2Tensor's timescales are 10000^(k/(d/2-1)): from 1 to 10000 inclusive."""
    e_p = oracle.sinusoid_t2t(7, config(d_e=4))

    np.testing.assert_allclose(e_p, [math.sin(7), math.sin(7e-4), math.cos(7), math.cos(7e-4)], rtol=0, atol=1e-15)

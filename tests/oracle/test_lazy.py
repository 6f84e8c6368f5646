"""A lazy theta gives what the eager one gives, and holds one matrix at a time."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

from strategies import d_configs, seeds
from transformulary import oracle
from transformulary.oracle import lazy_theta, random_theta
from transformulary.paper import DTransformerConfig

x = [0, 1, 1, 0]


def arrays(theta):
    """The callback that gives the arrays of a theta by name."""
    table = dict(theta.items())
    return lambda name, shape: table[name]


@settings(max_examples=40)
@given(d_configs(), seeds)
def test_bitwise_the_same(config, rng):
    """With W_e, W_p and W_u in one block, P is bitwise that of the eager theta, for every choice of slots."""
    theta = random_theta(config, rng)

    P = oracle.DTransformer(x, lazy_theta(config, arrays(theta)), config)

    np.testing.assert_array_equal(P, oracle.DTransformer(x, theta, config))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("block", [1, 30, 1000])
def test_blocks(tied, block):
    """Products by blocks of rows of W_u, or of W_e transposed, agree to rounding."""
    config = DTransformerConfig(N_V=37, ell_max=6, L=1, H=2, d_e=8, d_mlp=5, tied=tied)
    theta = random_theta(config, np.random.default_rng(0))

    P = oracle.DTransformer(x, lazy_theta(config, arrays(theta), block), config)

    np.testing.assert_allclose(P, oracle.DTransformer(x, theta, config), rtol=1e-14, atol=0)


def test_watching_sees_the_same():
    """A watched run of a lazy theta has the same paths, with the same values."""
    config = DTransformerConfig(N_V=7, ell_max=6, L=2, H=2, d_e=4, d_mlp=5)
    theta = random_theta(config, np.random.default_rng(0))

    values = oracle.record("DTransformer", x, lazy_theta(config, arrays(theta)), config)

    expected = oracle.record("DTransformer", x, theta, config)
    assert list(values) == list(expected)
    for path, value in expected.items():
        np.testing.assert_array_equal(values[path], value, err_msg=path)


def test_what_is_asked_for():
    """Matrices are fetched in the order of the lines, once for each; W_e once for all tokens, and once as W_u."""
    config = DTransformerConfig(N_V=7, ell_max=6, L=2, H=2, d_e=4, d_mlp=5, tied=True, eps=1e-5)
    theta, asked = random_theta(config, np.random.default_rng(0)), []

    def array(name, shape):
        asked.append(name)
        return arrays(theta)(name, shape)

    oracle.DTransformer(x, lazy_theta(config, array), config)

    heads = [f"W[{{l}}].{name}[{h}]" for h in (1, 2) for name in ("W_q", "W_k", "W_v")]
    layer = [*heads, "W[{l}].W_o", "W_mlp1[{l}]", "W_mlp2[{l}]"]
    expected = ["W_e", "W_p", *(name.format(l=l) for l in (1, 2) for name in layer), "W_e"]
    assert [name for name in asked if "W_" in name] == expected
    vectors = [name for name in asked if "W_" not in name]
    assert sorted(vectors) == sorted(set(vectors))


def test_nothing_is_fetched_for_a_shape():
    """Length and shape of a parameter are known without its numbers."""

    def never(name, shape):
        raise AssertionError(name)

    config = DTransformerConfig(N_V=7, ell_max=6, L=1, H=2, d_e=4, d_mlp=5)
    theta = lazy_theta(config, never)

    assert (theta.W_e.shape, theta.W_e.T.shape, len(theta.W[0].W_q[1])) == ((4, 7), (7, 4), 2)


def test_memory():
    """Memory is neither that of all layers, nor that of W_e in float64: one layer, one block, and the logits."""
    config = DTransformerConfig(
        N_V=20_000, ell_max=4, L=40, H=1, d_e=64, d_mlp=256, norm="rms_norm", eps=1e-5, tied=True, positions="none"
    )
    table = np.zeros((64, 20_000), np.float32)

    def array(name, shape):
        return table if name == "W_e" else np.zeros([getattr(config, s.split("*")[-1]) for s in shape.split()])

    tracemalloc.start()
    oracle.DTransformer([1, 2], lazy_theta(config, array, 64 * 2000), config)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    all_layers, W_e = 8 * 40 * (4 * 64 * 64 + 2 * 64 * 256), 8 * 64 * 20_000
    assert peak < all_layers / 3
    assert peak < W_e / 2

"""Algorithm 10: the decoder."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import causal_masks, d_configs, seeds, sequences
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import Causal, DTransformerConfig, Full, Local

SIZES = {"N_V": 7, "ell_max": 6, "L": 2, "H": 2, "d_e": 4, "d_mlp": 5}
c = DTransformerConfig(**SIZES)


@given(d_configs(), seeds, st.data())
def test_columns_are_distributions(config, rng, data):
    """Every column of P is a distribution over the vocabulary, for every choice of every slot."""
    x = data.draw(sequences(config.N_V))

    P = oracle.DTransformer(x, oracle.random_theta(config, rng), config)

    assert P.shape == (config.N_V, len(x))
    np.testing.assert_allclose(P.sum(0), np.ones(len(x)), rtol=0, atol=1e-13)


@given(d_configs(mask=causal_masks), seeds, st.data())
def test_causal_bitwise(config, rng, data):
    """Under causal masks a later token changes no bit of an earlier column."""
    x = data.draw(sequences(config.N_V, least=2))
    theta, other = oracle.random_theta(config, rng), [*x[:-1], (x[-1] + 1) % config.N_V]

    before = oracle.DTransformer(x, theta, config)
    after = oracle.DTransformer(other, theta, config)

    np.testing.assert_array_equal(after[:, :-1], before[:, :-1])


def test_residual_stream_is_not_overwritten():
    """Lines 5 and 7 write X~, not X: with all other parameters 0, line 8 leaves the embedding as it was."""
    theta = oracle.random_theta(c, np.random.default_rng(0))
    for array in [
        *[a for W in theta.W for a in W.leaves()],
        *theta.W_mlp1,
        *theta.W_mlp2,
        *theta.b_mlp1,
        *theta.b_mlp2,
    ]:
        array[...] = 0

    values = oracle.record("DTransformer", [1, 2, 3], theta, c)

    np.testing.assert_array_equal(values["10.8[l=2]"], values["10.3"])


def test_every_parameter_matters():
    """Each parameter of the table moves P, except b_k, which softmax removes."""
    config = DTransformerConfig(**SIZES, absent=frozenset(), embedding_norm=True, mlp="gated")
    theta = oracle.random_theta(config, np.random.default_rng(0))
    P = oracle.DTransformer([1, 2, 3, 4, 5, 6], theta, config)

    silent = []
    for name, array in theta.items():
        kept, at = array.copy(), (2,) * array.ndim if min(array.shape) > 2 else (1,) * array.ndim
        array[at] += 0.3
        if np.abs(oracle.DTransformer([1, 2, 3, 4, 5, 6], theta, config) - P).max() < 1e-9:
            silent.append(name)
        array[...] = kept

    assert silent == [f"W[{l}].b_k[{h}]" for l in (1, 2) for h in (1, 2)]


def test_masks_alternate_by_layer():
    """A cycle of masks goes through the layers: with the narrow band everywhere the first token is out of sight."""
    narrow = [DTransformerConfig(**SIZES, mask=m) for m in ((Local(1), Causal()), (Causal(), Local(1)), Local(1))]
    theta = oracle.random_theta(c, np.random.default_rng(0))

    moved = [
        np.abs(oracle.DTransformer([0, 2, 3], theta, n) - oracle.DTransformer([1, 2, 3], theta, n))[:, 2].max()
        for n in narrow
    ]

    assert moved[0] > 1e-5
    assert moved[1] > 1e-5
    assert moved[2] == 0


def test_bag_of_words_without_positions():
    """Without positions and without a causal mask, order does not matter."""
    config = DTransformerConfig(**SIZES, positions="none", mask=Full())
    theta = oracle.random_theta(config, np.random.default_rng(0))

    P, Q = oracle.DTransformer([1, 2, 3], theta, config), oracle.DTransformer([3, 1, 2], theta, config)

    np.testing.assert_allclose(P, Q[:, [1, 2, 0]], rtol=0, atol=1e-14)


@pytest.mark.parametrize("x", [[], [1] * 7, [7], [-1], [1.5], [None]])
def test_domain(x):
    """Empty, too long and out-of-vocabulary sequences are errors before anything is computed."""
    with pytest.raises(AlgorithmError, match=r"(is empty|ell_max = 6|vocabulary of N_V = 7)"):
        oracle.DTransformer(x, oracle.random_theta(c, np.random.default_rng(0)), c)


def test_longest_sequence():
    """A sequence of exactly ell_max tokens works."""
    P = oracle.DTransformer([1] * 6, oracle.random_theta(c, np.random.default_rng(0)), c)

    assert P.shape == (7, 6)


def test_a_forgotten_parameter_is_an_error():
    """Only a declared absence is 0; a parameter that is simply missing is named."""
    theta = oracle.random_theta(c, np.random.default_rng(0))
    del theta.b_mlp2

    with pytest.raises(AlgorithmError, match=r"Algorithm 10, line 8, layer 1 .* theta has no parameter b_mlp2"):
        oracle.DTransformer([1, 2], theta, c)

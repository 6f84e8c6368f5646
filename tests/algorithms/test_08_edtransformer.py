"""Algorithm 8: the encoder-decoder."""

import numpy as np
import pytest
from hypothesis import given

from strategies import seeds, sequences
from transformulary import oracle
from transformulary.errors import AlgorithmError, ConfigError
from transformulary.paper import EDTransformerConfig

SIZES = {"N_V": 7, "ell_max": 6, "L_enc": 2, "L_dec": 2, "H": 2, "d_e": 4, "d_mlp": 5}
c = EDTransformerConfig(**SIZES)


def theta(rng=None, config=c):
    return oracle.random_theta(config, rng or np.random.default_rng(0))


@given(seeds, sequences(7), sequences(7))
def test_columns_are_distributions(rng, z, x):
    """Every column of P is a distribution over the vocabulary."""
    P = oracle.EDTransformer(z, x, theta(rng), c)

    assert P.shape == (7, len(x))
    np.testing.assert_allclose(P.sum(0), 1, rtol=0, atol=1e-14)
    assert P.min() > 0


@given(seeds, sequences(7, least=2))
def test_decoder_is_causal_bitwise(rng, x):
    """The last token of x changes no earlier column."""
    parameters, other = theta(rng), [*x[:-1], (x[-1] + 1) % 7]

    before = oracle.EDTransformer([1, 2], x, parameters, c)
    after = oracle.EDTransformer([1, 2], other, parameters, c)

    np.testing.assert_array_equal(after[:, :-1], before[:, :-1])


def test_encoder_sees_everything():
    """Every token of z, the last included, changes the first column."""
    P = [oracle.EDTransformer(z, [1], theta(), c) for z in ([1, 2, 3], [1, 2, 4], [0, 2, 3])]

    assert np.abs(P[0] - P[1]).max() > 1e-6
    assert np.abs(P[0] - P[2]).max() > 1e-6


def test_cross_attention_has_its_own_weights():
    """Line 16 uses W^e/d, not W^dec: changing one entry of it changes P, and of every other bundle too."""
    P = oracle.EDTransformer([1, 2], [3, 4], theta(), c)

    for bundle in ("W_enc", "W_dec", "W_ed"):
        changed = theta()
        getattr(changed, bundle)[1].W_v[0][0, 0] += 0.5
        assert np.abs(oracle.EDTransformer([1, 2], [3, 4], changed, c) - P).max() > 1e-5, bundle


def test_post_norm_output_is_normalised():
    """Lines 8 and 19 end each layer with a norm: with gamma = 1, beta = 0, columns have mean 0, variance 1."""
    parameters = theta()
    for k in (2, 5):
        for l in range(2):
            getattr(parameters, f"gamma_{k}")[l][:], getattr(parameters, f"beta_{k}")[l][:] = 1, 0

    values = oracle.record("EDTransformer", [1, 2, 3], [4, 5], parameters, c)

    for path in ("8.8[l=2]", "8.19[l=2]"):
        np.testing.assert_allclose(values[path].mean(0), 0, rtol=0, atol=1e-14)
        np.testing.assert_allclose(values[path].var(0), 1, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("z", "x", "name"), [([], [1], "z"), ([1], [], "x"), ([1] * 7, [1], "z"), ([1], [1] * 7, "x")])
def test_lengths(z, x, name):
    """An empty sequence, or one longer than ell_max, is an error that names which."""
    with pytest.raises(AlgorithmError, match=rf"(sequence {name} is empty|length\({name}\) = 7 .* ell_max = 6)"):
        oracle.EDTransformer(z, x, theta(), c)


@pytest.mark.parametrize("positions", ["sinusoid", "sinusoid_vaswani", "sinusoid_halves", "none", "bucketed"])
def test_no_table_no_limit(positions):
    """Positions by formula have no longest sequence."""
    free = EDTransformerConfig(**SIZES, positions=positions)

    P = oracle.EDTransformer([1] * 9, [2, 3] * 5, theta(config=free), free)

    assert P.shape == (7, 10)


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_positions_within_one_sequence(positions):
    """Line 16 attends across two sequences, where rotary and relative positions mean nothing."""
    with pytest.raises(ConfigError, match="from one sequence to another"):
        EDTransformerConfig(**SIZES, positions=positions)

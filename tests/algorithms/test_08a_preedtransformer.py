"""Algorithm 8a: the encoder-decoder with norms before each half of a layer."""

import numpy as np
import pytest
from hypothesis import given

from strategies import seeds, sequences
from transformulary import oracle
from transformulary.errors import AlgorithmError, ConfigError
from transformulary.paper import EDTransformerConfig, PreEDTransformerConfig, number_of_parameters

SIZES = {"N_V": 7, "ell_max": 6, "L_enc": 2, "L_dec": 2, "H": 2, "d_e": 4, "d_mlp": 5}
c = PreEDTransformerConfig(**SIZES)


def theta(config=c, rng=None):
    return oracle.random_theta(config, rng or np.random.default_rng(0))


@given(seeds, sequences(7), sequences(7, least=2))
def test_columns_are_distributions_and_causal(rng, z, x):
    """Every column of P is a distribution; the last token of x changes no earlier one, bitwise."""
    parameters, other = theta(rng=rng), [*x[:-1], (x[-1] + 1) % 7]

    P = oracle.PreEDTransformer(z, x, parameters, c)

    np.testing.assert_allclose(P.sum(0), 1, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(oracle.PreEDTransformer(z, other, parameters, c)[:, :-1], P[:, :-1])


def test_the_residual_stream_is_not_normed():
    """Lines 5-8 add to Z: with W_o, W_mlp2 and what is added to them 0, Z before line 10 is the embedding."""
    parameters = theta()
    for l in range(2):
        for array in (parameters.W_enc[l].W_o, parameters.W_enc[l].b_o, parameters.W_mlp2[l], parameters.b_mlp2[l]):
            array[:] = 0

    values = oracle.record("PreEDTransformer", [1, 2, 3], [4, 5], parameters, c)

    np.testing.assert_array_equal(values["8a.8[l=2]"], values["8a.3"])


def test_both_stacks_end_with_a_norm():
    """With gamma = 1 and beta = 0, the columns of lines 10 and 22 have mean 0 and variance 1."""
    parameters = theta()
    for name in ("enc", "dec"):
        getattr(parameters, f"gamma_{name}")[:], getattr(parameters, f"beta_{name}")[:] = 1, 0

    values = oracle.record("PreEDTransformer", [1, 2, 3], [4, 5], parameters, c)

    for path in ("8a.10", "8a.22"):
        np.testing.assert_allclose(values[path].mean(0), 0, rtol=0, atol=1e-14)
        np.testing.assert_allclose(values[path].var(0), 1, rtol=0, atol=1e-12)


def test_layers_share_one_b():
    """Bucketed positions have one B for each stack; every layer's attention changes with it."""
    bucketed = PreEDTransformerConfig(**SIZES, positions="bucketed")
    parameters, moved = theta(bucketed), theta(bucketed)
    moved.B_enc[0][0] += 1  # each token's look at itself

    runs = [oracle.record("PreEDTransformer", [1, 2, 3], [4, 5], p, bucketed) for p in (parameters, moved)]

    for path in ("8a.6[l=1]/5.2[h=1]/4.4", "8a.6[l=2]/5.2[h=1]/4.4"):
        assert np.abs(np.diag(runs[1][path] - runs[0][path])).min() > 0.1
    assert (
        number_of_parameters(bucketed) - number_of_parameters(PreEDTransformerConfig(**SIZES, positions="none")) == 128
    )


def test_the_last_x_may_be_scaled():
    """T5's logits are those of X / sqrt(d_e): as if gamma_dec and beta_dec were half as large, for d_e = 4."""
    scaled, half = theta(), theta()
    half.gamma_dec, half.beta_dec = half.gamma_dec / 2, half.beta_dec / 2

    P = oracle.PreEDTransformer([1, 2], [3], scaled, PreEDTransformerConfig(**SIZES, unembedding_scale="sqrt"))

    np.testing.assert_allclose(P, oracle.PreEDTransformer([1, 2], [3], half, c), rtol=0, atol=1e-15)


def test_is_another_architecture():
    """Neither algorithm runs with the other's config, and there is no other scale."""
    post = EDTransformerConfig(**SIZES)

    with pytest.raises(AlgorithmError, match="c must be a PreEDTransformerConfig"):
        oracle.PreEDTransformer([1], [2], theta(post), post)
    with pytest.raises(AlgorithmError, match="c must be a EDTransformerConfig"):
        oracle.EDTransformer([1], [2], theta(), c)
    with pytest.raises(ConfigError, match="unembedding_scale = 'half' is none of none, sqrt"):
        PreEDTransformerConfig(**SIZES, unembedding_scale="half")

"""What an algorithm refuses: each a line with the numbers, before anything is computed."""

import numpy as np
import pytest

from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import DTransformerConfig, EDTransformerConfig, ETransformerConfig

SIZES = {"N_V": 5, "ell_max": 4, "H": 2, "d_e": 4, "d_mlp": 3, "eps": 1e-5}
D = DTransformerConfig(**SIZES, L=2)
E = ETransformerConfig(**SIZES, L=1)
ED = EDTransformerConfig(**SIZES, L_enc=1, L_dec=1)


def theta(config, **changes):
    return (
        oracle.random_theta(config, np.random.default_rng(0))
        if not changes
        else theta(type(config)(**config.to_dict() | changes))
    )


RUNS = {
    D: lambda theta, c=D, x=(1, 2): oracle.DTransformer(x, theta, c),
    E: lambda theta, c=E, x=(1, 2): oracle.ETransformer(x, theta, c),
    ED: lambda theta, c=ED, x=(1, 2): oracle.EDTransformer(x, x, theta, c),
}


@pytest.mark.parametrize(
    ("config", "changes", "message"),
    [
        (D, {"L": 1}, "theta has 1 W, and the config L = 2"),
        (D, {"L": 3}, "theta has 3 W, and the config L = 2"),
        (D, {"H": 1, "H_kv": 1}, r"theta has 1 W\[1\]\.W_q, and the config H = 2"),
        (D, {"d_mlp": 7}, r"theta's W_mlp1\[1\] has shape \(7, 4\), and the config calls for \(3, 4\)"),
        (D, {"ell_max": 9}, r"theta's W_p has shape \(4, 9\)"),
        (D, {"absent": ()}, "theta has b_u, and a model with this config has no such parameter"),
        (D, {"absent": ("b_u", "b_mlp2")}, "theta declares b_mlp2 absent, and the config does not"),
        (E, {"L": 2}, "theta has 2 W, and the config L = 1"),
        (ED, {"L_dec": 2}, "theta has 2 W_dec, and the config L_dec = 1"),
    ],
)
def test_a_theta_of_another_config(config, changes, message):
    """Names, numbers and shapes are those of the table of parameters, or the first that is not is named."""
    with pytest.raises(AlgorithmError, match=f"^{message}"):
        RUNS[config](theta(config, **changes))


def test_shapes_of_what_is_no_array_are_believed():
    """An array that is fetched when it is used is not fetched by the check: only its shape is read."""

    class Later:
        shape = (4, 5)

        def __array__(self, dtype=None, copy=None):
            raise AssertionError("fetched")

    lazy = theta(D)
    lazy.W_e = Later()

    with pytest.raises(TypeError, match="subscriptable"):  # by line 2, not before
        RUNS[D](lazy)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_parameter_that_is_not_finite(bad):
    """A damaged parameter is named, and is not a P of NaN."""
    damaged = theta(D)
    damaged.W[1].W_q[0][0, 0] = bad

    with pytest.raises(AlgorithmError, match=r"theta's W\[2\]\.W_q\[1\] has a number that is not finite"):
        RUNS[D](damaged)


@pytest.mark.parametrize("config", [D, E, ED], ids=lambda c: type(c).__name__)
def test_wrong_types(config):
    """No sequence, another architecture's config, no theta: each says what is needed and what was given."""
    right, other = theta(config), E if config is D else D

    for x, given in ((None, r"nothing \(None\)"), (3, "a value of type int"), ({1}, "a value of type set")):
        with pytest.raises(AlgorithmError, match=f"is a sequence of token ids, a list say, and {given} was given"):
            RUNS[config](right, x=x)
    with pytest.raises(
        AlgorithmError, match=f"c must be a {type(config).__name__}, and a value of type {type(other).__name__}"
    ):
        RUNS[config](right, other)
    with pytest.raises(AlgorithmError, match=r"theta must be a Theta, and nothing \(None\)"):
        RUNS[config](None)


def test_an_array_is_no_mask():
    """The message says which masks there are."""
    with pytest.raises(
        AlgorithmError, match=r"Mask is a value of type ndarray.*Full, Causal, Local.* of transformulary.paper"
    ):
        oracle.Attention(np.ones((2, 3)), np.ones((2, 3)), None, np.ones((3, 3), dtype=bool))


@pytest.mark.parametrize("norm", [oracle.layer_norm, oracle.RMSnorm])
@pytest.mark.parametrize(
    ("e", "given"),
    [
        ([1.0, 2.0], "a value of type list"),
        (np.ones((2, 2)), r"an array of shape \(2, 2\)"),
        (np.ones(0), r"shape \(0,\)"),
    ],
)
def test_a_norm_takes_one_vector(norm, e, given):
    """A list, a matrix and an empty array are no vector of one token."""
    with pytest.raises(AlgorithmError, match=f"e must be an array of d_e numbers.*{given}"):
        norm(e, np.ones(2), np.zeros(2))


@pytest.mark.parametrize("ell_gen", [0, -1])
def test_algorithm_15_draws_at_least_one_token(ell_gen):
    """Its loop draws before it counts, so fewer is no limit that it could keep."""
    with pytest.raises(AlgorithmError, match=f"ell_gen = {ell_gen} must be at least 1"):
        oracle.EDInference([1], theta(ED), ED, bos_token=3, eos_token=4, ell_gen=ell_gen, rng=np.random.default_rng(0))


@pytest.mark.parametrize("mask_token", [5, -1, None])
def test_the_mask_token_is_a_token(mask_token):
    """Before training begins, not when chance first masks something."""
    with pytest.raises(AlgorithmError, match=r"mask_token = .* is outside the vocabulary of N_V = 5 tokens"):
        oracle.ETraining([[1]], theta(E), E, eta=0.1, p_mask=0.0, mask_token=mask_token, rng=np.random.default_rng(0))


def test_a_prompt_that_is_too_long_for_no_tokens_either():
    """With ell_gen = 0 nothing would be computed, and the prompt is refused all the same."""
    with pytest.raises(AlgorithmError, match=r"length\(x\) = 5 is more than ell_max = 4"):
        oracle.DInference([0] * 5, theta(D), D, ell_gen=0, rng=np.random.default_rng(0))


@pytest.mark.parametrize("data", [None, [None], [[1], 2]])
def test_data_are_sequences(data):
    """Training takes a list of sequences."""
    with pytest.raises(AlgorithmError, match=r"is a (list of sequences|sequence of token ids), a list say"):
        oracle.DTraining(data, theta(D), D, eta=0.1)


@pytest.mark.parametrize("run", [oracle.DTransformer, lambda *args: oracle.record("DTransformer", *args)])
def test_a_missing_argument_is_the_algorithms(run):
    """The TypeError names Algorithm 10's function, not what checks its domain."""
    with pytest.raises(TypeError, match=r"^DTransformer: missing a required argument: 'c'$"):
        run([1], theta(D))

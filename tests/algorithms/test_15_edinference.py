"""Algorithm 15: inference of an encoder-decoder."""

import numpy as np
import pytest

from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import EDTransformerConfig

c = EDTransformerConfig(N_V=6, ell_max=5, L_enc=1, L_dec=1, H=1, d_e=4, d_mlp=3, eps=1e-5)


def theta(favourite=None):
    """Random parameters; with a favourite, that token has almost all the probability everywhere."""
    parameters = oracle.random_theta(c, np.random.default_rng(0), scale=0.5)
    if favourite is not None:
        for stack in (parameters.gamma_5, parameters.beta_5):
            stack[0][:] = 0
        parameters.beta_5[0][:] = 1
        parameters.W_u[:] = 0
        parameters.W_u[favourite] = 20
    return parameters


def infer(parameters, bos=4, eos=5, **given):
    return oracle.EDInference(
        [1, 2], parameters, c, bos_token=bos, eos_token=eos, rng=np.random.default_rng(0), **given
    )


def test_begins_with_bos_and_ends_with_eos():
    """x^ holds bos and eos, and eos ends it."""
    assert infer(theta(favourite=5)) == [4, 5]


def test_eos_of_id_zero():
    """The sentinel of line 2 is no token: a model whose eos is id 0 enters the loop (E13)."""
    assert infer(theta(favourite=0), eos=0) == [4, 0]


def test_cut_at_ell_gen():
    """Without eos the result is cut after ell_gen tokens, and then does not end with eos (E14)."""
    assert infer(theta(favourite=2), ell_gen=3) == [4, 2, 2, 2]


def test_outgrowing_ell_max():
    """Without ell_gen, a sequence that outgrows the table of positions is an error with its path (E14)."""
    with pytest.raises(AlgorithmError, match=r"Algorithm 15, line 4|length\(x\) = 6 is more than ell_max = 5"):
        infer(theta(favourite=2))


def test_greedy_follows_the_model():
    """At tau = 0 every token is the most probable one given those before."""
    parameters = theta()

    x_hat = infer(parameters, tau=0, ell_gen=4)

    for t in range(1, len(x_hat)):
        P = oracle.EDTransformer([1, 2], x_hat[:t], parameters, c)
        assert x_hat[t] == int(np.argmax(P[:, -1]))


def test_domain():
    """bos and eos are tokens of the vocabulary."""
    with pytest.raises(AlgorithmError, match="eos_token = 6"):
        infer(theta(), eos=6)

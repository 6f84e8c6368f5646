"""Algorithm 11: training an encoder-decoder."""

import numpy as np
import pytest

from autograd import assert_close, ed_log_probabilities, numpy_grad, sgd_step, torch_theta
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import EDTransformerConfig

c = EDTransformerConfig(N_V=5, ell_max=4, L_enc=1, L_dec=1, H=2, d_e=4, d_mlp=3, eps=1e-5)
z, x = [[3, 0, 1], [3, 2]], [[3, 1, 2, 4], [3, 0, 4]]


def torch_loss(theta, n):
    P = ed_log_probabilities(z[n], x[n], theta, c)
    return -sum(P[x[n][t + 1], t] for t in range(len(x[n]) - 1))


def test_gradient():
    """The complex step gives autograd's gradient of line 5, every entry, to rounding."""
    theta = oracle.random_theta(c, np.random.default_rng(0), scale=0.4)

    g = oracle.record("EDTraining", z[:1], x[:1], theta, c, eta=0.1)["11.6[i=1,n=1]:gradient"]

    theirs = torch_theta(theta)
    torch_loss(theirs, 0).backward()
    assert_close(g, numpy_grad(theirs), atol=1e-12)


def test_sgd_steps():
    """Two epochs over two pairs are four steps of torch.optim.SGD on summed losses, one pair a step, in order."""
    theta = oracle.random_theta(c, np.random.default_rng(0), scale=0.4)

    theta_hat = oracle.EDTraining(z, x, theta, c, N_epochs=2, eta=0.05)

    theirs = torch_theta(theta)
    for n in (0, 1, 0, 1):
        torch_loss(theirs, n).backward()
        sgd_step(theirs, 0.05)
    assert_close(theta_hat, theirs, atol=1e-12)


def test_pairs():
    """z and x of different number are an error."""
    theta = oracle.random_theta(c, np.random.default_rng(0))

    with pytest.raises(AlgorithmError, match="there are 2 and 1 of them"):
        oracle.EDTraining(z, x[:1], theta, c, eta=0.1)

"""Algorithm 13: next-token prediction."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings

from autograd import assert_close, d_log_probabilities, numpy_grad, sgd_step, torch_theta
from strategies import d_configs, seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.oracle import Theta, derivative, gradient
from transformulary.paper import DTransformerConfig

c = DTransformerConfig(N_V=6, ell_max=5, L=2, H=2, d_e=4, d_mlp=3, eps=1e-5)
x = [[4, 0, 1, 2, 5], [4, 2, 5]]


def torch_loss(theta, n):
    P = d_log_probabilities(x[n], theta, c)
    return -sum(P[x[n][t + 1], t] for t in range(len(x[n]) - 1))


def loss(sequence, config):
    def of(theta):
        P = oracle.DTransformer(sequence, theta, config)
        return -sum(np.log(P[sequence[t + 1], t]) for t in range(len(sequence) - 1))

    return of


def test_gradient():
    """The complex step gives autograd's gradient of line 5, every entry, to rounding."""
    theta = oracle.random_theta(c, np.random.default_rng(0), scale=0.4)

    g = gradient(loss(x[0], c), theta)

    theirs = torch_theta(theta)
    torch_loss(theirs, 0).backward()
    assert_close(g, numpy_grad(theirs), atol=1e-12)


def test_key_bias_has_no_gradient():
    """b_k never changes the output: its gradient is 0 to rounding, and no other parameter's is."""
    theta = oracle.random_theta(c, np.random.default_rng(0), scale=0.4)

    g = gradient(loss(x[0], c), theta)

    zero = {name for name, array in g.items() if np.abs(array).max() < 1e-15}
    assert zero == {f"W[{l}].b_k[{h}]" for l in (1, 2) for h in (1, 2)}


def corners(theta, config):
    """On which side of its corner every ReLU of the model is: where that does not change, the loss has no corner."""
    values = oracle.record("DTransformer", [0, 1, 1, 0], theta, config)
    return [(value > 0).tolist() for path, value in values.items() if path.endswith(":ReLU")]


def test_relu_has_corners_to_look_at():
    """The sides that the next test compares are those of both layers' MLP."""
    relu = DTransformerConfig(**{**c.to_dict(), "activation": "relu"})
    sides = corners(oracle.random_theta(relu, np.random.default_rng(0)), relu)

    assert [(3, 4)] * 2 == [np.shape(side) for side in sides]
    assert {True, False} == set(np.ravel(sides))


@settings(max_examples=30)
@given(d_configs(), seeds)
def test_gradient_of_every_variant(config, rng):
    """For any choice of slots, the complex step along a random direction is the slope of the loss."""
    theta, direction = oracle.random_theta(config, rng), oracle.random_theta(config, rng)
    f, h = loss([0, 1, 1, 0], config), 1e-5
    assume(
        config.activation != "relu" or corners(theta - h * direction, config) == corners(theta + h * direction, config)
    )

    slope = derivative(f, theta, direction)

    central = (f(theta + h * direction) - f(theta - h * direction)) / (2 * h)
    assert math.isclose(slope, central, rel_tol=1e-5, abs_tol=1e-6)


def test_sgd_steps():
    """Two epochs over two sequences are four steps of torch.optim.SGD: sums, one sequence a step, in order (E17)."""
    theta = oracle.random_theta(c, np.random.default_rng(0), scale=0.4)

    theta_hat = oracle.DTraining(x, theta, c, N_epochs=2, eta=0.05)

    theirs = torch_theta(theta)
    for n in (0, 1, 0, 1):
        torch_loss(theirs, n).backward()
        sgd_step(theirs, 0.05)
    assert_close(theta_hat, theirs, atol=1e-12)


def test_last_column_is_unused():
    """Column ell of P predicts a token that is not there: one token alone has loss 0 and changes nothing (E19)."""
    theta = oracle.random_theta(c, np.random.default_rng(0))

    theta_hat = oracle.DTraining([[4]], theta, c, eta=0.1)

    assert_close(theta_hat, theta, atol=0)


def test_targets_by_hand():
    """P column t is judged by x[t + 1]: with logits 10 onehot(x[t + 1]) the loss is 4 log(1 + 5 e^-10)."""
    sequence = [2, 0, 3, 0, 4]
    P = oracle.softmax(10 * np.eye(6)[:, [*sequence[1:], 0]])
    values = {}

    def hook(path, value):
        values[path] = value
        return P if path == "13.4[i=1,n=1]" else value

    theta = oracle.random_theta(c, np.random.default_rng(0))
    oracle.watched(hook).DTraining([sequence], theta, c, eta=0.1)

    assert math.isclose(values["13.5[i=1,n=1]"], 4 * math.log(1 + 5 * math.exp(-10)), rel_tol=1e-12)


def test_tied_gradient_is_the_sum():
    """With W_u = W_e^T the gradient of W_e collects both uses."""
    tied = DTransformerConfig(**{**c.to_dict(), "tied": True})
    theta = oracle.random_theta(tied, np.random.default_rng(0), scale=0.4)
    untied = Theta(**vars(theta) | {"W_u": theta.W_e.T.copy()})

    g = gradient(loss(x[0], tied), theta)

    both = gradient(loss(x[0], c), untied)
    np.testing.assert_allclose(g.W_e, both.W_e + both.W_u.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("eta", [0.0, -1.0, float("nan"), float("inf")])
def test_learning_rate(eta):
    """The learning rate is a positive number."""
    with pytest.raises(AlgorithmError, match="eta"):
        oracle.DTraining(x, oracle.random_theta(c, np.random.default_rng(0)), c, eta=eta)

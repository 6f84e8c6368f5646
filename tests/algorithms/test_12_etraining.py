"""Algorithm 12: masked language modelling."""

import numpy as np
import pytest

from autograd import assert_close, e_log_probabilities, sgd_step, torch_theta
from transformulary import oracle
from transformulary.errors import AlgorithmError
from transformulary.paper import ETransformerConfig

c = ETransformerConfig(N_V=6, ell_max=5, L=1, H=2, d_e=4, d_mlp=3, d_f=3, eps=1e-5)
MASK, BOS, EOS = 3, 4, 5  # the paper's order: N_V - 2, N_V - 1, N_V from 1
x = [[BOS, 0, 1, 2, EOS], [BOS, 2, 2, EOS]]


def train(theta, p_mask, seed=0, data=x, **given):
    rng = np.random.default_rng(seed)
    return oracle.ETraining(data, theta, c, eta=0.05, p_mask=p_mask, mask_token=MASK, rng=rng, **given)


def test_sgd_steps():
    """Each step masks by one uniform number per token and follows torch's gradient of the masked tokens' loss."""
    theta = oracle.random_theta(c, np.random.default_rng(0), scale=0.4)

    theta_hat = train(theta, p_mask=0.5, N_epochs=2)

    rng, theirs = np.random.default_rng(0), torch_theta(theta)
    current = [list(s) for s in x]
    for n in (0, 1, 0, 1):
        current[n] = [MASK if rng.random() < 0.5 else v for v in x[n]]
        P = e_log_probabilities(current[n], theirs, c)
        chosen = [t for t, v in enumerate(current[n]) if v == MASK]
        if chosen:
            (-sum(P[x[n][t], t] for t in chosen)).backward()
        sgd_step(theirs, 0.05)
    assert_close(theta_hat, theirs, atol=1e-12)


def test_all_tokens_alike():
    """With p_mask = 1 every position is masked, bos and eos included, as printed (E16)."""
    theta = oracle.random_theta(c, np.random.default_rng(0))

    values = oracle.record(
        "ETraining", x[:1], theta, c, eta=0.1, p_mask=1.0, mask_token=MASK, rng=np.random.default_rng(0)
    )

    assert values["12.7[i=1,n=1]"] == {0, 1, 2, 3, 4}


def test_nothing_masked():
    """With p_mask = 0 the loss is an empty sum and theta stays bitwise what it was (E16)."""
    theta = oracle.random_theta(c, np.random.default_rng(0))

    assert_close(train(theta, p_mask=0.0), theta, atol=0)


def test_a_real_mask_token_counts():
    """A text that already holds mask_token has that position in T~ whatever is drawn (E16)."""
    theta = oracle.random_theta(c, np.random.default_rng(0))

    values = oracle.record(
        "ETraining", [[BOS, MASK, EOS]], theta, c, eta=0.1, p_mask=0.0, mask_token=MASK, rng=np.random.default_rng(0)
    )

    assert values["12.7[i=1,n=1]"] == {1}


def test_data_is_not_changed():
    """The sequences and the initial theta are left as they were."""
    theta, data = oracle.random_theta(c, np.random.default_rng(0)), [list(s) for s in x]
    before = theta.map(np.copy)

    train(theta, p_mask=0.5, data=data)

    assert data == x
    assert_close(theta, before, atol=0)


@pytest.mark.parametrize("p_mask", [-0.1, 1.1, float("nan")])
def test_probability(p_mask):
    """p_mask is a probability."""
    with pytest.raises(AlgorithmError, match="p_mask"):
        train(oracle.random_theta(c, np.random.default_rng(0)), p_mask)

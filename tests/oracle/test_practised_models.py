"""Practice that is in the model and its use: dropout, BERT's masks, filters of the next token, stopping."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autograd import assert_close
from oracle.test_practice import Given, c, theta, x
from strategies import seeds
from transformulary import generate, oracle, train
from transformulary.conform.theta import theta_of
from transformulary.nn import DTransformer, attention
from transformulary.oracle import notation
from transformulary.paper import ETransformerConfig, Inference, Training
from transformulary.paper.practice import dropping
from transformulary.paper.settings import TrainingSettings

# dropout


def test_dropout_drops_with_the_given_numbers():
    """An entry whose number is below p is 0, the others are divided by 1 - p."""
    numbers = np.array([[0.1, 0.3], [0.25, 0.0]])

    X = notation.Dropout(0.25, lambda shape: numbers)(np.ones((2, 2)))

    np.testing.assert_array_equal(X, [[0, 4 / 3], [4 / 3, 0]])


def test_where_entries_are_dropped():
    """After the embedding, in every attention's weights, and at the end of both branches of every layer; as in `nn`."""
    config = replace(c, L=2, H=2)
    shapes = []
    dropout = notation.Dropout(0.5, lambda shape: shapes.append(shape) or np.ones(shape))

    oracle.DTransformer(x[0], theta(config), dropping(config, dropout))

    layer = [(5, 5), (5, 5), (4, 5), (4, 5)]
    assert [(4, 5), *layer, *layer] == shapes


@pytest.mark.parametrize("mlp", ["plain", "gated"])
def test_dropped_values_are_the_fast_models(mlp, monkeypatch):
    """With the same numbers, logits of a fast model in training mode are the oracle's: same places, same scale."""
    config = replace(c, mlp=mlp)
    model = DTransformer(config, 0.5).double()
    numbers = np.random.default_rng(0)
    kept = []

    def drop(X):
        kept.append((torch.tensor(numbers.random(X.shape)) >= 0.5).double())
        return X * kept[-1] / 0.5

    monkeypatch.setattr(torch.nn.Dropout, "forward", lambda self, X: drop(X))
    monkeypatch.setattr(attention, "attend", lambda Q, K, V, scores, dropout: attended(Q, K, V, scores, drop))
    logits = model(torch.tensor([x[0]]))[0].T

    queue = []
    for part in kept:
        queue += [part[0].mT.numpy()] if part.ndim == 3 else [head.mT.numpy() for head in part[0]]
    P = oracle.DTransformer(x[0], theta_of(model), dropping(config, notation.Dropout(0.5, lambda shape: queue.pop(0))))

    np.testing.assert_allclose(P, logits.softmax(0).detach().numpy(), rtol=1e-12)


def attended(Q, K, V, scores, drop):
    """Attention with dropout, as equations."""
    t = torch.arange(Q.shape[-2])
    S = (Q @ K.mT * scores.scale).masked_fill(~scores.mask(t[None, :], t[:, None]), -math.inf)
    return drop(S.softmax(-1)) @ V


def test_dropout_is_drawn_once_a_step():
    """The gradient of a step is that of one loss: all its evaluations drop the same, and the next step another."""
    how = Training(N_steps=2, p_drop=0.5)
    draws = [notation.draws(0.5, np.random.default_rng(5)) for _ in range(2)]
    first = [R().numbers((3, 3)) for R in draws]

    ours = [oracle.DTraining(x[:1], theta(), c, how, eta=0.1, rng=np.random.default_rng(5)) for _ in range(2)]

    np.testing.assert_array_equal(first[0], first[1])
    assert_close(ours[0], ours[1], atol=0)
    losses = oracle.record("DTraining", x[:1], theta(), c, how, eta=1e-9, rng=np.random.default_rng(5))
    assert abs(losses["13.5[i=1,n=1]"] - losses["13.5[i=2,n=1]"]) > 1e-3


# masks


def test_berts_masking_by_given_numbers():
    """A chosen token becomes mask_token below 0.8, stays below 0.9, else is any token; specials are never chosen."""
    chosen = notation.chosen([7, 8, 9, 7], 0.5, (9,), Given(0.4, 0.5, 0.1, 0.0))

    new = [notation.corrupted(3, 5, 10, Given(*u)) for u in ([0.79], [0.8], [0.89], [0.9, 0.65])]

    assert {0, 3} == chosen
    assert [5, 3, 3, 6] == new


def test_berts_loss_is_over_the_chosen_tokens():
    """A chosen token that stayed as it is counts in the loss; what decides is the choice and not mask_token."""
    config = ETransformerConfig(N_V=6, ell_max=5, L=1, H=1, d_e=2, d_mlp=2)
    how = Training(N_steps=1, masking="bert", loss="tokens")
    told = {"eta": 0.1, "p_mask": 0.5, "mask_token": 3}

    run = oracle.record("ETraining", [[1, 2]], theta(config), config, how, **told, rng=Given(0.9, 0.1, 0.85))

    P = oracle.ETransformer([1, 2], theta(config), config)
    assert run["12.3a[i=1,n=1]"] == {1}
    assert math.isclose(run["12.9[i=1,n=1]"], -math.log(P[2, 1]), rel_tol=1e-14)


# inference


@pytest.mark.parametrize(
    "sampling",
    [{}, {"tau": 0.6}, {"top_k": 3}, {"top_p": 0.7}, {"tau": 1.7, "top_k": 4, "top_p": 0.8}, {"tau": 0}, {"top_p": 0}],
    ids=str,
)
@pytest.mark.parametrize("stop", [(), (0, 3)])
def test_inference_is_the_fast_models(sampling, stop):
    """Given the same uniform numbers, temperature, top-k, top-p, stopping and the end of the positions agree."""
    config = replace(c, ell_max=12)
    how = Inference(top_k=sampling.get("top_k", 0), top_p=sampling.get("top_p", 1.0), stop=stop, limit=True)
    texts = []
    for seed in range(6):
        model = train.initial_model(config, TrainingSettings(init_std=1.0, seed=seed)).double()
        fast = generate.DInference(model, [1, 2], 20, generate.Sampling(**sampling), seed=seed, eos=stop)
        drawn = torch.Generator().manual_seed(seed)
        uniform = Given(*[1 - torch.rand((), dtype=torch.float64, generator=drawn).item() for _ in range(20)])
        y = oracle.DInference(
            [1, 2], theta_of(model), config, how, ell_gen=20, tau=sampling.get("tau", 1.0), rng=uniform
        )
        texts.append((list(fast), y))

    assert all(fast == ours for fast, ours in texts)
    assert {len(y) for _, y in texts} == {11} if not stop else min(len(y) for _, y in texts) < 11


@given(seeds, st.integers(1, 9), st.floats(0, 1))
def test_filters_are_distributions(rng, k, p):
    """What top_k and top_p leave are the most probable tokens, their proportions kept, and as many as asked for."""
    q = oracle.softmax(rng.normal(size=8))

    few, mass = notation.likeliest(q, k), notation.nucleus(q, p)

    for kept in (few, mass):
        assert math.isclose(kept.sum(), 1, rel_tol=1e-12)
        assert min(q[kept > 0]) >= max([0, *q[kept == 0]])
    assert (few > 0).sum() == min(k, 8)
    assert q[mass > 0].sum() >= p - 1e-9

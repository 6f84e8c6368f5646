"""Algorithm 14 of the fast model continues a prompt with the oracle's tokens."""

import numpy as np
import pytest

from nn.models import config, model, tokens
from transformulary import oracle
from transformulary.conform.theta import theta_of
from transformulary.generate import DInference, Sampling


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mask": ("causal", "local(2)"), "tied": True},
        {"mask": "prefix(3)"},
        {"positions": "rotary", "norm": "rms_norm", "mlp": "gated", "activation": "silu", "H_kv": 2},
        {"positions": "sinusoid", "embedding_norm": True, "absent": ()},
    ],
    ids=str,
)
@pytest.mark.parametrize("ell", [1, 4])
def test_greedy_tokens(change, ell):
    """At temperature 0 in float64, with keys and values remembered or not, up to the longest text there can be."""
    c = config(**change)
    continuations, theirs = [], []
    for seed in range(4):
        fast, x = model(c, seed), tokens(c, 1, ell, seed)[0].tolist()
        continuations.append(tuple(DInference(fast, x, 10 - ell, Sampling(tau=0))))
        rng = np.random.default_rng(0)
        theirs.append(tuple(oracle.DInference(x, theta_of(fast), c, ell_gen=10 - ell, tau=0, rng=rng)))

    assert continuations == theirs
    assert len(set(theirs)) == 4  # four models say four things

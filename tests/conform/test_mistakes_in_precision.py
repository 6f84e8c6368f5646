"""Every known mistake can be made in low precision as well, also in parameters that are fetched when they are used."""

import numpy as np
import pytest

from conform.test_faults import KINDS as DECODERS
from conform.test_faults import X, build
from conform.test_faults_of_encoders import KINDS, SEGMENTS, Z
from conform.test_faults_of_encoders import build as build_encoder
from transformulary.conform.mistakes import KNOWN
from transformulary.conform.replay import Replay
from transformulary.conform.search import tried
from transformulary.oracle.precision import ACCUMULATED, in_precision
from transformulary.oracle.whole import Model, number_of
from transformulary.paper import Read

REFERENCES = {kind: build(DECODERS[kind])[2] for kind in ("gpt", "llama")}
REFERENCES |= {kind: build_encoder(sizes)[2] for kind, (sizes, _) in KINDS.items()}


@pytest.mark.parametrize("kind", REFERENCES)
def test_a_mistake_in_bfloat16_is_the_mistake(kind):
    """Where it makes sense for a model, it does in bfloat16, and gives numbers where it gives numbers in float64."""
    ref = REFERENCES[kind]
    number = number_of(ref.config)
    x, z, s = (tuple(ids[:6]) for ids in (X, Z, SEGMENTS))  # enough for every mask; T5's attention is slow
    read = Read(x, z if number in ("8", "8a") else (), s if number == "9" else ())
    low, output = in_precision(ref.theta, "bfloat16", ACCUMULATED), Model(ref.config, ref.theta).output
    exact, rounded = (Replay(output, {}, read, theta, ref.config, {}) for theta in (ref.theta, low))

    for mistake in KNOWN[number].mistakes:
        one, other = (tried(run, {mistake: 0}) for run in (exact, rounded))
        assert (one is None) == (other is None), mistake.key
        if one is not None and np.isfinite(one).all():
            assert np.isfinite(np.asarray(other, np.float64)).all(), mistake.key

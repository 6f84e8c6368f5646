"""The oracle computes what published implementations compute, on tiny random models in float64."""

import numpy as np
import pytest
import torch

import huggingface
from transformulary import oracle

X = [5, 3, 36, 0, 7, 7, 31, 12]
Z = [9, 2, 30, 31, 8, 1]


def ids(sequence):
    return torch.tensor(sequence)[None]


@pytest.mark.parametrize("tied", [True, False])
def test_gpt2(tied):
    """GPT-2 is Algorithm 10 with eps = 1e-5, the tanh form of GELU and a tied unembedding."""
    model, c, theta = huggingface.gpt2(tied=tied)

    P = oracle.DTransformer(X, theta, c)

    np.testing.assert_allclose(P, huggingface.probabilities(model, input_ids=ids(X)), rtol=0, atol=1e-14)


def test_bert():
    """BERT is Algorithm 9 with segments (2a), an embedding norm (3a) and an output bias."""
    model, c, theta = huggingface.bert()
    s = [0, 0, 0, 0, 1, 1, 1, 1]

    P = oracle.ETransformer(X, theta, c, s)

    theirs = huggingface.probabilities(model, input_ids=ids(X), token_type_ids=ids(s))
    np.testing.assert_allclose(P, theirs, rtol=0, atol=1e-14)


def test_marian():
    """Marian is Algorithm 8 with scaled embeddings, sine and cosine halves, SiLU and an output bias."""
    model, c, theta = huggingface.marian()

    P = oracle.EDTransformer(Z, X, theta, c)

    theirs = huggingface.probabilities(model, input_ids=ids(Z), decoder_input_ids=ids(X))
    np.testing.assert_allclose(P, theirs, rtol=0, atol=1e-14)


@pytest.mark.parametrize("H_kv", [1, 2, 4])
def test_llama(H_kv):
    """Llama is Algorithm 10 with rotations (4.3a, 4.3b), RMSnorm, a gated SiLU, grouped heads and no biases."""
    model, c, theta = huggingface.llama(H_kv=H_kv)

    P = oracle.DTransformer(X, theta, c)

    np.testing.assert_allclose(P, huggingface.probabilities(model, input_ids=ids(X)), rtol=0, atol=1e-14)


def test_llama_as_released():
    """As released, Llama computes norms and rotations in float32 even in a float64 model: equal to that precision."""
    model, c, theta = huggingface.llama(exact=False)

    error = np.abs(oracle.DTransformer(X, theta, c) - huggingface.probabilities(model, input_ids=ids(X))).max()

    assert 1e-12 < error < 1e-6


def test_gpt_neo():
    """GPT-Neo is GPT-3's pattern: dense and banded layers in turn, no 1/sqrt(d_attn); its scores are in float32."""
    model, c, theta = huggingface.gpt_neo()

    P = oracle.DTransformer(X, theta, c)

    theirs = huggingface.probabilities(model, input_ids=ids(X))
    np.testing.assert_allclose(P, theirs, rtol=0, atol=1e-7)


@pytest.mark.parametrize("window", [2, 4])
def test_gpt_neo_band_width(window):
    """The band is exactly `window` tokens wide, the token itself included: one more or less is seen."""
    model, _, theta = huggingface.gpt_neo(window=3)
    other = huggingface.gpt_neo(window=window)[1]

    error = np.abs(oracle.DTransformer(X, theta, other) - huggingface.probabilities(model, input_ids=ids(X))).max()

    assert error > 1e-4

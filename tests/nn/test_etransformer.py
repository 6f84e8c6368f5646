"""The fast encoder: segments, both directions, and what is put on top of it: classes and vectors of texts."""

import copy
import pickle

import numpy as np
import pytest
import torch

from nn.models import config, inputs, model, tokens
from transformulary import oracle
from transformulary.conform.theta import theta_of
from transformulary.errors import AlgorithmError, ConfigError
from transformulary.nn import EClassifier, EEmbedder, ETransformer, attention_weights
from transformulary.nn.etransformer import check_segments
from transformulary.paper import ETransformerConfig

BERT = {"segments": 2, "embedding_norm": True, "tied": True, "absent": set(), "eps": 1e-12}


def bert(**changes):
    return config(ETransformerConfig, **BERT | changes)


def encoded(fast, x, s):
    """X after line 9, by the oracle that runs the fast model's parameters."""
    whole = model(fast.config)
    whole.load_state_dict(fast.state_dict(), strict=False)
    seen = oracle.record("ETransformer", x[0].tolist(), theta_of(whole), fast.config, s[0].tolist())
    return seen[f"9.8[l={fast.config.L}]"]


@pytest.mark.parametrize(
    ("s", "segments", "message"),
    [
        ([[0, 1]], 2, r"segments s have shape \(1, 2\): one"),
        ([[0, 1, 2]], 2, r"token id 2, outside the vocabulary \[0, N_V\) = \[0, 2\)"),
        ([[0, 1, 1]], 0, r"segments s have shape \(1, 3\): this model has none"),
    ],
)
def test_segments_are_given_where_there_are_any(s, segments, message):
    """A model with segments takes one per token within range; a model without takes none."""
    with pytest.raises(AlgorithmError, match=message):
        check_segments(torch.ones(1, 3, dtype=torch.int64), torch.tensor(s), segments)


def test_all_tokens_are_of_segment_0_unless_told():
    """Without segments, as with zeros for all of them, padded or not."""
    fast, x = model(bert()), torch.tensor([[1, 2, 3]])
    real = torch.tensor([[True, True, False]])

    assert torch.equal(fast(x, torch.zeros_like(x)), fast(x))
    assert torch.equal(fast(x, torch.zeros_like(x), real=real)[:, :2], fast(x, real=real)[:, :2])


def test_all_tokens_see_all_others():
    """The last token changes the first one's logits, and the first one the last one's."""
    fast = model(config(ETransformerConfig))
    x = tokens(fast.config, 1, 5)
    other = x.clone()
    other[0, 4] = (x[0, 4] + 1) % 11

    assert (fast(x)[0, 0] - fast(other)[0, 0]).abs().max() > 1e-3


def test_attention_weights_are_those_of_the_oracle():
    """Row t_x of layer l, head h is column t_x of the value 9.5[l]/5.2[h]/4.6:softmax."""
    c = bert()
    fast, (x, s) = model(c), inputs(c, 1, 6)
    seen = oracle.record("ETransformer", x[0].tolist(), theta_of(fast), c, s[0].tolist())

    for l, weights in enumerate(attention_weights(fast, x, s), 1):
        for h in range(c.H):
            expected = seen[f"9.5[l={l}]/5.2[h={h + 1}]/4.6:softmax"].T
            np.testing.assert_allclose(weights[0, h].numpy(), expected, rtol=0, atol=1e-14)


def test_classes_are_those_of_the_oracle():
    """The distribution over classes is Algorithm 9c's, on what Algorithm 9 has after line 9 (E20)."""
    fast = model(bert(), made=EClassifier(bert(), N_C=5))
    x, s = inputs(fast.config, 1, 6)
    lines = (fast.W_pool, fast.W_c)
    theta = [part.detach().numpy() for line in lines for part in (line.weight, line.bias)]

    p = fast(x, s)[0].softmax(-1).detach().numpy()

    np.testing.assert_allclose(p, oracle.classification(encoded(fast, x, s), *theta), rtol=0, atol=1e-14)


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_vectors_of_texts(pooling, normalised):
    """They are the mean of the columns of X after line 9, or its first, or the largest; length 1 if normalised."""
    fast = model(bert(), made=EEmbedder(bert(), pooling, normalised))
    x, s = inputs(fast.config, 1, 6)
    X = encoded(fast, x, s)
    e = {"mean": X.mean(1), "first": X[:, 0], "max": X.max(1)}[pooling]

    expected = e / np.linalg.norm(e) if normalised else e
    np.testing.assert_allclose(fast(x, s)[0].detach().numpy(), expected, rtol=0, atol=1e-14)


MADE = [EClassifier(bert(), 5), *(EEmbedder(bert(), pooling) for pooling in ("mean", "first", "max"))]


@pytest.mark.parametrize("made", MADE, ids=repr)
@pytest.mark.parametrize("at", [[0, 1, 2], [2, 3, 4], [0, 3, 4]], ids=["right", "left", "inside"])
def test_padding_changes_no_class_and_no_vector(made, at):
    """[1,2,3], [1,2,3,p,p], [p,p,1,2,3] and [1,p,p,2,3] have the same scores, and the same vector."""
    fast = model(made.config, made=made)
    x, s = inputs(fast.config, 1, 3)
    padded, segments, real = torch.full((2, 5), 9), torch.zeros(2, 5, dtype=torch.int64), torch.ones(2, 5) > 0
    padded[0, at], segments[0, at], real[0] = x[0], s[0], False
    real[0, at] = True

    torch.testing.assert_close(fast(padded, segments, real=real)[:1], fast(x, s), rtol=0, atol=1e-12)


def test_an_empty_text_has_the_vector_0():
    """There is nothing to take the mean of."""
    fast = model(bert(), made=EEmbedder(bert()))
    x, s = inputs(fast.config, 2, 4)
    real = torch.tensor([[True] * 4, [False] * 4])

    e = fast(x, s, real=real)

    assert [0.0] * 8 == e[1].tolist()
    torch.testing.assert_close(e[:1], fast(x[:1], s[:1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: EClassifier(c, 0), "N_C = 0: there must be at least one class"),
        (lambda c: EEmbedder(c, "median"), "pooling = 'median' is none of mean, first, max"),
        (lambda c: ETransformer(c, 1.0), "dropout = 1.0"),
    ],
)
def test_what_there_is_not(make, message):
    """An impossible number of classes, an unknown pooling, an impossible dropout are errors."""
    with pytest.raises(ConfigError, match=message):
        make(bert())


def test_dropout_is_for_training():
    """In evaluation the same twice; in training not."""
    for fast in (EClassifier(bert(), 3, dropout=0.5), ETransformer(bert(), dropout=0.5)):
        given = inputs(fast.config, 1, 6)

        assert fast.eval()(*given).tolist() == fast(*given).tolist()
        assert fast.train()(*given).tolist() != fast(*given).tolist()


def test_initial_parameters_are_berts():
    """Matrices N(0, 0.02^2), those that end a branch too: its sum is normed."""
    made = ETransformer(bert(d_e=128, d_mlp=512, N_V=500), generator=torch.Generator().manual_seed(0))

    for theta in (made.W_e.weight, made.layers[1].attention.W_o.weight, made.layers[1].mlp.W_mlp2.weight):
        assert 0.02 == pytest.approx(float(theta.detach().std()), rel=0.02)


def test_can_be_copied_and_pickled():
    """Copies compute the same; a tied model stays tied."""
    fast = model(bert())
    given = inputs(fast.config, 1, 5)

    for copied in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert fast(*given).tolist() == copied(*given).tolist()
        assert copied.W_u.weight is copied.W_e.weight

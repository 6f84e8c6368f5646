"""What functions of attention return, and what they do with a query that may attend to nothing."""

import numpy as np
import pytest
import torch

from conform.test_candidates import X, mha, softmax
from transformulary.conform import Functions, conform


def scores(X, Z, w):
    Q, K = X @ w.W_q.T + w.b_q, Z @ w.W_k.T + w.b_k
    return Q @ K.T / np.sqrt(Q.shape[-1])


def filled(value):
    """An attention that writes a value where the mask is false, and returns (output, weights)."""

    def attention(X, Z, w, mask):
        A = softmax(np.where(mask, scores(X, Z, w), value))
        return A @ (Z @ w.W_v.T + w.b_v), A

    return attention


def added(X, Z, w, mask):
    return softmax(scores(X, Z, w) - 1e9 * ~mask) @ (Z @ w.W_v.T + w.b_v)


def cosine(X, Z, w, mask):
    Q, K = (Y / np.sqrt((Y**2).sum(-1, keepdims=True) + 1e-6) for Y in (X @ w.W_q.T + w.b_q, Z @ w.W_k.T + w.b_k))
    return softmax(np.where(mask, 10 * Q @ K.T, -1e30)) @ (Z @ w.W_v.T + w.b_v)


def softmax1(X, Z, w, mask):
    e = np.exp(np.where(mask, scores(X, Z, w), -np.inf))
    return e / (1 + e.sum(-1, keepdims=True)) @ (Z @ w.W_v.T + w.b_v)


def softened(X, Z, w, mask):
    e = np.exp(np.where(mask, scores(X, Z, w), -np.inf))
    return e / (e.sum(-1, keepdims=True) + 1e-6) @ (Z @ w.W_v.T + w.b_v)


def safe(X, Z, w, mask):
    return (softmax(np.where(mask, scores(X, Z, w), -1e9)) * mask) @ (Z @ w.W_v.T + w.b_v)


def refusing(X, Z, w, mask):
    assert mask.any(-1).all()
    return safe(X, Z, w, mask)


def notes(functions, kind, **options):
    report = conform(Functions(functions, **options), "gpt2", tokens=X)
    return [(note.status, note.says) for note in report.notes if note.kind == kind]


@pytest.mark.parametrize(("attention", "status", "says"), [
    (filled(-1e9), "differs", "gets uniform weights; they must be 0"),
    (added, "differs", "gets the weights that it would have without a mask; they must be 0"),
    (filled(-np.inf), "note", "gets NaN"),
    (safe, "agrees", "gets nothing"),
    (refusing, "agrees", "is refused"),
    (lambda X, Z, w, mask: safe(X, Z, w, mask) + ~mask.any(-1)[:, None], "note", "gets something else than nothing"),
    (lambda X, Z, w, mask: filled(0)(X, Z, w, mask | True), "not seen", "does not keep to its mask"),
    (filled(0), "not seen", "does not keep to its mask"),
    (cosine, "differs", "gets uniform weights"),
    (softmax1, "agrees", "gets nothing"),
    (softened, "agrees", "gets nothing"),
], ids=["finite", "added", "infinite", "safe", "refusing", "else", "none", "zero", "cosine", "softmax1",
        "softened"])  # fmt: skip
def test_a_query_that_may_attend_to_nothing(attention, status, says):
    """The row that no decoder's mask has: what attention makes of it is found out, and is one note."""
    ((found, text),) = notes({"attention": attention}, "masks")

    assert found == status
    assert says in text


def test_the_output_bias_is_nothing():
    """All heads together: nothing is the output bias alone."""
    layer = {"mha": lambda X, Z, w, mask: np.where(mask.any(-1)[:, None], mha(X, Z, w, mask | ~mask.any(-1)), w.b_o)}

    assert notes(layer, "masks") == [("agrees", "in mha, a query that may attend to nothing gets nothing")]


def test_columns_of_torch():
    """Tokens as columns, in PyTorch, in float32: the masks are theirs too."""

    def attention(X, Z, w, mask):
        Q, K, V = ((W @ Y).float() + b.float()[:, None] for W, Y, b in (
            (w.W_q, X, w.b_q), (w.W_k, Z, w.b_k), (w.W_v, Z, w.b_v)))  # fmt: skip
        A = (K.T @ Q / len(Q) ** 0.5).masked_fill(~mask, -1e9).softmax(0)
        return V @ A, A

    ((status, says),) = notes({"attention": attention}, "masks", tokens="columns", make=torch.from_numpy)

    assert (status, "uniform" in says) == ("differs", True)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_pair_of_results(swapped):
    """(output, weights) is as good as the output; (weights, output) is one line, and the output is judged even so."""

    def attention(*args):
        pair = filled(-np.inf)(*args)
        return pair[::-1] if swapped else pair

    report = conform({"attention": attention}, "gpt2", tokens=X)

    wrong = "Results: attention returns (weights, output); it must return the output, or (output, weights)."
    assert report.status == swapped
    assert (wrong in report.answer) == swapped
    assert {row.line: row.status for row in report.rows}["10.6/5.2"] == "agrees"


def test_a_pair_whose_weights_stand_per_head():
    """All heads at once return one matrix of weights per head, or their mean: either is told from the output."""

    def swapped(average):
        def layer(X, Z, w, mask):
            A = softmax(np.where(mask, np.zeros((w.H, len(X), len(Z))), -np.inf))
            return (A.mean(0) if average else A), mha(X, Z, w, mask)

        return layer

    for average in (False, True):
        ((status, _),) = notes({"mha": swapped(average)}, "results")
        assert status == "differs"


def test_one_token_has_nobody_to_be_masked_from():
    """With a sequence of one token, no query is asked alone."""
    report = conform({"attention": filled(-1e9)}, "gpt2", tokens=[3])

    assert [note for note in report.notes if note.kind == "masks"] == []

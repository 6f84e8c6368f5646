"""The golden vectors of encoder-decoders can tell right from wrong: a port with one mistake differs from them."""

import numpy as np
import pytest

from transformulary.conform import cases as making
from transformulary.conform.mistakes import KEPT, KNOWN, NAMES
from transformulary.conform.vectors import compare_values, read_vectors
from transformulary.oracle import numbers, softmax
from transformulary.oracle.watch import Watch

#: Mistakes of both algorithms, and of the buckets of distances.
MEMORY = ("memory-embeddings", "memory-unfinished", "cross-first-layer", "cross-shares-weights", "self-shares-weights")
BUCKETS = ("buckets-exact", "buckets-up-to-64", "buckets-one-way", "buckets-both-ways", "buckets-first-layer",
           "buckets-first-layer-16", "buckets-backwards", "buckets-half")  # fmt: skip
#: Other limits than 128, and no last bucket: only far distances tell them.
FAR = ("buckets-exact", *(f"buckets-up-to-{most}" for most in (64, 100, 127, 256)))


def differing(vectors, name, key):
    """The paths of a case that differ where everything is computed with the mistake `key`; "" for none."""
    case, made = read_vectors(vectors)[name], next(case for case in making.CASES if case.name == name)
    draw = making._Numbers(name)
    inputs = {one: making._input(draw, given) for one, given in made.inputs.items()}
    theta, values = making._theta(draw, made, making._config(made)), {}
    watch = Watch(lambda path, value: values.setdefault(path, value), NAMES, keep=KEPT)
    known = (m for each in KNOWN.values() for m in each.mistakes if m.line.partition(".")[0] in (made.number, "4"))
    watch.on = {next(m for m in known if m.key == key): 0} if key else {}
    making._call(watch.algorithms, made, inputs, theta)
    rows = compare_values({path: numbers(values[path]) for path in case.paths}, case)
    return [row.path for row in rows if row.verdict == "differ"]


@pytest.mark.parametrize("name", ["8-paper", "8-marian", "8a-t5", "4-buckets", "4-buckets-causal"])
def test_right_is_right(name, vectors):
    """Without a mistake nothing differs."""
    assert differing(vectors, name, "") == []


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name in ("8-paper", "8-marian", "8a-t5") for key in MEMORY] + [("8a-t5", key) for key in BUCKETS],
)
def test_a_mistake_differs(name, key, vectors):
    """Each stack has two layers, and T5 so many tokens that distances share buckets: the output shows it."""
    found = differing(vectors, name, key)

    assert read_vectors(vectors)[name].entry["output"] in found


@pytest.mark.parametrize("key", FAR)
@pytest.mark.parametrize("name", ["4-buckets", "4-buckets-causal"])
def test_far_distances_tell_the_limit(name, key, vectors):
    """Where distances beyond 128 occur, both ways or one, any other limit than 128 shows in the scores."""
    assert "4.4" in differing(vectors, name, key)


@pytest.mark.parametrize("name", ["7-paper", "8-marian", "8a-t5", "9-bert", "9c-bert", "10-gpt2", "10-llama"])
def test_logits_are_what_the_softmax_is_given(name, vectors):
    """Whatever was done to the product with W_u (BERT's bias, T5's scale), P is the softmax of the logits."""
    case = read_vectors(vectors)[name]
    output = case.entry["output"]

    np.testing.assert_array_equal(softmax(case.tensors[f"{output}:logits"]), case.tensors[output])

"""Mistakes with a cache and with padding, planted in ordinary PyTorch code, are named with proof."""

import re
from dataclasses import replace
from functools import wraps

import numpy as np
import pytest
import torch

import huggingface as hf
from conform.cached import Cached, decode
from conform.ordinary import GPT, LLAMA, build
from transformulary.conform.candidates.caches import RIGHT, Memory
from transformulary.conform.candidates.decoding import check_decoding
from transformulary.conform.reference import Reference, reference
from transformulary.oracle import DTransformer, softmax

X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
KINDS = {"gpt": GPT, "llama": LLAMA}
CACHE, BATCH, LEFT = "with a cache", "with a cache in a batch", "padded on the left"

#: fault -> the models that can have it, how they are run, what is said
FAULTS = {
    "restart": ("gpt", CACHE, "positions are not advanced: every piece begins at 0 again"),
    "stay": ("gpt llama", CACHE, "positions are not advanced: they stay what they were after the first piece"),
    "ahead": ("gpt llama", CACHE, "positions are advanced by one too much"),
    "behind": ("gpt llama", CACHE, "positions are advanced by one too little"),
    "lost": ("gpt llama", CACHE, "the past is lost"),
    "lost restart": ("gpt", CACHE, "the past is lost, and every piece begins at position 0 again"),
    "mask-first": (
        "gpt llama",
        CACHE,
        "the mask lays the first new token upon the first key instead of the last upon the last",
    ),
    "keys-again": ("llama", CACHE, "cached keys, which are rotated already, are rotated again with every piece"),
    "keys-raw": ("llama", CACHE, "keys are cached before rotation, and then not rotated"),
    "keys-newest": (
        "llama",
        CACHE,
        "keys are cached before rotation, and all are then rotated by the position of the newest token",
    ),
    "layer-before": ("gpt llama", CACHE, "every layer reads the cache of the layer before it"),
    "layer-after": ("gpt llama", CACHE, "every layer reads the cache of the layer after it"),
    "layer-first": ("gpt llama", CACHE, "every layer reads the cache of the first"),
    "cache-cut": ("gpt llama", CACHE, "the first 2 tokens are dropped from the cache"),
    "window-wide": ("gpt", CACHE, "the window is one token too wide once there is a cache"),
    "window-narrow": ("gpt", CACHE, "the window is one token too narrow once there is a cache"),
    "window-gone": ("gpt", CACHE, "the window is not kept once there is a cache"),
    "rows-flipped": ("gpt llama", BATCH, "it reads the cache of row 3 of the batch"),
    "padding-counted": ("gpt", LEFT, "positions are counted from the padding"),
    "padding-seen": ("gpt", LEFT, "the padding is attended to"),
    "padding-counted padding-seen": (
        "gpt llama",
        LEFT,
        "the padding is attended to, and positions are counted from it",
    ),
}
PLANTED = [(fault, kind) for fault, (kinds, _, _) in FAULTS.items() for kind in kinds.split()]


def notes(kind, faults="", dtype=torch.float64, by=decode):
    """{how the model is run: the note} of an ordinary model with faults."""
    planted = dict.fromkeys(faults.split(), 0)
    model, _, ref = build(replace(KINDS[kind], faults=planted), dtype=dtype, kind=Cached)
    found = check_decoding(model, ref, X, str(dtype).removeprefix("torch."), by)
    return {note.says.partition(":")[0].partition(", logits")[0]: note for note in found}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_no_false_alarm(kind, dtype):
    """A right cache and right padding agree, in every precision."""
    found = notes(kind, dtype=dtype)

    assert {note.status for note in found.values()} == {"agrees"}
    assert set(found) == {CACHE, "in a batch", BATCH, "padded on the right", LEFT}


@pytest.mark.parametrize(("fault", "kind"), PLANTED)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_every_planted_fault_is_named(fault, kind, dtype):
    """It is named where it shows, because with that one change of the oracle the logits agree."""
    _, where, says = FAULTS[fault]

    note = notes(kind, fault, dtype)[where]

    assert note.status == "differs"
    assert re.search(f"{says}(, or .*)?; with this one change they agree to", note.says)
    assert ", or" not in note.says or kind == "llama"  # whose positions are differences: some ways are then the same


@pytest.mark.parametrize("name", ["paper", "gpt2", "llama"])
def test_algorithm_10_on_pieces(name):
    """With a right memory the oracle computes the same of pieces as of the whole sequence, to rounding."""
    ref = reference(name)
    memory = Memory(ref.config, RIGHT)

    logits = [memory.run(piece, ref.theta) for piece in (X[:5], X[5:6], X[6:])]

    np.testing.assert_allclose(
        softmax(np.concatenate(logits).T), DTransformer(X, ref.theta, ref.config), rtol=0, atol=1e-14
    )


def test_a_model_of_its_own():
    """Where the model itself is not the reference, nothing is said about its cache that could not be proven."""
    found = notes("gpt", "restart act-GELU")[CACHE]

    assert found.status == "differs"
    assert found.says.endswith(": why cannot be said before the model itself agrees")


def test_a_fault_that_nobody_knows():
    """A difference that no way explains is said to be one."""
    found = notes("gpt", by=lambda model, pieces: decode(model, pieces) + 0.1 * (torch.arange(len(X)) > 8)[:, None])[
        CACHE
    ]

    assert found.status == "differs"
    assert found.says.endswith(": no known mistake of caches and masks explains it")


@pytest.mark.parametrize("ell", [1, 2, 3, 4])
def test_few_tokens(ell):
    """However few tokens there are, they are padded; the cache takes four."""
    model, _, ref = build(GPT, kind=Cached)

    found = list(check_decoding(model, ref, X[:ell], "float64", decode))

    assert [note.status for note in found[-2:]] == ["agrees", "agrees"]
    assert (found[0].status == "not seen") == (ell < 4)


def test_no_room_for_padding():
    """A model that reads no more tokens than there are is not blamed."""
    model, _, ref = build(replace(GPT, context=3), kind=Cached)

    found = list(check_decoding(model, ref, X[:3], "float64", decode))

    assert [note.status for note in found] == ["not seen", "agrees", "not seen", "not seen"]
    assert found[-1].says == "padded on the left: with 3 tokens of padding there would be 6, and ell_max = 3"


class OneByOne(Cached):
    """Code for one sequence at a time."""

    def forward(self, ids, *more, **named):
        assert len(ids) == 1, "one at a time"
        return super().forward(ids, *more, **named)


@pytest.mark.parametrize(("kind", "by", "unseen"), [
    (OneByOne, decode, ["in a batch", BATCH, "padded on the right", LEFT]),
    (Cached, lambda model, pieces: 1 / 0, [CACHE]),
    (Cached, lambda model, pieces: np.asarray(decode(model, pieces)[:1]), [BATCH]),
])  # fmt: skip
def test_a_way_that_fails_hides_nothing_else(kind, by, unseen):
    """It is not seen, with the reason; the others are compared."""
    model, _, ref = build(GPT, kind=kind)

    found = list(check_decoding(model, ref, X, "float64", by))

    assert [note.says.partition(":")[0] for note in found if note.status != "agrees"] == unseen
    assert {note.status for note in found} == {"agrees", "not seen"}


@pytest.mark.parametrize("change", [lambda y: 0 * y, lambda y: y.index_fill(-1, torch.tensor([3]), -torch.inf)])
def test_logits_that_are_all_0_or_banned(change):
    """0 against 0 agrees, and so does minus infinity, a token that is never to be said, against itself."""
    model, _, ref = build(GPT, kind=Cached)
    forward = model.forward
    model.forward = wraps(forward)(lambda *a, **k: change(forward(*a, **k)))

    found = list(check_decoding(model, ref, X, "float64", decode))

    assert {note.status for note in found} == {"agrees"}, found


def test_no_finite_logits():
    """What is no number equals nothing: that is said once, and the model is not blamed."""
    model, _, ref = build(GPT, kind=Cached)
    forward = model.forward
    model.forward = wraps(forward)(lambda *a, **k: forward(*a, **k) * torch.nan)

    (found,) = check_decoding(model, ref, X, "float64", decode)

    assert (found.status, "not finite" in found.says) == ("not seen", True)


def test_caches_of_transformers():
    """A cache of `transformers` that loses the position is found as those of one's own functions are."""
    model, config, theta = hf.gpt2()
    forward = model.forward
    model.forward = wraps(forward)(
        lambda *a, **k: forward(*a, **k | {"position_ids": torch.arange(a[0].shape[1])[None]})
    )

    found = [n.says for n in check_decoding(model, Reference("gpt2", config, theta), X, "float64")]

    assert ": positions are not advanced: every piece begins at 0 again; with this one change" in found[0]

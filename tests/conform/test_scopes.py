"""A mistake is said of the lines and layers where it can be: not of those that were seen to agree without it."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from conform import ordinary_encoders as encoders
from conform.ordinary import GPT, LLAMA, PLACES, build
from conform.test_faults import LOGITS, X
from conform.test_faults_of_encoders import SEGMENTS, Z
from transformulary.conform import conform

DTYPES = [torch.float64, torch.float32, torch.bfloat16]


def found(model, table, ref, **read):
    faults = conform(model, ref, tokens=X, table=table, decoding=False, **read).faults
    return [(fault.key, fault.line.partition(", ")[2], fault.where, fault.others) for fault in faults]


def without(*lines, of=PLACES):
    """Places, all but those of some lines: "10.8[l]" in every layer, "10.8[l=3]" in one."""
    places = {}
    for pattern, place in of.items():
        layers = (0,) if "[l]" not in pattern else (1, 2) if "encoder" in place else (1, 2, 3)
        for l in layers:
            path = pattern.replace("[l]", f"[l={l}]")
            if not {pattern, path} & set(lines):
                places[path] = place.format(l=l - 1)
    return places


def only(model, name, faults):
    """Plant faults in one module."""
    module, sizes = model.get_submodule(name), replace(model.s, faults=faults)
    module.has, module.number = partial(sizes.has, 1), partial(sizes.number, 1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [GPT, LLAMA], ids=["gpt", "llama"])
@pytest.mark.parametrize("key", ["no-norm", "norm-twice"])
def test_what_the_final_norm_does_wrong_is_not_said_of_others(sizes, key, dtype):
    """Line 10 is not seen, the other norms are and agree."""
    model, table, ref = build(replace(sizes, faults={f"{key}-10": 0}), places=without("10.10"), dtype=dtype)

    assert found(model, table, ref) == [(key, "line 10", "", ())]


@pytest.mark.parametrize("key", ["eps-1e-06", "eps-3e-05", "sample-variance", "no-beta", "no-gamma"])
def test_what_the_final_norm_computes_is_not_said_of_others(key):
    """A formula that is wrong in the final norm alone, line 10 not seen."""
    model, table, ref = build(GPT, places=without("10.10"))
    only(model, "ln_f", {key: 0})

    [(name, _, where, others)] = found(model, table, ref)

    assert (name, where, others) == (key, "in line 10 of Algorithm 10", ())


def test_what_hides_in_rounding_of_the_final_norm_is_not_said_of_layers():
    """The sample variance of the final norm, line 10 not seen, in bfloat16."""
    model, table, ref = build(GPT, places=without("10.10"), dtype=torch.bfloat16)
    only(model, "ln_f", {"sample-variance": 0})

    assert [(key, where) for key, _, where, _ in found(model, table, ref)] == [
        ("sample-variance", "outside of the layers")
    ]


FEW = {"10.3": "blocks.0.ln_1:in", "10.8[l=1]": "blocks.0:out", "10.8[l=2]": "blocks.1:out", "10.11": "head:out"}
LAST_UNSEEN = without("10.5[l=3]", "10.6[l=3]", "10.7[l=3]", "10.8[l=3]")


@pytest.mark.parametrize("places", [FEW, without("10.8[l=3]"), LAST_UNSEEN], ids=["few", "line", "layer"])
@pytest.mark.parametrize("dtype", DTYPES[:2])
@pytest.mark.parametrize("key", ["act-ReLU", "no-b_mlp2"])
def test_layers_that_agree_are_left_out(key, dtype, places):
    """What only the last layer does wrong, whose lines were not seen, or not by themselves."""
    model, table, ref = build(replace(GPT, faults={key: 3}), places=places, dtype=dtype)

    assert found(model, table, ref) == [(key, "line 8", "layer 3", ())]


def test_a_layer_between_that_agrees_is_left_out():
    """A mistake that was found once and explains more is not taken to be in a layer that agrees."""
    model, table, ref = build(GPT, places=FEW)
    for layer in ("0", "2"):
        only(model, f"blocks.{layer}.mlp", {"act-ReLU": 0})

    assert found(model, table, ref) == [("act-ReLU", "line 8", "layers 1, 3", ())]


def test_a_layer_that_is_never_run():
    """Attention and MLP of the last layer are left out, whose lines are then not seen; no other layer's are."""
    model, table, ref = build(replace(GPT, faults={"no-attention": 3, "no-mlp": 3}), places=LAST_UNSEEN)

    assert found(model, table, ref) == [
        ("no-attention", "line 6", "layer 3", ()),
        ("no-mlp", "line 8", "layer 3", ()),
    ]


@pytest.mark.parametrize("places", [LOGITS, FEW, without("10.8[l]")], ids=["logits", "few", "no line 8"])
def test_what_is_everywhere_is_still_said_of_all(places):
    """A mistake of every layer, seen in some lines, is one of every layer."""
    model, table, ref = build(replace(GPT, faults={"act-ReLU": 0}), places=places)

    assert found(model, table, ref) == [("act-ReLU", "line 8", "every layer", ())]


ENCODERS = [
    ("bert", encoders.BERT, "ln_h", {"eps-0.001": 0}, "9.11", "in line 11 of Algorithm 9"),
    ("seq2seq", encoders.SEQ2SEQ, "decoder.blocks.1.mlp", {"act-SiLU": 0}, "8.18[l=2]", "layer 2"),
    ("t5", encoders.T5, "decoder.ln_f", {"rms-eps-0.001": 0}, "8a.22", "in line 22 of Algorithm 8a"),
]


@pytest.mark.parametrize(("kind", "sizes", "module", "faults", "line", "where"), ENCODERS, ids=lambda p: str(p)[:8])
def test_in_encoders_too(kind, sizes, module, faults, line, where):
    """One line that was not seen, in a model whose other lines of that kind agree."""
    places = without(line, of=encoders.PLACES[kind])
    model, table, ref = encoders.build(sizes, places=places)
    only(model, module, faults)
    read = {"segments": SEGMENTS[:8] + [1] * 4} if kind == "bert" else {"context_tokens": Z}

    assert [(key, at, others) for key, _, at, others in found(model, table, ref, **read)] == [
        (next(iter(faults)), where, ())
    ]


def test_what_hides_in_one_layer_is_said_of_it():
    """In bfloat16, one line seen of each layer: a small mistake in the first one is not said of every layer."""
    places = {path: PLACES[path] for path in ("10.8[l]", "10.11")}
    model, table, ref = build(replace(LLAMA, faults={"act-GELU_tanh": 1}), places=places, dtype=torch.bfloat16)

    (fault,) = conform(model, ref, tokens=X, table=table, decoding=False).faults

    assert fault.where in ("layer 1", "at least in layer 1")

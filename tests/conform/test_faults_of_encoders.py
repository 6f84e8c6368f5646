"""Every mistake planted in an independent BERT, encoder-decoder and T5 is named; no right line is called wrong."""

import random
from dataclasses import replace

import pytest
import torch

from conform.ordinary_encoders import BERT, LOGITS, PLACES, SEQ2SEQ, T5, build
from transformulary.conform import conform
from transformulary.conform.mistakes import KNOWN
from transformulary.oracle.lines import line_at

X, Z = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5], [2, 7, 1, 8, 2, 8, 1, 8, 2, 8, 4, 5, 9, 0, 4, 5, 2, 3]
SEGMENTS = [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
KINDS = {"bert": (BERT, "9"), "seq2seq": (SEQ2SEQ, "8"), "t5": (T5, "8a")}
#: In some layer: what all models have.
EACH = ["act-SiLU", "act-GELU_tanh", "no-activation"]
SCALED = ["no-scale", "scale-no-root"]
BIASED = ["no-b_q", "no-b_v", "no-b_o", "no-b_mlp1", "no-b_mlp2", "sample-variance", "eps-outside", "no-beta",
          "rms-for-layer-norm", "eps-0.001"]  # fmt: skip
DECODER = ["no-mask", "mask-transposed", "mask-strict", "mask-ahead", "causal-in-cross", "causal-in-encoder",
           "memory-embeddings", "memory-unfinished", "memory-own", "cross-shares-weights",
           "self-shares-weights"]  # fmt: skip
LAYERED = {
    "bert": [*EACH, *SCALED, *BIASED, "q-v-swapped", "act-ReLU", "causal-in-encoder", "norm-1-for-2", "norm-2-for-1",
             "no-norm-6", "no-norm-8", "norm-twice-8", "whole-norm-6", "norm-over-tokens-8", "no-residual-5",
             "no-attention"],
    "seq2seq": [*EACH, *SCALED, *BIASED, *DECODER, "act-GELU", "norm-4-for-3", "norm-3-for-5", "no-norm-15",
                "no-norm-8", "no-residual-16", "no-residual-5", "no-attention-14", "norm-twice-19"],
    "t5": [*EACH, *DECODER, "act-GELU", "bucketed-scale-added", "bucketed-scale-no-root", "layer-norm-for-rms",
           "rms-eps-0.001", "rms-no-gamma", "rms-sample-variance", "no-norm-5", "no-norm-19", "no-residual-16",
           "residual-overwritten-18", "memory-unfinished-normed", "memory-unnormed",
           "attention-on-X-6", "attention-on-X-16", "norm-2-for-1"],
}  # fmt: skip
#: Of a line outside of the layers, or of all layers at once.  Of T5, another order of the lines is found in minutes.
WHOLE = {
    "bert": ["no-segments", "segments-swapped", "segments-first", "segments-last", "no-norm-3a", "norm-twice-3a",
             "no-positions", "positions-from-1", "embedding-scaled", "no-b_f", "no-transform", "no-norm-11",
             "tanh-for-activation", "no-b_u", "softmax-twice", "pre-norm", "norm-of-parts"],
    "seq2seq": ["embedding-unscaled", "embedding-scaled-twice", "no-positions", "positions-from-1",
                "positions-interleaved", "positions-t2t", "positions-scaled", "2h-exponent", "2h-sin-cos",
                "2h-base-1000", "2h-base-5000", "x-shifted", "no-start", "start-zero", "positions-after-z", "no-b_u",
                "start-2", "start-last","pre-norm", "pre-norm-encoder", "pre-norm-decoder"],
    "t5": ["buckets-backwards", "no-buckets", "buckets-up-to-64", "buckets-up-to-32", "buckets-one-way",
           "buckets-both-ways", "buckets-first-layer", "buckets-first-layer-16", "buckets-of-decoder",
           "buckets-of-encoder", "buckets-in-cross", "no-last-scale", "no-norm-10", "no-norm-22", "embedding-scaled"],
}  # fmt: skip


def mistake_of(kind, key):
    known = KNOWN[KINDS[kind][1]]
    found = {m.key: m for m in (*known.mistakes, *known.order)}
    stem, _, number = key.rpartition("-")
    if key not in found:
        return next(m for k, m in found.items() if m.having and k.startswith(stem)).having(float(number))
    return found[key]


def layer_of(kind, key, rng):
    """A layer that has the line of a fault; 0 for a fault of all, or of none."""
    if key in WHOLE[kind]:
        return 0
    line = mistake_of(kind, key).line
    whole = line.partition(".")[0] == KINDS[kind][1]
    encoder = whole and line_at(line).layers in ("L", "L_enc")
    return rng.randint(1, 2 if encoder or kind == "bert" or not whole else 3)


def report_of(kind, faults, places=None):
    model, table, ref = build(replace(KINDS[kind][0], faults=faults), places=places)
    read = {"segments": SEGMENTS} if kind == "bert" else {"context_tokens": Z}
    return conform(model, ref, tokens=X, table=table, decoding=False, **read)


def named(report, mistake):
    """Whether the one fault is this mistake, or cannot be told from it."""
    return len(report.faults) == 1 and (report.faults[0].key == mistake.key or mistake.says in report.faults[0].others)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("view", [None, LOGITS], ids=["all lines", "logits"])
def test_no_false_alarm(kind, view):
    """The same code without a fault agrees in every line."""
    report = report_of(kind, {}, view and view[kind])

    assert report.status == 0
    assert report.agreement < 1e-14


CASES = [(kind, key) for kind in KINDS for key in (*LAYERED[kind], *WHOLE[kind])]


@pytest.mark.parametrize(("kind", "key"), CASES)
def test_a_mistake_is_named(kind, key):
    """A mistake at random depth, all lines seen: its name, its layer, and nothing else; the rest agrees to rounding."""
    layer, mistake = layer_of(kind, key, random.Random(f"{kind} {key}")), mistake_of(kind, key)

    report = report_of(kind, {key: layer})

    assert named(report, mistake), report
    of = f"Algorithm {mistake.line.partition('.')[0]}, line"
    assert report.faults[0].line.startswith(of) or report.faults[0].key != mistake.key
    assert f"layer {layer}" in report.faults[0].where or not layer
    assert report.agreement < 1e-11


#: Of the others, all were tried by hand on 2026-11-30; they take minutes.
ALONE = [
    *(case for case in CASES if case[0] == "bert"),
    *(
        ("seq2seq", key)
        for key in ("memory-own", "cross-shares-weights", "no-mask", "x-shifted", "positions-interleaved")
    ),
    *(("t5", key) for key in ("buckets-both-ways", "no-last-scale", "buckets-backwards")),
]


@pytest.mark.parametrize(("kind", "key"), ALONE)
def test_logits_alone_are_enough(kind, key):
    """From the last line alone, the mistake and its layer."""
    layer, mistake = layer_of(kind, key, random.Random(f"{kind} {key}")), mistake_of(kind, key)

    report = report_of(kind, {key: layer}, LOGITS[kind])

    assert named(report, mistake), report
    assert report.agreement < 1e-11


@pytest.mark.parametrize("beside", ["embedding-unscaled", "positions-from-1", "2h-sin-cos"])
def test_a_memory_is_of_the_run_itself(beside):
    """Cross-attention that reads the embeddings reads the candidate's, wrong as they are: both mistakes are named."""
    report = report_of("seq2seq", {"memory-embeddings": 0, beside: 0})

    assert {fault.key for fault in report.faults} == {"memory-embeddings", beside}, report
    assert report.agreement < 1e-11


def test_ids_that_nobody_gave_begin_with_the_start_token():
    """A forward that shifts x itself, with the model's start token first, is named also where no ids are given."""
    model, table, ref = build(SEQ2SEQ)
    start = 7
    model.register_forward_pre_hook(
        lambda _, read: (read[0], torch.cat([torch.full_like(read[1][:, :1], start), read[1][:, :-1]], 1))
    )

    report = conform(model, replace(ref, start=start), table=table, decoding=False)

    assert (report.tokens[0], [fault.key for fault in report.faults]) == (start, ["x-shifted"])


def test_what_a_line_that_agrees_contradicts_is_not_said():
    """BERT's head without its norm, the projection seen: the norm alone is missing."""
    places = {line: place for line, place in PLACES["bert"].items() if line != "9.11"} | {"9.10": "ln_h:in"}

    reports = [report_of("bert", {"no-norm-11": 0}, some) for some in (places, LOGITS["bert"])]

    assert [[fault.key for fault in report.faults] for report in reports] == [["no-norm-11"]] * 2
    assert "projection and its norm" not in reports[0].answer[0]

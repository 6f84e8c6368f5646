"""Every known mistake, planted by hand in ordinary PyTorch code, is named; nothing is wrongly named."""

import random
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from conform.ordinary import GEMMA, GPT, LLAMA, NEO, PLACES, QWEN, WIDE, build
from transformulary.conform import diagnosis
from transformulary.conform.mistakes import BY_KEY, MISTAKES, ORDER
from transformulary.conform.reference import reference
from transformulary.conform.run import conform
from transformulary.oracle import record
from transformulary.oracle.watch import LAYERS

X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
FEW_TOKENS = [5, 5, 23]
ROW = torch.tensor([3])
KINDS = {"gpt": GPT, "llama": LLAMA, "neo": NEO, "gemma": GEMMA, "qwen": QWEN, "wide": WIDE}
#: With these sizes they change no number: the same mathematics, or far below rounding.
NO_DIFFERENCE = {
    "mask-finite-100": "exp(-100) is far below rounding",
    "no-b_k": "without rotation it shifts all scores of a query alike",
    "mask-added-100": "exp(-100) is far below rounding",
    "mask-added-10000": "the same",
    "rope-from-1": "attention compares queries and keys, and both are turned alike",
    "rope-from-2": "the same",
    "eps-1e-05": "the GPT's own",
    "rms-eps-1e-06": "the Llama's own",
}
LAYERED = ("10.5", "10.6", "10.7", "10.8")
LLAMAS = ("4r", "6r")
ONLY_LLAMA = {"groups-by-remainder", "keys-by-remainder", "values-by-remainder", "multi-query",
              "gate-up-swapped", "gated-mlp-on-X", "no-gate", "rope-on-v", "act-GELU_tanh"}  # fmt: skip
KIND = {"rope-half": "wide", "rope-quarter": "wide", "scale-added": "neo", "embedding-unscaled": "gemma",
        "W_u-tied": "llama"}  # fmt: skip
#: Mistakes whose number the table does not have.
NUMBERS = [BY_KEY[key].having(number) for key, number in (
    ("rope-base-10000", 137000), ("rope-base-10000", 26789.0123), ("rope-slower-4", 3.2), ("scale-by-8", 3.3),
    ("mask-finite-10", 7.3), ("mask-unscaled-10", 15), ("mask-added-10", 7), ("window-4", 3),
    ("eps-1e-05", 3e-5), ("rms-eps-1e-06", 1e-4),
    ("scores-capped-50", 20), ("logits-capped-30", 12.5), ("logits-divided-2", 0.7), ("residual-by-6-0.5", 0.22),
)]  # fmt: skip
TOLD = [m for m in (*MISTAKES, *NUMBERS) if m.key not in NO_DIFFERENCE]


def kind_of(mistake):
    llama = mistake.line.split(".")[0] in LLAMAS or mistake.key in ONLY_LLAMA or mistake.line in ("4.3a", "4.3b")
    if mistake.line in ("4.1a", "4.2a"):
        return "qwen"
    return KIND.get(mistake.key, "llama" if llama else "gpt")


def layer_of(mistake, rng):
    """A layer in which the mistake changes something, 0 for a line outside of the layers."""
    if mistake.key.startswith("window"):
        return 2  # the one with a window
    return rng.choice([1, 2, 3]) if layered(mistake) else 0


def layered(mistake):
    return not mistake.line.startswith("10.") or mistake.line in LAYERED


def report_of(kind, faults, places=None, dtype=torch.float64):
    model, table, ref = build(replace(KINDS[kind], faults=faults), places=places or PLACES, dtype=dtype)
    return conform(model, ref, tokens=X, table=table, decoding=False)


@pytest.mark.parametrize("kind", KINDS)
def test_no_false_alarm(kind):
    """The same code without a fault agrees in every line."""
    report = report_of(kind, {})

    assert report.status == 0
    assert report.agreement < 1e-14


@pytest.mark.parametrize("kind", ["gpt", "llama"])
def test_what_no_precision_shows_is_not_hidden(kind):
    """What changes nothing in float64 either is not listed as something that float64 would show."""
    report = report_of(kind, {}, dtype=torch.float32)

    assert not {BY_KEY[key].says for key in NO_DIFFERENCE} & set(report.invisible)


def test_what_float32_may_err():
    """A line of a right float32 model is allowed some tens of roundings, not hundreds."""
    report = report_of("gpt", {}, dtype=torch.float32)

    assert report.status == 0
    assert max(row.allowed for row in report.rows if row.compared) < 100 * 2.0**-24


@pytest.mark.parametrize("mistake", TOLD, ids=lambda m: m.key)
def test_a_mistake_is_named(mistake):
    """A mistake in one layer: its line, its layer, its name, and nothing else; the rest agrees to rounding."""
    layer = 2 if layered(mistake) else 0

    report = report_of(kind_of(mistake), {mistake.key: layer})

    assert [fault.key for fault in report.faults] == [mistake.key] or mistake.says in report.faults[0].others
    number, _, label = mistake.line.partition(".")
    lines = "lines 5 and 7" if mistake.lines else f"line {label}"
    assert report.faults[0].line == f"Algorithm {number}, {lines}"
    assert "layer 2" in report.faults[0].where or not layer
    assert report.agreement < 1e-11


@pytest.mark.parametrize("key", ["no-b_o", "act-ReLU", "norm-twice", "eps-outside"])
def test_a_mistake_everywhere_is_one_fault(key):
    """The same mistake in every layer is reported once."""
    report = report_of("gpt", {key: 0})

    assert [(fault.key, fault.where.endswith("every layer")) for fault in report.faults] == [(key, True)]


def pairs(n, seed=0):
    """Random pairs of mistakes of one kind of model, each in some layer."""
    rng, found = random.Random(seed), []
    while len(found) < n:
        a, b = rng.sample(TOLD, 2)
        if kind_of(a) == kind_of(b) and a.line != b.line:
            found.append((kind_of(a), {m.key: layer_of(m, rng) for m in (a, b)}))
    return found


@pytest.mark.parametrize(("kind", "faults"), pairs(10), ids=lambda p: "+".join(p) if isinstance(p, dict) else p)
def test_two_mistakes_are_both_named(kind, faults):
    """Of two mistakes at once both are named, or what is the same for these numbers, and nothing else is."""
    names = {m.key: m.says for m in TOLD}

    report = report_of(kind, faults)

    found = [{fault.key} | {key for key in faults if names[key] in fault.others} for fault in report.faults]
    assert [len(keys & set(faults)) for keys in found] == [1, 1]
    assert set().union(*found) >= set(faults)


@pytest.mark.parametrize(("kind", "faults"), [
    ("gpt", {"eps-3e-05": 2, "no-gamma": 2}), ("gpt", {"scale-by-3.3": 2, "no-b_o": 2}),
    ("gpt", {"scale-by-3.3": 2, "mask-strict": 2}), ("llama", {"rms-eps-0.0001": 0, "rms-gamma-plus-1": 0}),
    ("llama", {"rope-base-137000": 2, "groups-by-remainder": 2}), ("gpt", {"eps-3e-05": 0, "sample-variance": 0}),
], ids=lambda p: "+".join(p) if isinstance(p, dict) else p)  # fmt: skip
def test_any_number_is_found_beside_another_mistake_of_its_line(kind, faults):
    """Both are named, the number exactly, and nothing else."""
    report = report_of(kind, faults)

    assert {fault.key for fault in report.faults} == set(faults)
    assert report.agreement < 1e-11


LOGITS = {"10.11": "head:out"}


#: What ordinary modules show by themselves: no sum of X and what attention adds.
OUTPUTS = {path: place for path, place in PLACES.items() if path not in ("10.3", "10.6[l]", "10.10")}


@pytest.mark.parametrize("faults", [
    {"no-scale": 0}, {"mask-strict": 2}, {"no-b_o": 1, "act-GELU": 1}, {"positions-from-1": 0, "act-ReLU": 0},
    {"q-k-swapped": 3, "no-b_mlp2": 3}, {"eps-outside": 0},
], ids="+".join)  # fmt: skip
def test_what_an_unseen_line_adds_is_still_in_what_follows(faults):
    """Where line 7 is seen and line 6 is not, a mistake of line 6 is no second mistake of line 8."""
    report = report_of("gpt", faults, OUTPUTS)

    assert {fault.key for fault in report.faults} == set(faults)
    assert report.agreement < 1e-12


def test_one_mistake_in_lines_seen_and_unseen():
    """A norm's mistake that shows at its own line and, unseen, within another is one, and no other's alternative."""
    faults = {"layer-norm-for-rms": 3, "rope-exponent": 3}

    report = report_of("llama", faults, OUTPUTS)

    assert [(fault.key, fault.others) for fault in report.faults] == [(key, ()) for key in faults]


def test_what_explains_as_much_is_said_as_long_as_it_does():
    """A mistake seen in two values keeps the alternative that explains both: here the layer's window hides the NaN."""
    (fault,) = report_of("gpt", {"mask-inverted-nan": 2}, OUTPUTS).faults

    assert len(fault.paths) == 2
    assert {fault.says, *fault.others} == {BY_KEY[key].says for key in ("mask-inverted", "mask-inverted-nan")}


@pytest.mark.parametrize("key", ["act-GELU", "no-scale", "W_o-transposed", "positions-from-1", "sample-variance"])
def test_logits_alone_are_enough(key):
    """From the last line alone the mistake and its layer are named, and what was not seen is said."""
    mistake = next(m for m in MISTAKES if m.key == key)
    layer = 1 if layered(mistake) else 0

    report = report_of("gpt", {key: layer}, LOGITS)

    assert [fault.key for fault in report.faults] == [key]
    assert report.unseen == ("2", "3", "5", "6", "7", "8", "10")


@pytest.mark.parametrize(
    ("kind", "key"), [("gpt", "eps-1e-06"), ("gpt", "sample-variance"), ("llama", "rms-eps-0.0002")]
)
def test_norms_of_the_layers_that_are_not_the_final_one_are_named(kind, key):
    """A norm that only the layers use, seen in the logits alone: what is wrong in it; the final one is right."""
    report = report_of(kind, {key: LAYERS}, LOGITS)

    assert [(fault.key, fault.where) for fault in report.faults] == [(key, "every layer, but not the final norm")]


@pytest.mark.parametrize("key", ["eps-1e-06", "eps-3e-05", "sample-variance", "rms-for-layer-norm"])
@pytest.mark.parametrize(
    ("name", "where"),
    [("blocks.1.ln_2", "in line 7 of Algorithm 10, layer 2"), ("ln_f", "in line 10 of Algorithm 10")],
    ids=["in a layer", "final"],
)
def test_one_norm_alone_is_named(key, name, where):
    """What is wrong in one norm only, seen in the logits alone: its line, its layer, and nothing else."""
    model, table, ref = build(GPT, places=LOGITS)
    norm, faulty = model.get_submodule(name), replace(GPT, faults={key: 0})
    norm.has, norm.number = partial(faulty.has, 1), partial(faulty.number, 1)

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert [(fault.key, fault.where, fault.others) for fault in report.faults] == [(key, where, ())]
    assert report.agreement < 1e-11


@pytest.mark.parametrize(("key", "layer", "says"), [
    ("whole-norm", 0, "Algorithm 10, lines 5 and 7 and 10, every layer: mean and"),
    ("norm-twice", 2, "Algorithm 10, lines 5 and 7, layer 2: the norm is applied twice"),
    ("norm-twice-7", 2, "Algorithm 10, line 7, layer 2: the norm is applied twice"),
    ("no-norm-10", 0, "Algorithm 10, line 10: the norm is missing"),
])  # fmt: skip
@pytest.mark.parametrize("view", [None, LOGITS], ids=["all lines", "logits"])
def test_a_norm_that_is_wrong_wherever_it_is_called_is_one_fault(view, key, layer, says):
    """What is wrong in every norm, in those of a layer, or in one, is one fault that says so; lines seen or not."""
    (fault,) = report_of("gpt", {key: layer}, view).faults

    assert str(fault).startswith(says)
    assert fault.others == ()


@pytest.mark.parametrize("view", [None, LOGITS], ids=["all lines", "logits"])
@pytest.mark.parametrize("key", ["no-attention", "no-mlp"])
def test_what_one_layer_leaves_out_is_named(key, view):
    """A layer that returns before its attention, or its MLP, is right in its other lines."""
    report = report_of("gpt", {key: 3}, view)

    assert [(fault.key, fault.where) for fault in report.faults] == [(key, "layer 3")]
    assert report.agreement < 1e-11


@pytest.mark.parametrize("view", [None, LOGITS], ids=["all lines", "logits"])
@pytest.mark.parametrize("order", ORDER, ids=lambda m: m.key)
def test_another_order_of_the_lines_is_named(order, view):
    """Post-norm is one fault of the whole model; a second mistake beside it is found as well."""
    report = report_of("gpt", {order.key: 0, "no-mask": 0}, view)

    assert [fault.key for fault in report.faults] == [order.key, "no-mask"]
    assert report.agreement < 1e-11


@pytest.mark.parametrize("order", ORDER, ids=lambda m: m.key)
def test_another_order_alone_is_enough_in_a_low_precision(order):
    """In bfloat16 nothing is named beside post-norm because with it a little less of the rounding is left."""
    report = report_of("gpt", {order.key: 0}, dtype=torch.bfloat16)

    assert [(fault.key, fault.others) for fault in report.faults] == [(order.key, ())]


def test_a_pair_seen_in_the_logits_alone_is_named():
    """Two mistakes in different layers are both named from the last line."""
    report = report_of("gpt", {"no-b_o": 1, "act-GELU": 3}, LOGITS)

    assert {(fault.key, fault.where) for fault in report.faults} == {("no-b_o", "layer 1"), ("act-GELU", "layer 3")}


@pytest.mark.parametrize("layer", [0, 3])
def test_a_fault_below_the_rounding_of_single_values_is_found(layer):
    """The sample variance, in bfloat16: no value shows it, the pattern of all of them does, and where."""
    report = report_of("gpt", {"sample-variance": layer}, dtype=torch.bfloat16)

    assert [fault.key for fault in report.faults] == ["sample-variance"]
    assert report.faults[0].where.endswith("layer 3" if layer else "every layer")
    assert "hidden in the rounding" in report.faults[0].says
    assert all(row.status == "agrees" for row in report.rows)


@pytest.mark.parametrize("key", ["eps-1e-06", "norm-in-half", "act-GELU", "mask-finite-10"])
def test_what_cannot_be_seen_is_said(key):
    """A fault too small for bfloat16 is not reported as absent: it stands among what cannot be told from rounding."""
    report = report_of("gpt", {key: 3}, dtype=torch.bfloat16)

    assert report.status == 0
    assert next(m.says for m in MISTAKES if m.key == key) in report.invisible


@pytest.mark.parametrize("faults", [{"no-b_o": 2}, {"positions-from-1": 0, "sample-variance": 0}], ids="+".join)
def test_a_fault_hidden_in_the_rounding_of_the_logits_is_found(faults):
    """In bfloat16, with the logits alone: the pattern of their differences names it, also beside one that shows."""
    report = report_of("gpt", faults, LOGITS, torch.bfloat16)

    assert {fault.key for fault in report.faults} == set(faults)
    assert "hidden in the rounding" in report.faults[-1].says


def test_two_mistakes_and_their_rounding():
    """In float32, behind two mistakes that show in the logits, one run's rounding looks like a third; others do not."""
    report = report_of("gpt", faults := {"parallel-norm": 1, "act-ReLU2": 2}, LOGITS, torch.float32)

    assert {fault.key for fault in report.faults} == set(faults)


@pytest.mark.parametrize("key", ["act-GELU", "eps-1e-06", "sample-variance", "norm-of-half", "mask-finite-10"])
def test_what_the_logits_hide_is_said(key):
    """A fault too small to be found in logits of bfloat16 is listed, with the way to see it."""
    report = report_of("gpt", {key: 0}, LOGITS, torch.bfloat16)

    assert not report.faults
    assert any(hidden.startswith(BY_KEY[key].says) for hidden in report.invisible)
    assert report.answer[-1].endswith("Compute in float64 to see them (a PyTorch model: model.double()).")


@pytest.mark.parametrize(("kind", "seed"), [("llama", 2), ("gemma", 2), ("gpt", 1), ("qwen", 3)])
def test_rounding_of_few_tokens_is_no_fault(kind, seed):
    """Of a right model, the rounding of three tokens' logits resembles no mistake with confidence."""
    model, table, ref = build(KINDS[kind], seed, LOGITS, torch.bfloat16)

    report = conform(model, ref, tokens=FEW_TOKENS, table=table, decoding=False)

    assert report.status == 0, report


def test_a_model_too_large_to_try_is_not_passed(monkeypatch):
    """Where the mistakes of unseen lines would take too long to try, the report says that they were not."""
    monkeypatch.setattr(diagnosis, "WORK", 0)

    report = report_of("gpt", {}, LOGITS, torch.float32)

    assert report.answer[1].startswith(
        "Rounding: any mistake in lines 2, 3, 5, 6, 7, 8, 10, 11 that hides in rounding: not"
    )


def test_a_wrong_value_inside_a_right_line():
    """A line whose inner value was seen is judged with what was seen: nothing unrelated is named."""
    ref = reference("gpt2")
    line = "10.6[l=1]/5.2[h=1]/4.6"
    values = record("DTransformer", X, ref.theta, ref.config)
    seen = {path: np.array(values[path]) for path in (line, f"{line}:softmax", "10.6[l=1]")}
    seen[f"{line}:softmax"][0, 3] += 0.1

    report = conform(seen, ref, tokens=X)

    assert [(fault.key, fault.paths) for fault in report.faults] == [("", (f"{line}:softmax",)), ("", (line,))]


@pytest.mark.parametrize(("norm", "reads", "line"), [("ln_1", "attn", "6"), ("ln_2", "mlp", "8")])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_a_line_reads_may_not_be_what_is_shown(norm, reads, line, dtype):
    """A norm's module is right, and what is made of its value before the next line: the mistake is of the norm."""
    model, table, ref = build(GPT, dtype=dtype)
    for block in model.blocks:
        beta = block.get_submodule(norm).bias
        block.get_submodule(reads).register_forward_pre_hook(lambda _, given, beta=beta: (given[0] - beta,))

    (fault,) = conform(model, ref, tokens=X, table=table, decoding=False).faults

    assert (fault.key, fault.where) == ("no-beta", f"in line {int(line) - 1} of Algorithm 10, every layer")
    assert f"in what line {line} reads (what is shown of line {int(line) - 1} agrees)" in fault.says


def test_an_unknown_difference_is_called_that():
    """What no known mistake explains is described and not named."""
    model, table, ref = build(GPT)
    model.blocks[1].mlp.register_forward_hook(lambda module, given, y: y.index_add(-1, ROW, 0.01 * y[..., 4:5]))

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert [(fault.key, fault.line, fault.where) for fault in report.faults] == [
        ("", "Algorithm 10, line 8", "layer 2")
    ]
    assert "no known mistake explains it: rows 4 of 24 differ" in report.faults[0].says
    assert report.agreement is None

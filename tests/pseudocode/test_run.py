"""The page of a run, executed by a reader who knows nothing but its text, computes what the oracle computes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from oracle.test_practice import Given, TorchChance
from pseudocode import print_reader
from pseudocode.page_reader import Book
from pseudocode.test_pages import from_one
from transformulary import oracle
from transformulary.oracle.theta import Theta
from transformulary.paper import DTransformerConfig, ETransformerConfig, Inference, Training
from transformulary.paper.practice import Limits, Practice
from transformulary.pseudocode import FORMATS, render, run
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.describe import printer
from transformulary.pseudocode.nodes import Document
from transformulary.pseudocode.specialise import Program

CONFIG = DTransformerConfig(N_V=6, ell_max=4, L=1, H=1, d_e=2, d_mlp=2, eps=1e-3)
SIZES = {"N_V": 6, "ell_max": 9, "L": 1, "H": 1, "d_e": 2, "d_mlp": 2, "eps": 1e-3}
TEXTS = [[4, 0, 1, 2, 5, 3, 3, 1, 0], [4, 2, 5], [1, 1, 0, 2, 2, 4]]
USUAL = Training(N_steps=3, N_batch=2, chunks=True, shuffle=True, loss="tokens", optimiser="adamw", epsilon=1e-4)
RUNS = {
    "everything": replace(
        USUAL, N_acc=2, decay=0.1, g_max=0.5, eta_embedding=3.0, schedule="cosine", eta_floor=0.2, N_warmup=2, N_total=4
    ),
    "by the clock": replace(USUAL, schedule="linear", N_warmup=2, T_total=10.0, N_total=3),
    "momentum": replace(USUAL, optimiser="momentum", nesterov=True, decay=0.1),
    "RMSProp": replace(USUAL, optimiser="rmsprop", loss="sequences"),
    "AdaGrad": replace(USUAL, optimiser="adagrad", loss="sum", alpha=0.1),
    "dropout, label smoothing": replace(USUAL, p_drop=0.25, alpha=0.1, optimiser="adam", decay=0.1, eta_embedding=2.0),
    "SGD": replace(USUAL, optimiser="sgd", g_max=1.0, chunks=False, shuffle=False, N_batch=1, loss="sum"),
}


def book(practice, form="text", **told):
    """The pages of a run, as a reader of that format has them."""
    return Book(print_reader.pages(form, run(CONFIG, practice, form)), CONFIG, **told)


@pytest.mark.parametrize("form", ["text", "latex", "html"])
@pytest.mark.parametrize("name", [name for name in RUNS if not RUNS[name].p_drop])
def test_training_as_printed(name, form):
    """Three steps as printed, with the same random numbers, end at the oracle's theta, to rounding."""
    how, clock = RUNS[name], [0.0, 1.5, 4.0]
    config = replace(CONFIG, ell_max=4 if how.chunks else 9)
    start = oracle.random_theta(config, np.random.default_rng(3))
    pages = print_reader.pages(form, run(config, Practice(training=how, told={"eta": 0.05}), form))
    printed = Book(pages, config, rng=TorchChance(len(TEXTS), 5), clock=clock)

    theta_hat = printed.run("DTraining", from_one(TEXTS), start)

    ours = oracle.DTraining(TEXTS, start, config, how, eta=0.05, rng=TorchChance(len(TEXTS), 5), clock=clock)
    for (place, array), theirs in zip(theta_hat.items(), ours.leaves(), strict=True):
        np.testing.assert_allclose(array, theirs, rtol=0, atol=1e-12, err_msg=place)


MASKED = {
    "BERT's masks": Training(N_steps=3, N_batch=2, masking="bert", special=(5,)),
    "BERT's masks, one by one": Training(masking="bert", special=(5,)),
    "BERT's masks, Adam, mean": Training(N_steps=3, N_batch=2, masking="bert", loss="tokens", optimiser="adam"),
    "the paper's masks": Training(N_steps=3, N_batch=2, N_acc=2, loss="sequences", shuffle=True),
}


@pytest.mark.parametrize("form", ["text", "latex", "html"])
@pytest.mark.parametrize("name", MASKED)
def test_masked_training_as_printed(name, form):
    """Whatever is practised of Algorithm 12, what is printed gives the oracle's theta: masked texts have all tokens."""
    how, config = MASKED[name], ETransformerConfig(**SIZES)
    given, start = {"eta": 0.05, "p_mask": 0.4}, oracle.random_theta(config, np.random.default_rng(3))
    program = Program(config, numbers=True, practice=Practice(training=how, told=given))
    boxes = tuple(box(program, one) for one in program.executed_by("12"))
    pages = print_reader.pages(form, printer(form).document(Document(boxes)))
    more = {"p_mask": 0.4, "mask_token": 6, "special": {v + 1 for v in how.special}, "N_epochs": 1}
    printed = Book(pages, config, rng=np.random.default_rng(7), **more)

    theta_hat = printed.run("ETraining", from_one(TEXTS), start)

    ours = oracle.ETraining(TEXTS, start, config, how, **given, mask_token=5, rng=np.random.default_rng(7))
    for (place, array), theirs in zip(theta_hat.items(), ours.leaves(), strict=True):
        np.testing.assert_allclose(array, theirs, rtol=0, atol=1e-12, err_msg=place)


@pytest.mark.parametrize("form", ["text", "latex", "html"])
@pytest.mark.parametrize(
    ("tau", "how"),
    [
        (0.8, Inference()),
        (1, Inference(top_k=3)),
        (0.7, Inference(top_k=4, top_p=0.8, stop=(3,), limit=True)),
        (0, Inference(stop=(0, 1), limit=True)),
    ],
)
def test_inference_as_printed(tau, how, form):
    """Tokens drawn as printed, with the same uniform numbers, are the oracle's."""
    texts = []
    for seed in range(4):
        start = oracle.random_theta(CONFIG, np.random.default_rng(seed), scale=1.0)
        uniform = np.random.default_rng(seed).random(9).tolist()
        ell_gen = 9 if how.limit else 3
        practice, stop = Practice(inference=how, told={"tau": tau, "ell_gen": ell_gen}), {v + 1 for v in how.stop}
        printed = book(practice, form, rng=Given(*uniform), stop=stop)

        y = printed.run("DInference", from_one([[1, 2]])[0], start)

        ours = oracle.DInference([1, 2], start, CONFIG, how, ell_gen=ell_gen, tau=tau, rng=Given(*uniform))
        texts.append((from_one([ours])[0], y))

    assert all(ours == y for ours, y in texts)


def test_dropout_is_printed():
    """A run with dropout prints where entries are dropped and how likely; without, nothing is said of it."""
    page = run(CONFIG, Practice(training=replace(USUAL, p_drop=0.25)))

    assert [row for row in page.splitlines() if "dropout(" in row] == [
        "   6  return Ṽ = V dropout(softmax(S/√2))",
        "   4  return Ṽ = dropout(W_o Y + b_o 1ᵀ)",
        "  3b  X ← dropout(X)",
        "   8      X ← X + dropout(W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ)",
        "    dropout(X) is X with each entry 0 with probability 0.25 and else divided by 1 − 0.25,",
    ]
    assert "drop" not in run(CONFIG, Practice(training=USUAL))


@pytest.mark.parametrize("name", RUNS)
def test_latex_is_ascii(name):
    """Lines, definitions and notes of a run in LaTeX need no package for their letters."""
    practice = Practice(training=RUNS[name], inference=Inference(top_k=3, top_p=0.5, stop=(1,)))

    page = run(CONFIG, practice, "latex")

    assert page.isascii()
    where = page.partition(r"\noindent where")[2]
    assert r"$\mathrm{likeliest}(\boldsymbol{p}, \allowbreak a)$ is $\boldsymbol{p}$ on its $a$ most" in where
    assert r"\textbf" not in where


def test_each_session_has_its_schedule():
    """A schedule whose limits changed is printed once for each part of the run, in HTML under names of their own."""
    practice = Practice(
        training=replace(USUAL, N_steps=9, N_total=9, schedule="linear"),
        sessions=(Limits(1, 4, 0.0), Limits(5, 0, 2.0)),
    )

    page, shown = run(CONFIG, practice), run(CONFIG, practice, "html")

    found = re.findall(r"Algorithm 13e: .*\n    Input: i ∈ (.*)\n(?:    .*\n)+   . *\d? *(.*)", page)
    assert [("{1}", "max(0, i/5)"), ("{2, …, 5}", "0"), ("{6, …, 9}", "max(0, i/10)")] == [
        (steps, line.removeprefix("a ← ")) for steps, line in found
    ]
    assert "clock[i] is the time of training before step i, in seconds" in page
    assert ["-1", "-2", "-3"] == re.findall(r'id="algorithm-13e(.*?)"', shown)


def test_practised_masks_are_printed():
    """BERT's masking replaces lines 4 to 7 of Algorithm 12; its other lines keep their numbers."""
    practice = Practice(training=Training(N_steps=2, masking="bert", loss="tokens"))

    page = render(12, practice=practice)

    labels = [row[:4].strip() for row in page.splitlines() if row[4:6] == "  " and row[:4].strip()]
    assert "corrupted(v, mask_token, N_V) is mask_token with probability 0.8" in page
    assert " ".join(labels) == "0a 1 1a 1b 1c 2 3 3a 3b 4 5 6 8 9 10 10a 11 11a 11b 12 13"
    assert "  3a          T̃ ← chosen(x_n, p_mask, special)" in page


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", RUNS)
def test_what_is_off_leaves_no_trace(name, form):
    """A page says nothing of a choice that the run did not make: no infinity, no 0 to multiply with, no empty list."""
    page = run(CONFIG, Practice(training=RUNS[name], told={"eta": 0.05, "tau": 1, "ell_gen": 2}), form)

    assert "None" not in page
    assert "how." not in page
    if RUNS[name].optimiser in ("momentum", "sgd"):
        assert "Adam" not in page.replace("AdaGrad", "")


@pytest.mark.parametrize(("name", "space"), [("everything", "(ℝ^d)²"), ("momentum", "ℝ^d"), ("AdaGrad", "ℝ^d")])
def test_what_an_optimiser_remembers(name, space):
    """Adam remembers two points of the space of theta, the others one: so it stands in the boxes."""
    page = run(CONFIG, Practice(training=RUNS[name]))

    assert set(re.findall(r"ω ∈ (.+?)(?:,|$)", page, re.MULTILINE)) == {space}


def test_a_constant_rate_has_no_way_down():
    """No line of Algorithm 13e computes what none reads: without a way down it has none, without a way up no lines."""
    up = run(CONFIG, Practice(training=replace(USUAL, N_warmup=5, N_total=9, T_total=3.0, schedule="constant")))
    flat = run(CONFIG, Practice(training=replace(USUAL, N_total=9, T_total=3.0, schedule="constant")))

    rate = up.partition("Algorithm 13e")[2].partition("Algorithm")[0]
    assert [row[:4].strip() for row in rate.splitlines() if row[4:6] == "  " and row[:4].strip()] == ["3", "4", "5"]
    assert "learning_rate" not in flat
    assert "clock" not in flat


def test_the_paper_is_the_default():
    """Without practice a run is the paper's: the lines of Algorithms 13 and 14 are printed as they are there."""
    page = run(CONFIG, Practice())

    for number in (13, 14):
        lines = [row for row in render(number).splitlines() if row[4:6] == "  " and row[:4].strip()]
        assert all(row in page for row in lines), number


def test_theta_is_only_changed_by_what_is_printed():
    """Theta of one printed step by hand: SGD, one sequence, summed loss, clipped to norm 1."""
    how = replace(RUNS["SGD"], N_steps=1)
    config = replace(CONFIG, ell_max=9)
    start = oracle.random_theta(config, np.random.default_rng(3))

    ours = oracle.DTraining(TEXTS, start, config, how, eta=0.05)

    step = oracle.DTraining(TEXTS[:1], start, config, eta=1.0) - start
    size = np.sqrt(sum((a**2).sum() for a in step.leaves()))
    assert isinstance(step, Theta)
    for array, by_hand in zip(ours.leaves(), (start + 0.05 / max(1, size) * step).leaves(), strict=True):
        np.testing.assert_allclose(array, by_hand, rtol=0, atol=1e-14)

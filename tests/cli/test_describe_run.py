"""`transformulary describe FOLDER --run`: what is printed is what was done."""

import itertools
import json
import re
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch
from safetensors import safe_open

from formats.least import LEAST
from oracle.test_practice import TorchChance
from pseudocode import print_reader
from pseudocode.page_reader import Book
from pseudocode.test_pages import from_one
from pseudocode.test_tex import complaints
from transformulary import __version__
from transformulary.cli import main
from transformulary.conform.theta import theta_of
from transformulary.data import Batches, Documents, corpus
from transformulary.formats.state import checksum
from transformulary.models import load
from transformulary.paper.settings import TrainingSettings
from transformulary.pseudocode import FORMATS
from transformulary.train import initial_model, load_state
from transformulary.train.checkpoint import raw, save_state

TEXTS = ["abcab bca", "cab", "bca abba ccab"]
OPTIONS = [
    *("--tokenizer", "characters", "--held-out", "0", "--precision", "float64", "--threads", "1", "--steps", "2"),
    *("--L", "1", "--H", "1", "--d-e", "2", "--d-mlp", "2", "--ell-max", "6", "--batch", "2", "--accumulate", "2"),
    *("--eta", "0.05", "--eta-embedding", "2", "--epsilon", "0.001", "--warmup", "1", "--clip", "0.25", "--seed", "4"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model that was trained by the command line."""
    place = tmp_path_factory.mktemp("run")
    for n, words in enumerate(TEXTS):
        (place / f"{n}.txt").write_text(words, encoding="utf-8")
    assert main(["train", *(str(place / f"{n}.txt") for n in range(3)), "--out", str(place / "out"), *OPTIONS]) == 0
    return place / "out"


@pytest.fixture
def said(capsys):
    """The function that runs a command and gives its exit status, stdout and stderr."""

    def run(*argv):
        status = main([str(word) for word in argv])
        return status, *capsys.readouterr()

    return run


def executed(folder, page, texts=TEXTS, held_out=0.0, **told):
    """(theta that a reader of the page alone arrives at, theta of the checkpoint, theta at the start).

    The reader has the text, the first parameters and the random numbers; windows, order, batches, optimiser with its
    constants, schedule and steps are read from the printed lines.
    """
    loaded = load(folder)
    settings = TrainingSettings.from_dict(load_state(folder).config["training"])
    start = theta_of(initial_model(loaded.model.config, settings).double())
    ids = corpus(texts, loaded.tokenizer, held_out).training
    sequences = [ids.ids[a:b].tolist() for a, b in zip(ids.bounds, ids.bounds[1:], strict=False)]
    book = Book(print_reader.pages("text", page), None, rng=TorchChance(len(sequences), int(seeds(page)[0])), **told)
    return book.run("DTraining", from_one(sequences), start), theta_of(loaded.model), start


def assert_close(theta, other, atol=1e-9):
    for (name, array), theirs in zip(theta.items(), other.leaves(), strict=True):
        np.testing.assert_allclose(array, theirs, rtol=0, atol=atol, err_msg=name)


def test_what_is_printed_is_what_was_done(folder, said):
    """A reader of the page alone gets the checkpoint."""
    theta_hat, trained, start = executed(folder, said("describe", folder, "--run")[1])

    assert_close(theta_hat, trained)
    assert max(abs(a - b).max() for a, b in zip(start.leaves(), trained.leaves(), strict=True)) > 0.01


def seeds(page):
    """The seed that the sentences name."""
    return re.findall(r"the seed is c = (\d+)", page)


def test_the_sentences(folder, said):
    """What the lines do not say stands above them: data, steps, versions, precision, beginning, seeds."""
    status, out, err = said("describe", folder, "--run")
    head = re.sub(r"\s+", " ", out.partition("\n\nAlgorithm")[0])

    assert (0, "") == (status, err)
    for words in (
        "out, as it was trained 74 parameters 76 FLOPs a token for matrices, 48 for attention among 6 tokens;",
        "Data: 31 tokens (characters) of 0.txt (9 characters, sha256 ",
        "1.txt (3 characters",
        "All are trained on, as x with N_data = 3 sequences. Special tokens: `<|bos_token|>` (id 5) is put before "
        "every text and `<|eos_token|>` (id 6) is put after every text; these are counted, and ids are from 0. A "
        "prompt of Algorithm 14 begins with `<|bos_token|>`.",
        "Steps: 2 of 2, ",
        "the last step is in epoch j = 1; in float64.",
        f"Steps 1 to 2: transformulary {__version__}, torch ",
        "Optimiser: AdamW (arXiv:1711.05101), Algorithms 13d and 13u; the rate falls (cosine) as Algorithm 13e says.",
        "matrices of θ are normal with standard deviation 0.02, W_o and W_mlp2 with 0.02/√(2 L);",
        "the seed is c = 4. θ is drawn by a generator of PyTorch with seed c; epoch j by one with seed "
        "(1000003 c + j) mod 2³²: first δ",
    ):
        assert words in head, words
    assert "held" not in head.lower()


def test_the_seeds_of_epochs(folder, said, monkeypatch):
    """What the sentence says of the seed of an epoch is what its generator is seeded with."""
    head = re.sub(r"\s+", " ", said("describe", folder, "--run")[1].partition("\n\nAlgorithm")[0])
    product, count = re.search(r"epoch j by one with seed \((\d+) c \+ (.+?)\) mod 2³²", head).groups()
    (c,), seeded = map(int, seeds(head)), []
    last = int(re.search(r"the last step is in epoch j = (\d+)", head)[1])

    class Recorded(torch.Generator):
        def manual_seed(self, seed):
            seeded.append(seed)
            return super().manual_seed(seed)

    monkeypatch.setattr(torch, "Generator", Recorded)
    batches = Batches(Documents([[1, 2, 3]]), 6, 2, seed=c)
    while batches.position.epoch <= last:
        next(batches)

    assert [(int(product) * c + eval(count, {"j": j})) % 2**32 for j in range(last + 1)] == seeded[: last + 1]


def test_the_numbers_of_the_lines(folder, said):
    """The lines have this run's numbers."""
    lines = {row.strip() for row in said("describe", folder, "--run")[1].splitlines()}

    for line in (
        "2  while length(D) < 4 do",
        "6          a ← 2 (n − 1)",
        "4      δ ← uniform(6) [[ℓ > 6]]",
        "1  for i = 1, 2 do",
        "7b      (θ, ω) ← update(θ, ω, g, i | 0.05)",
        "1  g ← g/max(1, ‖g‖/0.25)",
        "2  m ← 0.9 m + (1 − 0.9) g",
        "4  g ← g + 0.1 matrices(θ)",
        "5  g ← g + embeddings(g)",
        "2  for i = 1, 2, …, min(200, 7 − ℓ) do",
    ):
        assert line in lines, line


def test_latex(folder, said, tmp_path):
    """The page of a run in LaTeX is ASCII, formulas of its sentences too, and compiles; nothing is too wide."""
    page = said("describe", folder, "--run", "--format", "latex")[1]

    assert page.isascii()
    assert r"$\boldsymbol{W}_{\mathrm{mlp2}}$ with $0.02/\sqrt{2\,L}$; biases and $\boldsymbol{\beta}$ are $0$" in page
    assert r"what \texttt{generation\_config.json} says" in page
    assert r"\texttt{\textless{}\textbar{}bos\_token\textbar{}\textgreater{}} (id 5) is put before every text" in page
    assert r"the last step is in epoch $j = 1$; in float64" in page
    assert [] == complaints(page, tmp_path)


@pytest.mark.parametrize("form", FORMATS)
def test_formats(form, folder, said):
    """Every format says the same of the run."""
    status, out, err = said("describe", folder, "--run", "--format", form)

    assert (0, "") == (status, err)
    assert "as it was trained" in out
    assert "update" in out
    assert "DInference" in out


def test_json(folder, said):
    """--json has the settings as they were resolved, where the run stands, its files and sessions, and the page."""
    found = json.loads(said("describe", folder, "--run", "--json")[1])

    assert found["progress"]["step"] == 2
    assert found["training"]["precision"] == "float64"
    assert found["inference"] == {"top_k": 0, "top_p": 1.0, "stop": [6], "limit": True, "tau": 1.0, "ell_gen": 200}
    assert [file["name"] for file in found["files"]] == ["0.txt", "1.txt", "2.txt"]
    assert found["corpus"]["learnt from"] == {"sequences": 3, "tokens": 31}
    assert [one["step"] for one in found["sessions"]] == [0]
    assert found["pseudocode"] in said("describe", folder, "--run")[1]


def test_generation_settings_are_those_of_the_folder(folder, said, tmp_path):
    """What generation_config.json says is in the lines of Algorithm 14."""
    shutil.copytree(folder, tmp_path / "out")
    given = {"temperature": 0.5, "top_k": 3, "top_p": 0.75, "max_new_tokens": 5, "eos_token_id": 2}
    (tmp_path / "out" / "generation_config.json").write_text(json.dumps(given))

    lines = [row.strip() for row in said("describe", tmp_path / "out", "--run")[1].splitlines()]

    for line in (
        "2  for i = 1, 2, …, min(5, 7 − ℓ) do",
        "4b      p ← likeliest(p, 3)",
        "4c      p ← nucleus(p, 0.75)",
        "5      sample a token y from p",
        "6a      if y ∈ stop then return x[ℓ+1:ℓ+i]",
        "stop is the set of tokens {2}, as `tokenizer.json` counts them, from 0",
    ):
        assert line in lines, line


def test_a_run_that_went_on(folder, said, tmp_path):
    """Where a session had other limits, its schedule is printed for its own steps: a reader gets the checkpoint."""
    shutil.copytree(folder, tmp_path / "out")
    said("train", "--resume", tmp_path / "out", "--steps", "5")

    page = said("describe", tmp_path / "out", "--run")[1]

    head = re.sub(r"\s+", " ", page.partition("\n\nAlgorithm")[0])
    assert "Steps: 5 of 5, " in head
    assert "Steps 1 to 2: transformulary" in head
    assert "Steps 3 to 5: transformulary" in head
    assert ["{1, 2}", "{3, 4, 5}"] == re.findall(r"Algorithm 13e: .*\n    Input: i ∈ (.*)", page)
    assert "1  for i = 1, 2, …, 5 do" in page
    theta_hat, trained, _ = executed(tmp_path / "out", page)
    assert_close(theta_hat, trained)


def test_the_same_limits_are_one_schedule(folder, said, tmp_path):
    """A run that was only interrupted has one schedule for all of its steps."""
    shutil.copytree(folder, tmp_path / "out")
    said("train", "--resume", tmp_path / "out")

    page = said("describe", tmp_path / "out", "--run")[1]

    assert ["ℕ"] == re.findall(r"Algorithm 13e: .*\n    Input: i ∈ (.*)", page)


@pytest.fixture
def by_the_clock(tmp_path, monkeypatch, said):
    """A run that ends after 4 steps by a clock on which each reading is 1.3 s later than the one before."""
    times = itertools.count(0, 1.3)
    monkeypatch.setattr("transformulary.train.run.perf_counter", lambda: next(times))
    (tmp_path / "0.txt").write_text(TEXTS[0], encoding="utf-8")
    status, _, err = said("train", tmp_path / "0.txt", "--out", tmp_path / "out", *OPTIONS, "--steps=0", "--seconds=15")
    assert 0 == status, err
    return tmp_path / "out"


def test_a_run_by_the_clock(by_the_clock, said):
    """The seconds before each step are recorded, and the page says where they lie."""
    page = said("describe", by_the_clock, "--run")[1]
    facts = json.loads(said("describe", by_the_clock, "--run", "--json")[1])

    clock = facts["clock"]
    assert len(clock) == facts["progress"]["step"] > 2
    assert clock == sorted(clock) and clock[-1] > 7
    assert (
        f"Clock: the values clock[i] of steps 1 to {len(clock)} are the numbers of the tensor `clock` in "
        "`training.safetensors`, and in `describe --run --json`."
    ) in re.sub(r"\s+", " ", page)


def test_a_run_by_the_clock_that_went_on_by_steps(by_the_clock, said):
    """Each session has its limits, and the clock of the first is as its rate had it: a reader gets the checkpoint."""
    done = json.loads(said("describe", by_the_clock, "--run", "--json")[1])["progress"]["step"]
    said("train", "--resume", by_the_clock, "--seconds", "0", "--steps", done + 2)

    page, found = said("describe", by_the_clock, "--run")[1], said("describe", by_the_clock, "--run", "--json")[1]

    clock = json.loads(found)["clock"]
    assert [None, None] == clock[done:]
    theta_hat, trained, _ = executed(by_the_clock, page, TEXTS[:1], clock=clock)
    assert_close(theta_hat, trained)
    assert f"of steps 1 to {done} are the numbers" in re.sub(r"\s+", " ", page)


def test_a_clock_that_was_not_recorded(by_the_clock, said):
    """A state without it says so, and can still be gone on with."""
    state = load_state(by_the_clock)
    del state.tensors["clock"]
    save_state(by_the_clock, state)

    page = said("describe", by_the_clock, "--run")[1]
    resumed = said("train", "--resume", by_the_clock, "--seconds", "20")[0]
    later = said("describe", by_the_clock, "--run")[1]

    assert 0 == resumed
    for one in (page, later):
        assert "Clock: the values clock[i] are not recorded of all steps 1 to" in re.sub(r"\s+", " ", one)


def test_the_held_out_part(tmp_path, said):
    """All tokens are the ones trained on and the ones held out; the loss on these is the last one measured."""
    (tmp_path / "a$b`c.txt").write_text("abc " * 50, encoding="utf-8")
    options = [*OPTIONS, "--held-out", "0.25"]
    out = said("train", tmp_path / "a$b`c.txt", "--out", tmp_path / "out", *options)[1]

    head = re.sub(r"\s+", " ", said("describe", tmp_path / "out", "--run")[1].partition("\n\nAlgorithm")[0])

    measured = re.search(r"held out \((\d+) tokens, step 2\): ([\d.]+) nats per token", out)
    assert "Data: 202 tokens (characters) of a$b`c.txt (200 characters, sha256 " in head
    assert "The first 151 are trained on, as x with N_data = 1 sequence; the last 51 are held out." in head
    assert f"Held-out loss: {measured[2]} nats per token, over {measured[1]} tokens, after step 2: the mean of" in head
    assert "in windows of at most ℓ_max + 1 tokens that begin where the one before ended, with nothing before" in head
    assert "spread evenly" not in head


def rewritten(folder, **changes):
    """The training state of a folder with another header."""
    path = folder / "training.safetensors"
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["transformulary"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header = {key: value for key, value in (header | changes).items() if value is not None}
    text = json.dumps(header)
    digest = checksum(text, [raw(*tensor) for tensor in tensors.items()])
    path.write_bytes(safetensors.torch.save(tensors, {"transformulary": text, "sha256": digest}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"record": None}, "by an earlier version: it lacks how many sequences and tokens were learnt from, and when"),
        ({"record": {"version": 2}}, "has a record of version 2; this version reads version 1"),
        ({"format": 1}, "has format 1; this version reads format 2"),
    ],
)
def test_what_other_versions_wrote(changes, words, folder, said, tmp_path):
    """A folder that records less, or something else, is one line that says what is missing."""
    shutil.copytree(folder, tmp_path / "out")
    rewritten(tmp_path / "out", **changes)

    status, out, err = said("describe", tmp_path / "out", "--run")

    assert (2, "", 1) == (status, out, err.count("\n"))
    assert words in err


def test_what_was_not_trained_here(said, tmp_path, folder):
    """Without a training state there is no run; and symbols are no numbers."""
    (tmp_path / "config.json").write_text(json.dumps(LEAST["gpt2"]))

    assert "no run of `transformulary train` is recorded there" in said("describe", tmp_path, "--run")[2]
    assert "no run of `transformulary train` is recorded there" in said("describe", "gpt2-small", "--run")[2]
    assert "leave --sizes symbols out" in said("describe", folder, "--run", "--sizes", "symbols")[2]


def test_without_run_nothing_changes(folder, said):
    """`describe FOLDER` is the model's page, as of any other folder."""
    page = said("describe", folder)[1]

    assert "DTransformer" in page
    assert "DTraining" not in page

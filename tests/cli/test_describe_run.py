"""`transformulary describe FOLDER --run`: what is printed is what was done."""

import json
import re
import shutil

import numpy as np
import pytest
import safetensors.torch
from safetensors import safe_open

from oracle.test_practice import TorchChance
from pseudocode import print_reader
from pseudocode.page_reader import Book
from pseudocode.test_pages import from_one
from transformulary import __version__
from transformulary.cli import main
from transformulary.conform.theta import theta_of
from transformulary.data import corpus
from transformulary.formats.state import checksum
from transformulary.models import load
from transformulary.paper.settings import TrainingSettings
from transformulary.pseudocode import FORMATS
from transformulary.train import initial_model
from transformulary.train.checkpoint import raw

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
    for n, text in enumerate(TEXTS):
        (place / f"{n}.txt").write_text(text, encoding="utf-8")
    assert main(["train", *(str(place / f"{n}.txt") for n in range(3)), "--out", str(place / "out"), *OPTIONS]) == 0
    return place / "out"


@pytest.fixture
def said(capsys):
    """The function that runs a command and gives its exit status, stdout and stderr."""

    def run(*argv):
        status = main([str(word) for word in argv])
        return status, *capsys.readouterr()

    return run


def test_what_is_printed_is_what_was_done(folder, said):
    """A reader of the page alone, with the text, the first parameters and the random numbers, gets the checkpoint.

    Windows, order, batches, optimiser with its constants, schedule and steps are read from the printed lines.
    """
    page = said("describe", folder, "--run")[1]
    loaded = load(folder)
    settings = TrainingSettings.from_dict(json.loads(said("describe", folder, "--run", "--json")[1])["training"])
    start = theta_of(initial_model(loaded.model.config, settings).double())
    ids = corpus(TEXTS, loaded.tokenizer, 0.0).training
    texts = [ids.ids[a:b].tolist() for a, b in zip(ids.bounds, ids.bounds[1:], strict=False)]

    book = Book(print_reader.pages("text", page), None, rng=TorchChance(len(texts), int(seeds(page)[0])))
    theta_hat = book.run("DTraining", from_one(texts), start)

    trained = theta_of(loaded.model)
    for (name, array), theirs in zip(theta_hat.items(), trained.leaves(), strict=True):
        np.testing.assert_allclose(array, theirs, rtol=0, atol=1e-9, err_msg=name)
    assert max(abs(a - b).max() for a, b in zip(start.leaves(), trained.leaves(), strict=True)) > 0.01


def seeds(page):
    """The seed that the sentences name, wherever they do."""
    return re.findall(r"seed\s+\(?(\d+)", page)


def test_the_sentences(folder, said):
    """What the lines do not say stands above them: data, steps, versions, precision, beginning, seeds."""
    status, out, err = said("describe", folder, "--run")
    head = re.sub(r"\s+", " ", out.partition("\n\nAlgorithm")[0])

    assert (0, "") == (status, err)
    assert len(set(seeds(out))) == 1
    for words in (
        "out, as it was trained",
        "x has N_data = 3 sequences, 31 tokens together of 0.txt (9 characters, sha256 ",
        "1.txt (3 characters",
        "tokens are characters; the end of the text, 0 tokens, is held out.",
        "Steps: 2 of 2, ",
        "in float64.",
        f"Steps 1 to 2: transformulary {__version__}, torch ",
        "matrices of theta are normal with standard deviation 0.02, W_o and W_mlp2 with 1 times 0.02/sqrt(2 L)",
        "by a generator of PyTorch with seed 4;",
    ):
        assert words in head, words


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
        "4b      p ← top_k(p, 3)",
        "4c      p ← top_p(p, 0.75)",
        "5      sample a token y from p",
        "6a      if y ∈ stop then return x[ℓ+1:ℓ+i]",
        "stop is the set of tokens {2}, as tokenizer.json counts them, from 0",
    ):
        assert line in lines, line


def test_a_run_that_went_on(folder, said, tmp_path):
    """Each session is said with its steps; where its limits were others, so is what the schedule was of."""
    shutil.copytree(folder, tmp_path / "out")
    said("train", "--resume", tmp_path / "out", "--steps", "5")

    page = said("describe", tmp_path / "out", "--run")[1]

    head = re.sub(r"\s+", " ", page.partition("\n\nAlgorithm")[0])
    assert "Steps: 5 of 5, " in head
    assert "Steps 1 to 2: N_total = 2 and T_total = 0 in Algorithm 13e; " in head
    assert "Steps 3 to 5: transformulary" in head
    assert "1  for i = 1, 2, …, 5 do" in page


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
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')

    assert "no run of `transformulary train` is recorded there" in said("describe", tmp_path, "--run")[2]
    assert "no run of `transformulary train` is recorded there" in said("describe", "gpt2-small", "--run")[2]
    assert "leave --sizes symbols out" in said("describe", folder, "--run", "--sizes", "symbols")[2]


def test_without_run_nothing_changes(folder, said):
    """`describe FOLDER` is the model's page, as of any other folder."""
    page = said("describe", folder)[1]

    assert "DTransformer" in page
    assert "DTraining" not in page

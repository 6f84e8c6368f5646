"""transformulary train: what it refuses in one line, and what a folder holds whatever happens."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformulary import models
from transformulary.cli import main
from transformulary.cli._progress import losses
from transformulary.cli.train import NOTES
from transformulary.files import claimed, write_atomically
from transformulary.nn.slots import POSITIONS
from transformulary.tokens import Tokenizer
from transformulary.train import Evaluated, load_state

TEXT = "the quick brown fox jumps over the lazy dog. " * 12
SMALL = ["--L", "1", "--H", "2", "--d-e", "8", "--ell-max", "12", "--batch", "4", "--tokenizer", "characters"]
SMALL += ["--precision", "float32", "--threads", "1", "--steps", "6"]


@pytest.fixture(autouse=True)
def text(tmp_path, monkeypatch):
    """A text file, in the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT, encoding="utf-8")


def train(*words):
    return main(["train", *map(str, words)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--d-e", 10**12], "a model of these sizes needs over 10^17 GB for its parameters"),
        (["--L", 10**9], "a model of these sizes needs"),
        (["--L", 10**9, "--d-e", "1", "--H", 1, "--d-mlp", "1"], "a model of these sizes needs"),
        (["--ell-max", 10**12], "a model of these sizes needs"),
        (["--d-e", "4" + "0" * 4000], "d_e has 13290 bits, which is absurd"),
        (["--vocabulary", 10**12], "vocabulary = 1000000000000 is outside [0, 1048576]"),
        (["--vocabulary", -1], "vocabulary = -1 is outside"),
        (["--threads", 100_000], "threads = 100000 is outside [0, 1025)"),
        (["--batch", 10**26], "batch = 100000000000000000000000000 is outside"),
        (["--tokenizer", ""], "a path is empty"),
        (["TEXTS", ""], "a path is empty"),
        (
            ["TEXTS", b"b\xff.txt".decode(errors="surrogateescape")],
            r"b\udcff.txt' is not UTF-8, so no file can record it",
        ),
        (["--resume", "", "--overwrite"], "what --overwrite would replace"),
        (["--resume", ""], "there is no training to resume"),
    ],
)
def test_absurd_or_empty(capsys, words, message):
    """Sizes that no machine has, and names that are none, are one line before any training, and leave no folder."""
    texts, options = ["text.txt"], words
    if words[0] == "TEXTS":
        texts, options = words[1:], []
    out = [] if "--resume" in words else ["--out", "OUT"]
    status = train(*texts, *out, "--steps", 2, *options)

    err = capsys.readouterr().err
    assert (2, 1) == (status, len(err.splitlines()))
    assert message in err
    assert not Path("OUT").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[data]\ntext = [1, 2]", "a path is empty, or no text"),
        ("[data]\ntext = ['']", "a path is empty, or no text"),
        (f"[training]\nsteps = {'1' * 5000}", "is not TOML"),
        (f"[training]\nsteps = 0x{'1' * 5000}", "is not TOML: it has a whole number of 19997 bits"),
        (f"[data]\ntext = {'[' * 5000}{']' * 5000}", "is not TOML"),
        ("[training]\nsteps = [1]", "steps = [1] must be a whole number"),
        ("[model]\nd_e = {}", "d_e = {} must be a whole number"),
    ],
)
def test_configuration_files(capsys, content, message):
    """Whatever a configuration file holds, the answer is one line."""
    Path("c.toml").write_text(content)

    status = train(*([] if "[data]" in content else ["text.txt"]), "--config", "c.toml", "--out", "OUT")

    err = capsys.readouterr().err
    assert (2, 1) == (status, len(err.splitlines()))
    assert message in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tokenizer", "words"], "data.tokenizer was 'characters', now it is 'words'"),
        (["--vocabulary", "30"], "data.vocabulary was 0, now it is 30"),
        (["--held-out", "0.2"], "data.held_out was 0.1, now it is 0.2"),
        (["--overwrite"], "goes on with what --overwrite would replace"),
        (["--d-e", "16"], "model.d_e was 8, now it is 16"),
        (["--seed", "1"], "training.seed was 0, now it is 1"),
    ],
)
def test_resuming_changes_nothing_silently(capsys, words, message):
    """What cannot change when a run goes on is refused by name, and what the folder holds stays."""
    train("text.txt", "--out", "out", *SMALL)
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    capsys.readouterr()

    status = train("--resume", "out", *words)

    err = capsys.readouterr().err
    assert (2, 1) == (status, len(err.splitlines()))
    assert message in err
    assert before == {path: path.read_bytes() for path in Path("out").iterdir()}


def test_the_state_is_all_that_resuming_needs(capsys):
    """With every other file gone, and the text moved, training goes on; the other files are written again."""
    train("text.txt", "--out", "whole", *SMALL, "--steps", 8)
    train("text.txt", "--out", "out", *SMALL, "--steps", 8, "--warmup", 0)
    shutil.copytree("out", "bare")
    for path in Path("bare").iterdir():
        if path.name != "training.safetensors":
            path.unlink()
    Path("text.txt").rename("moved.txt")

    assert 0 == train("--resume", "bare", "moved.txt", "--steps", 10)

    assert {path.name for path in Path("out").iterdir()} == {path.name for path in Path("bare").iterdir()}
    assert str(Path("moved.txt").absolute()) in Path("bare/training.toml").read_text()


def test_a_tokenizer_is_recorded_wherever_one_stands(tmp_path, monkeypatch):
    """A training.toml repeats the run from another folder, though tokenizer and text were relative paths."""
    Tokenizer.train("characters", [TEXT]).save("letters")
    train("text.txt", "--out", "a", *SMALL, "--tokenizer", "letters")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")

    status = train("--config", tmp_path / "a/training.toml", "--out", tmp_path / "b")

    assert 0 == status
    for name in ("model.safetensors", "training.toml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_one_training_per_folder(capsys):
    """While one training has a folder, another one into it is refused in one line and changes nothing."""
    train("text.txt", "--out", "out", *SMALL)
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    capsys.readouterr()

    with claimed("out"):
        statuses = [train("--resume", "out"), train("text.txt", "--out", "out", "--overwrite", *SMALL)]

    assert [2, 2] == statuses
    assert 2 == capsys.readouterr().err.count("out is in use: another run writes there")
    assert before == {path: path.read_bytes() for path in Path("out").iterdir()}


KILL = """
import os, signal, sys
from transformulary import files
from transformulary.cli import main
rename, left = os.replace, [int(sys.argv[1])]
def replace(a, b):
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)
    left[0] -= 1
    rename(a, b)
files.os.replace = replace
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(  # of a vocabulary that stays as it is no file is moved
    ("there", "renames"), [*((False, n) for n in range(6)), *((True, n) for n in range(4))]
)
def test_killed_in_the_first_save(there, renames):
    """Killed before any file of its first save is in place, a folder holds the old run or the new one, or is free.

    It is the old training, which goes on, or the new one; a model is the old one or the new one, or is refused.
    """
    if there:
        train("text.txt", "--out", "out", *SMALL)
    new = ["text.txt", "--out", "out", "--overwrite", *SMALL, "--d-e", "4", "--steps", "3"]
    environment = os.environ | {"PYTHONPATH": str(Path(models.__file__).parents[1]), "OMP_NUM_THREADS": "1"}

    done = subprocess.run([sys.executable, "-c", KILL, str(renames), "train", *new], env=environment, check=False)

    assert -signal.SIGKILL == done.returncode
    if renames or there:
        steps = 3 if renames else 6
        assert steps == load_state("out").progress["step"]
        assert 0 == train("--resume", "out", "--steps", steps + 1)
    else:
        assert 0 == train("text.txt", "--out", "out", *SMALL)
    assert (4 if renames else 8) == models.load("out").model.config.d_e


def test_a_full_disk(capsys, monkeypatch):
    """Where the first file cannot be written, the file is named, the way out is said, and no folder is left."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformulary.files.os.fsync", full)
    status = train("text.txt", "--out", "out", *SMALL)

    last = capsys.readouterr().err.splitlines()[-1]
    assert 2 == status
    assert "No space left on device (out/training.safetensors)" in last
    assert "make room" in last
    assert not Path("out").exists()


def test_a_full_disk_after_the_checkpoint(capsys, monkeypatch):
    """Where training.toml cannot be written, that is said, and the training goes on from what was saved."""

    def full(path, data):
        if Path(path).name == "training.toml":
            raise OSError(28, "No space left on device", str(path))
        write_atomically(path, data)

    with monkeypatch.context() as patch:
        patch.setattr("transformulary.files.write_atomically", full)
        assert 2 == train("text.txt", "--out", "out", *SMALL)

    assert "out/training.toml cannot be written: No space left on device. Make room" in capsys.readouterr().err
    assert 0 == train("--resume", "out", "--steps", 7)


def test_help_says_how_slots_are_typed(capsys):
    """--help shows a mask as it is typed, names all positions, and what --absent replaces."""
    main(["train", "--help"])

    words = " ".join(capsys.readouterr().out.split())
    assert '--mask causal --mask "local(64)"' in words
    assert all(name in NOTES["positions"] for name in POSITIONS)
    assert "instead of the default: --absent b_q alone has an output bias b_u" in words


def test_what_spells_no_characters_has_no_loss_per_character():
    """No `nan` is printed."""
    nan = float("nan")

    assert "1.5000 nats per token (they spell no characters)" == losses(Evaluated(1, 1.5, nan, nan, 2, 0))


def test_threads_of_the_caller_are_kept():
    """Training takes the threads that it was told to, and gives back as many as there were."""
    torch.set_num_threads(3)
    try:
        train("text.txt", "--out", "out", *SMALL, "--threads", 1)
        assert 3 == torch.get_num_threads()
    finally:
        torch.set_num_threads(1)

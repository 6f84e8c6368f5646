"""transformulary train, as it is typed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformulary import models
from transformulary.cli import main
from transformulary.train import load_state

TEXT = "the quick brown fox jumps over the lazy dog. " * 12
SMALL = ["--L", "1", "--H", "2", "--d-e", "8", "--ell-max", "12", "--batch", "4", "--tokenizer", "characters"]
SMALL += ["--precision", "float32", "--threads", "1", "--steps", "6", "--dropout", "0.1", "--accumulate", "2"]


@pytest.fixture
def text(tmp_path):
    """A text file."""
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def train(*words):
    return main(["train", *map(str, words)])


def test_a_run_leaves_a_model_and_how_it_was_made(text, tmp_path, capsys):
    """The folder has the ecosystem's files, the training state and the resolved options; the summary is on stdout."""
    status = train(text, "--out", tmp_path / "out", *SMALL, "--eval-every", 3)

    out, err = capsys.readouterr()
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert 0 == status
    assert {"model.safetensors", "config.json", "tokenizer.json", "generation_config.json"} <= files
    assert {"training.safetensors", "training.toml"} <= files
    assert "6 steps" in out
    assert "bits per character" in out
    assert 2 == err.count("held out:")
    assert "weight decay 0.1 on W_e.weight, layers.*.attention.W_qkv.weight" in err
    assert 8 == models.load(tmp_path / "out").model.config.d_e


def test_the_resolved_configuration_repeats_the_run(text, tmp_path):
    """`--config` of a run's training.toml gives the same bits."""
    train(text, "--out", tmp_path / "a", *SMALL)

    train("--config", tmp_path / "a" / "training.toml", "--out", tmp_path / "b")

    for name in ("model.safetensors", "config.json", "tokenizer.json", "training.toml"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_options_count_more_than_the_file(text, tmp_path):
    """A file gives options by section; the command line overrides them."""
    (tmp_path / "c.toml").write_text(f"""
[data]
text = ["{text}"]
tokenizer = "characters"
held_out = 0
[model]
L = 1
H = 1
d_e = 4
ell_max = 5
mask = ["causal", "local(3)"]
[training]
steps = 3
precision = "float32"
""")

    train("--config", tmp_path / "c.toml", "--out", tmp_path / "out", "--steps", 2, "--L", 2)

    config = models.load(tmp_path / "out").model.config
    assert (2, 4, 16, ["causal", "local(3)"]) == (config.L, config.d_e, config.d_mlp, [str(m) for m in config.mask])
    assert 2 == load_state(tmp_path / "out").progress["step"]


def test_json_is_one_object_per_event(text, tmp_path, capsys):
    """With --json every line of stdout is an event, from started to finished."""
    train(text, "--out", tmp_path / "out", *SMALL, "--json")

    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["started", *["stepped"] * 6, "evaluated", "saved", "finished"] == [event["event"] for event in events]
    assert {"step", "loss", "eta", "gradient_norm", "tokens_per_second", "seconds_left"} <= events[1].keys()


def test_resume_goes_on_to_a_new_limit(text, tmp_path, capsys):
    """--resume needs nothing but the folder; a higher limit goes on from the end."""
    train(text, "--out", tmp_path / "out", *SMALL)
    half_written = tmp_path / "out" / ".model.safetensors.123.tmp"
    half_written.write_bytes(b"what a killed run left")

    status = train("--resume", tmp_path / "out", "--steps", 8)

    assert 0 == status
    assert not half_written.exists()
    assert "going on after step 6" in capsys.readouterr().err
    assert 8 == load_state(tmp_path / "out").progress["step"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "OUT"], "name at least one text file to learn from"),
        (["TEXT"], "--out FOLDER is needed"),
        (["TEXT", "--out", "OUT", "--stepz", "3"], "there is no option '--stepz'. Nearest: --steps"),
        (["TEXT", "--out", "OUT", "--H", "3"], "H = 3 does not divide d_e = 128"),
        (["TEXT", "--out", "OUT", "--eta", "0"], "eta = 0.0 is outside (0, inf)"),
        (["TEXT", "--out", "OUT", "--steps", "many"], "invalid int value: 'many'"),
        (["TEXT", "--out", "OUT", "--tokenizer", "letters"], "'letters' is no folder, and none of characters, words"),
        (["TEXT", "--out", "OUT", "--tokenizer", "x", "--vocabulary", "9"], "vocabulary = 9 says how many tokens"),
        (["TEXT", "--out", "OUT", "--held-out", "1"], "held_out = 1.0 is outside [0, 1)"),
        (["TEXT", "--out", "OUT", "--mask", "full", *SMALL], "mask full lets a token see later ones"),
        (["TEXT", "--out", "OUT", "--norm", "batch_norm"], "norm = 'batch_norm' is none of layer_norm, rms_norm"),
        (["TEXT", "nothing.txt", "--out", "OUT"], "nothing.txt does not exist"),
        (["EMPTY", "--out", "OUT"], "no text; a model cannot learn from 0 characters"),
        (["BAD", "--out", "OUT"], "is not UTF-8: byte 0x92 at offset 2"),
        (["--resume", "OUT"], "there is no training to resume"),
        (["--resume", "A", "--out", "OUT"], "leave --out"),
        (["TEXT", "--out", "OUT", "--config", "TOML"], "there is no training setting 'lr'. Did you mean eta?"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(text, tmp_path, capsys, monkeypatch, words, message):
    """What cannot work ends with status 2, one line that says why, and no folder."""
    monkeypatch.chdir(tmp_path)
    for name, data in {"EMPTY": b"", "BAD": b"it\x92s", "TOML": b"[training]\nlr = 1\n"}.items():
        Path(name).write_bytes(data)

    status = train(*[text if word == "TEXT" else word for word in words])

    out, err = capsys.readouterr()
    assert (2, "") == (status, out)
    assert message in err
    assert 1 == len(err.splitlines())
    assert not Path("OUT").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("steps = 3", "'steps' stands outside a section; the sections are data, model, training"),
        ("[trainin]\nsteps = 3", "there is no section [trainin]. Did you mean training?"),
        ("[model]\nhidden_size = 3", "DTransformerConfig has no 'hidden_size'. The paper calls it d_e."),
        ("[data]\nfiles = []", "[data] has no key 'files'. There are: text, tokenizer, vocabulary, held_out."),
        ("[data]\nvocabulary = 'big'", "[data] vocabulary = 'big' is of the wrong kind"),
        ("[training", "is not TOML"),
    ],
)
def test_bad_config_file(text, tmp_path, capsys, content, message):
    """Every key of a configuration file is known, or named in an error."""
    (tmp_path / "c.toml").write_text(content)

    status = train(text, "--out", tmp_path / "out", "--config", tmp_path / "c.toml")

    assert 2 == status
    assert message in capsys.readouterr().err


def test_a_finished_model_is_not_lost(text, tmp_path, capsys):
    """A folder that holds a model is refused, unless it is to be replaced or gone on with."""
    train(text, "--out", tmp_path / "out", *SMALL)
    before = (tmp_path / "out" / "model.safetensors").read_bytes()

    refused = train(text, "--out", tmp_path / "out", *SMALL, "--seed", 1)
    kept = (tmp_path / "out" / "model.safetensors").read_bytes()
    replaced = train(text, "--out", tmp_path / "out", *SMALL, "--seed", 1, "--overwrite")

    assert (2, 0) == (refused, replaced)
    assert "already holds a model" in capsys.readouterr().err
    assert before == kept != (tmp_path / "out" / "model.safetensors").read_bytes()


def test_a_loss_that_explodes_is_status_1(text, tmp_path, capsys):
    """A learning rate that overflows ends with status 1, names the step and what is left, and saves no ruin."""
    status = train(
        text, "--out", tmp_path / "out", *SMALL, "--eta", 1e38, "--warmup", 0, "--clip", 0, "--save-every", 1
    )

    err = capsys.readouterr().err
    assert 1 == status
    assert "transformulary train: step 1: its update left W_e.weight (itself) not finite" in err.splitlines()[-1]
    assert "holds no checkpoint" in err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def program(*words):
    """The command in a process of its own, its events on a pipe."""
    source = str(Path(models.__file__).parents[1])
    command = [sys.executable, "-m", "transformulary", "train", *map(str, words), "--json"]
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process, step):
    """Wait for the event of one step."""
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "stepped" and event["step"] == step:
            return


LONG = [*SMALL, "--steps", "60", "--save-every", "1"]


def test_killed_and_resumed_is_the_straight_run(text, tmp_path):
    """Killed (-9) in the middle, twice, and resumed in a new process: bit by bit the run that was never killed."""
    train(text, "--out", tmp_path / "straight", *LONG)
    how = (text, "--out", tmp_path / "killed", *LONG)

    for step in (7, 13):
        victim = program(*how)
        until(victim, step)
        os.kill(victim.pid, signal.SIGKILL)
        victim.communicate()
        how = ("--resume", tmp_path / "killed")
    at_the_kill = load_state(tmp_path / "killed").progress["step"]
    resumed = program(*how)
    resumed.communicate()

    assert 0 == resumed.returncode
    assert 12 <= at_the_kill
    straight, killed = (load_state(tmp_path / name).tensors for name in ("straight", "killed"))
    assert straight.keys() == killed.keys()
    assert all(torch.equal(tensor, killed[name]) for name, tensor in straight.items())
    for name in ("model.safetensors", "config.json", "tokenizer.json", "generation_config.json", "training.toml"):
        assert (tmp_path / "straight" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(text, tmp_path, number):
    """Ctrl-C or SIGTERM: the step is finished and saved, the way to resume is said, the status tells the signal."""
    process = program(text, "--out", tmp_path / "out", *SMALL, "--steps", 10**6, "--save-every", 0)
    until(process, 3)

    process.send_signal(number)
    _, err = process.communicate()

    assert 128 + number == process.returncode
    assert f"stopped; go on with: transformulary train --resume {tmp_path / 'out'}" == err.splitlines()[-1]
    assert 3 <= load_state(tmp_path / "out").progress["step"]

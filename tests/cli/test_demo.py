"""The demo, end to end, on a small text and a few steps."""

import json
import re

import pytest

from transformulary import models
from transformulary.cli import demo, main
from transformulary.data import library as texts


@pytest.fixture
def small(monkeypatch):
    """Without network, and with less of everything."""
    monkeypatch.setattr(texts, "_fetch", lambda archive: "the package index cannot be reached")
    monkeypatch.setattr(texts, "_topics", lambda: ["The yield statement is a statement. " * 300, "The with statement."])
    monkeypatch.setattr(demo, "CHARACTERS", 6000)
    monkeypatch.setattr(demo, "VOCABULARY", 300)
    monkeypatch.setattr(demo, "MODEL", demo.MODEL | {"d_e": 24, "d_mlp": 32, "ell_max": 16})


def run(folder, *options):
    return main(["demo", "--out", str(folder), "--tokens", "12", *options])


def test_demo(small, tmp_path, capsys):
    """Seven steps: text, training, saving, writing, comparing, looking, diagnosing; a model in transformers' format."""
    status = run(tmp_path)

    out = capsys.readouterr().out
    assert status == 0
    assert re.findall(r"^(\d) of 7  (\w+)", out, re.MULTILINE) == [
        ("1", "text"), ("2", "training"), ("3", "the"), ("4", "writing"), ("5", "comparing"), ("6", "looking"),
        ("7", "diagnosing"),
    ]  # fmt: skip
    assert "the package index cannot be reached" in out
    assert "Algorithm 10: 9 of 9 lines that compute a value agree, largest relative error" in out
    assert "Algorithm 10, line 8, every layer: the activation is the exact form of GELU.\n" in out
    assert {p.name for p in tmp_path.iterdir()} == {"attention.html", "attention.png", "model", "pseudocode.txt"}
    assert json.loads((tmp_path / "model" / "config.json").read_text())["model_type"] == "gpt2"
    assert "8      X ← X + W_mlp2^l GELU_tanh(" in (tmp_path / "pseudocode.txt").read_text(encoding="utf-8")
    assert (tmp_path / "attention.png").read_bytes()[:4] == b"\x89PNG"


def test_second_time(small, tmp_path, capsys, monkeypatch):
    """A second demo trains nothing and shows the same results; --retrain trains."""
    run(tmp_path)
    first = capsys.readouterr().out
    weights = (tmp_path / "model" / "model.safetensors").read_bytes()
    monkeypatch.setattr(demo, "train", None)

    assert run(tmp_path) == 0

    second = capsys.readouterr().out
    assert "done before" in second
    losses = re.compile(r"this model .*nats.*bits")
    assert losses.search(first)[0] == losses.search(second)[0]
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == weights


def test_baselines_are_shown(small, tmp_path, capsys):
    """The held-out loss stands beside what guessing costs, per character, and the repetitive text is learned."""
    run(tmp_path)

    facts = json.loads((tmp_path / "model" / "demo.json").read_text())
    assert list(facts["baselines"]) == [
        "uniform of characters", "unigram of characters", "bigram of characters", "bigram of the same byte pairs",
    ]  # fmt: skip
    assert facts["held_out"] < facts["baselines"]["uniform of characters"]
    assert 0 < facts["characters"] <= 6000


def test_a_line_that_disagrees(small, tmp_path, capsys):
    """If a line of the model is not the paper's, the demo names it and its exit status is 1."""
    run(tmp_path)
    loaded = models.load(tmp_path / "model")
    norm = type(loaded.model.layers[0].norm_2)
    forward = norm.forward

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(norm, "forward", lambda self, X: forward(self, X) * (1 + 1e-6))
        status = run(tmp_path)

    assert status == 1
    assert "DISAGREES" in capsys.readouterr().out


def test_without_the_example(small, tmp_path, capsys, monkeypatch):
    """Where the example is not installed, the last step is one line: why, and the command for a clone."""
    monkeypatch.setattr(demo, "EXAMPLE", tmp_path / "ordinary_gpt.py")

    assert run(tmp_path / "demo") == 0

    after = capsys.readouterr().out.partition("7 of 7")[2].splitlines()
    assert "not part of the package" in after[1]
    assert f"conform examples/ordinary_gpt.py --against {tmp_path / 'demo' / 'model'}" in after[1]
    assert after[2] == ""


@pytest.mark.parametrize("options", [("--seconds", "0"), ("--seconds", "nan"), ("--tokens", "-1"), ("--seed", "-1")])
def test_bad_options(small, tmp_path, capsys, options):
    """A time or a number of tokens that makes no sense is one line and exit status 2, before anything is done."""
    status = run(tmp_path / "new", *options)

    assert status == 2
    assert [line[:21] for line in capsys.readouterr().err.splitlines()] == ["transformulary demo: "]
    assert not (tmp_path / "new").exists()


def test_a_prompt_that_is_too_long(small, tmp_path, capsys):
    """A prompt that the model could not see whole is refused before training."""
    status = run(tmp_path, "--prompt", "yield " * 40)

    err = capsys.readouterr().err.splitlines()
    assert status == 2
    assert re.search(r"--prompt has \d+ tokens with bos, .* ell_max = 16", err[-1])
    assert not (tmp_path / "model").exists()


def test_an_empty_prompt(small, tmp_path):
    """An empty prompt is the beginning of a text, bos alone."""
    assert run(tmp_path, "--prompt", "") == 0


@pytest.mark.parametrize("damaged", ["{", "[]", '{"baselines": 1}', None])
def test_facts_of_another_model_are_not_shown(small, tmp_path, capsys, monkeypatch, damaged):
    """If what is known of the model is damaged, or training was ended half-way, the demo trains anew."""
    run(tmp_path)
    facts = tmp_path / "model" / "demo.json"
    facts.unlink() if damaged is None else facts.write_text(damaged)
    capsys.readouterr()

    assert run(tmp_path) == 0

    assert "done before" not in capsys.readouterr().out


def test_killed_while_training_anew(small, tmp_path, monkeypatch):
    """A demo that ends while it trains another model leaves no facts of the old one."""
    run(tmp_path)
    monkeypatch.setattr(demo, "_fit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))

    assert run(tmp_path, "--retrain") == 130

    assert not (tmp_path / "model" / "demo.json").exists()


def test_training_that_time_ended(small, tmp_path, capsys):
    """If the clock ends training, the demo says so, and how to train longer."""
    run(tmp_path, "--seconds", "0.01")

    assert "The clock ended training after" in capsys.readouterr().out

"""Candidates that give other numbers each time, or leave something running."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from conform.test_candidates import GOOD, X
from transformulary.conform import conform
from transformulary.conform.reference import PRESETS, random_model


@pytest.mark.parametrize("name", ["layer_norm", "model"])
def test_a_function_of_random_numbers(name):
    """That it gives other numbers each time is the first thing said."""
    draw = np.random.default_rng(0).normal

    report = conform({name: lambda *given: GOOD[name](*given) * draw(1, 0.1)}, "gpt2", tokens=X)

    assert report.answer[0].startswith(f"Results: {name} gives other numbers each time")
    assert report.status == 1


class Careless(torch.nn.Dropout):
    """Dropout that does not listen to eval()."""

    def train(self, mode=True):
        return super().train(True)


@pytest.mark.parametrize(("dropout", "says"), [
    (torch.nn.functional.dropout, "dropout that is left on"),
    (Careless(), "tail.1 stay in training mode"),
])  # fmt: skip
def test_a_model_with_dropout_left_on(dropout, says):
    """A dropout that eval() does not switch off is said first, by its name if it has one."""
    ours = random_model(PRESETS["gpt2"])

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model, self.tail = ours, torch.nn.Sequential(torch.nn.Identity(), torch.nn.Identity())
            if isinstance(dropout, torch.nn.Module):
                self.tail[1] = dropout

        def forward(self, x):
            return (self.tail if isinstance(dropout, torch.nn.Module) else dropout)(self.model(x))

    report = conform(Wrapped(), "gpt2", tokens=X, table={"places": {"10.10": "model.norm:out"}}, decoding=False)

    assert report.answer[0].startswith("Results: the model gives other numbers each time")
    assert says in report.answer[0]


def test_a_thread_that_is_left(tmp_path):
    """A thread that never ends does not keep the program from ending with its report."""
    file = tmp_path / "mine.py"
    file.write_text(
        "from threading import Event, Thread\ndef layer_norm(X, gamma, beta):\n    Thread(target=Event().wait).start()"
    )

    run = subprocess.run(
        [sys.executable, "-m", "transformulary", "conform", file, "--against", "gpt2"], capture_output=True, timeout=120
    )

    assert (run.returncode, run.stderr.count(b"\n")) == (2, 1)

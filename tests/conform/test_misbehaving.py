"""Candidates that give other numbers each time, leave something running, or change what they run in."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from conform.test_candidates import GOOD, X
from transformulary.conform import conform
from transformulary.conform.candidates.propose import propose
from transformulary.conform.reference import PRESETS, random_model
from transformulary.errors import CandidateError


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


#: A norm, and what lies beside a file.
NORM = """
def norm(X, gamma, beta):
    return (X - X.mean(-1, keepdims=True)) / (X.var(-1, keepdims=True) + 1e-5) ** 0.5 * gamma + beta
"""
#: A class of a file, which Python finds by the name of its module.
CLASS = """
from __future__ import annotations
import pickle
from dataclasses import dataclass
from typing import ClassVar

@dataclass
class Ours:
    a: int
    b: ClassVar[int] = 1

def layer_norm(X, gamma, beta):
    from beside import norm
    assert pickle.loads(pickle.dumps(Ours(2))) == Ours(2)
    return norm(X, gamma, beta)
"""


@pytest.mark.parametrize("name", ["mine", "torch", "json", "my.file"])
def test_a_file_is_a_module(tmp_path, name):
    """Its classes have its name, what it imports when it is called lies beside it; no other module is hidden."""
    (tmp_path / "beside.py").write_text(NORM)
    file = tmp_path / f"{name}.py"
    file.write_text(CLASS)
    before = {name: sys.modules.get(name), "path": [*sys.path]}

    report = conform(file, "gpt2", tokens=X)

    sys.modules.pop("beside")
    assert report.agrees
    assert before == {name: sys.modules.get(name), "path": sys.path}


def test_what_load_imports(tmp_path):
    """What `load` imports lies beside its file, for a draft too; what is not there is no matter of the checkpoint."""
    (tmp_path / "with_load.py").write_text(
        "def model(folder):\n    import transformulary as t\n    return t.load(folder).model.double()"
    )
    file, lacking = tmp_path / "mine.py", tmp_path / "lacking.py"
    file.write_text("def load(folder):\n    import with_load\n    return with_load.model(folder)")
    lacking.write_text("def load(folder):\n    import not_there")

    draft, report = propose(file, "gpt2"), conform(file, "gpt2", tokens=X, decoding=False)
    with pytest.raises(CandidateError) as error:
        conform(lacking, "gpt2")

    sys.modules.pop("with_load")
    assert report.agrees
    assert '"10.10" = "norm:out"' in draft
    assert str(error.value).endswith(f"ModuleNotFoundError: No module named 'not_there' ({lacking}, line 2)")


@pytest.mark.parametrize("code", ["os.chdir(os.sep)", "sys.setrecursionlimit(60)", "sys.path.clear()"])
def test_a_file_that_changes_what_it_runs_in(tmp_path, code):
    """The working folder and Python's limits are those of the program: a file's own end with it."""
    file, folder, limit, path = tmp_path / "mine.py", Path.cwd(), sys.getrecursionlimit(), [*sys.path]
    file.write_text(f"import os, sys\n{code}\n{NORM.replace('norm', 'layer_norm')}")

    report = conform(file, "gpt2", tokens=X)

    assert report.agrees
    assert (Path.cwd(), sys.getrecursionlimit(), sys.path) == (folder, limit, path)


@pytest.mark.parametrize(("make", "says"), [
    (os.mkfifo, "mine.py is no file"),
    (os.mkdir, "mine.py is no file"),
    (lambda file: file.write_text("ARRAY = 3\ndef layer_norm(X, g, b):\n    return X"), "ARRAY = 3; it is a func"),
    (lambda file: file.write_text("async def layer_norm(X, g, b):\n    return X"), "layer_norm is async"),
    (lambda file: file.write_text("async def load(folder):\n    pass"), "load is async"),
])  # fmt: skip
def test_a_file_that_cannot_be_called(tmp_path, make, says):
    """A pipe is not waited for, and what is no ordinary function is said, at once."""
    make(tmp_path / "mine.py")

    with pytest.raises(CandidateError, match=says):
        conform(tmp_path / "mine.py", "gpt2")

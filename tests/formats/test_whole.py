"""A folder says everything, and all of it is of one model, wherever the writing of it was cut short."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from nn.models import config, model
from transformulary import files, models
from transformulary.errors import CheckpointError
from transformulary.models import load, save
from transformulary.paper import DTransformerConfig
from transformulary.tokens import Tokenizer

KEYS = [f.name for f in fields(DTransformerConfig)]


@pytest.fixture
def native(tmp_path):
    """A model that only our own format can express."""
    save(tmp_path, model(config(mlp="gated", norm="rms_norm")))
    return tmp_path


def rewrite(folder, change):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("key", KEYS)
def test_our_own_format_has_every_key(native, key):
    """A key of our own format that is missing or null is an error that names it: no default stands in for it."""
    rewrite(native, lambda content: content.update({key: None}))
    with pytest.raises(CheckpointError, match=rf"missing or null: {key}\."):
        load(native)

    rewrite(native, lambda content: content.pop(key))
    with pytest.raises(CheckpointError, match=rf"missing or null: {key}\."):
        load(native)


def test_null_means_nothing_but_a_derived_size(tmp_path):
    """In GPT-2's format n_inner may be null (4 n_embd); null for eps is no value."""
    save(tmp_path, model(config(d_mlp=32)))
    rewrite(tmp_path, lambda content: content.update(n_inner=None))
    assert 32 == load(tmp_path).model.config.d_mlp

    rewrite(tmp_path, lambda content: content.update(layer_norm_epsilon=None))
    with pytest.raises(CheckpointError, match="layer_norm_epsilon is null"):
        load(tmp_path)


@pytest.mark.parametrize("change", [{"H": 4}, {"mlp": "gated"}, {"activation": "relu"}, {}], ids=str)
def test_cut_short_anywhere(tmp_path, monkeypatch, change):
    """Stopped before any of its renames, saving over another model leaves the old, the new, or a refused folder."""
    tokenizers = [Tokenizer.train("characters", [text]) for text in ("abcd", "efgh")]
    old, new = model(config(), seed=1), model(config(**change), seed=2)
    rename, seen = os.replace, []

    for allowed in range(6):
        folder, left = tmp_path / str(allowed), iter(range(allowed))
        save(folder, old, tokenizers[0])
        with monkeypatch.context() as patch:
            patch.setattr(
                files.os, "replace", lambda a, b, left=left: die() if next(left, None) is None else rename(a, b)
            )
            with contextlib.suppress(Killed):
                save(folder, new, tokenizers[1] if change else tokenizers[0])
        try:
            seen.append(which(load(folder).model, old, new))
        except CheckpointError as error:
            seen.append("none")
            assert "has no config.json" in str(error)

    assert {"old", "new"} >= set(seen) - {"none"}
    assert "new" == seen[-1]


class Killed(BaseException):
    """The end of a process."""


def die():
    raise Killed


def which(loaded, old, new):
    for name, known in (("old", old), ("new", new)):
        pairs = zip(loaded.parameters(), known.parameters(), strict=False)
        if loaded.config == known.config and all(torch.equal(a, b) for a, b in pairs):
            return name
    return "a mixture"


def test_loading_draws_no_numbers(native):
    """To find out shapes, PyTorch does not load its compiler, which takes seconds."""
    code = f"import sys; from transformulary import models; models.load({str(native)!r}); "
    code += "print('torch._dynamo' in sys.modules)"
    source = str(Path(models.__file__).parents[1])

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "False" == done.stdout.strip()

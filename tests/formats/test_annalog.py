"""A published encoder-decoder under names of its own, by a user's file of tables: its numbers, and its molecules."""

import hashlib
import pickle
import runpy
import sys
from importlib import import_module
from math import sqrt
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import needs
from transformulary import oracle
from transformulary.cli import main
from transformulary.formats import describe, named_format, theta_stored
from transformulary.models import load
from transformulary.nn import EDTransformer

TABLES = Path(__file__).parents[2] / "examples" / "annalog_format.py"
FILES = {
    "Lev_extended.pt": "9e22e755b5d47da3c678bc19073e4f4af12ae061c91a7e5382cea67e30fad97b",
    "stereo_experiment_vocab_ttf.pkl": "4e0330ab3a7e17a99296c69b0cde6132d589ed8d7ce644ea86839705bf00d6ea",
}
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
MOLECULES = [ASPIRIN, "C[C@H](N)C(=O)O", "Clc1ccc(Br)cc1", "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O", "F/C=C/F"]


def file(name):
    """One of the package's files, being the one that these tests were written for."""
    found = needs.package("annalog") / "ckpt_and_vocab" / name
    assert FILES[name] == hashlib.sha256(found.read_bytes()).hexdigest()
    return found


def vocabulary():
    return runpy.run_path(str(TABLES))["vocabulary"](str(file("stereo_experiment_vocab_ttf.pkl")))


@pytest.fixture
def annalogs(monkeypatch):
    """The modules of the package that compute and that cut, without the package around them."""
    package = ModuleType("annalogs")
    package.__path__ = [str(needs.package("annalog") / "model_files")]
    monkeypatch.setitem(sys.modules, "annalogs", package)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield lambda name: import_module(f"annalogs.{name}")
    for name in [name for name in sys.modules if name.startswith("annalogs.")]:
        del sys.modules[name]


def theirs(module):
    """Their model in float64, its roots as well, which they take in float32."""
    sides = (kind(59, 256, 3, 8, 512, 0.1, "cpu", 102) for kind in (module.Encoder, module.Decoder))
    model = module.Seq2Seq(*sides, 1, 1, "cpu")
    model.load_state_dict(torch.load(file("Lev_extended.pt"), weights_only=True, map_location="cpu"))
    for part in model.modules():
        if hasattr(part, "scale"):
            part.scale = sqrt(getattr(part, "head_dim", 256))
    return model.double().eval()


def ids(text):
    return torch.tensor([vocabulary().framed(text).ids])


def test_its_own_module_computes_the_same(annalogs):
    """Every logit of their own program, for every molecule, in float64."""
    ours, model = load(file("Lev_extended.pt"), str(TABLES)).model.double(), theirs(annalogs("seq2seq_attention"))
    assert type(ours) is EDTransformer

    for text in MOLECULES:
        z, x = ids(ASPIRIN), ids(text)
        with torch.no_grad():
            torch.testing.assert_close(ours(z, x), model(z, x)[0], rtol=0, atol=1e-11)


def test_the_oracle_computes_the_same():
    """Algorithm 8 with W_e^z and W_p^z, from the same file."""
    described = describe(file("Lev_extended.pt"), named_format(str(TABLES)))
    ours = load(file("Lev_extended.pt"), described.format).model.double()
    c = described.config
    assert (c.separate, c.embedding_scale, c.absent) == ({"W_e", "W_p"}, "sqrt", set())
    theta = oracle.lazy_theta(c, theta_stored(described))

    z, x = ids("F/C=C/F"), ids("C[C@H](N)C")
    P = oracle.EDTransformer(z[0].tolist(), x[0].tolist(), theta, c)

    with torch.no_grad():
        np.testing.assert_allclose(P, ours(z, x)[0].softmax(-1).T, rtol=0, atol=1e-13)


def test_aspirin(tmp_path, capsys):
    """Converted, with its vocabulary, it is a model as any other: what it answers to aspirin is aspirin."""
    assert 0 == main(["convert", str(file("Lev_extended.pt")), str(tmp_path / "new"), "--format", str(TABLES)])
    vocabulary().save(tmp_path / "new")
    capsys.readouterr()

    assert 0 == main(["translate", str(tmp_path / "new"), ASPIRIN])

    assert ASPIRIN + "\n" == capsys.readouterr().out


def test_its_vocabulary(annalogs):
    """The ids of their own program, which cuts the text, frames it and looks it up."""
    stoi = pickle.loads(file("stereo_experiment_vocab_ttf.pkl").read_bytes())["stoi"]  # checked: lists and texts
    cut = annalogs("vocabulary").SMILESTokenizer().tokenize

    for text in MOLECULES:
        assert [stoi[token] for token in ("<sos>", *cut(text), "<eos>")] == ids(text)[0].tolist()


def test_a_vocabulary_runs_nothing(tmp_path):
    """A pickle that wants a function called is refused before it is."""
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps({"stoi": Evil(str(tmp_path / "written"))}))

    with pytest.raises(pickle.UnpicklingError, match=r"it wants .*open, and a vocabulary is made of lists and texts"):
        runpy.run_path(str(TABLES))["vocabulary"](str(tmp_path / "bad.pkl"))
    assert not (tmp_path / "written").exists()


class Evil:
    """When it is read, a file is written."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")

"""Worked values of single lines, where implementations are known to differ."""

import os
import subprocess
import sys

import pytest
import torch
from jaxtyping import TypeCheckError

from nn.models import config, model, tokens
from transformulary.nn import DTransformer
from transformulary.nn.slots import TABLES

X = [-3, -2, -1, -0.5, 0.5, 1, 2, 3]
ACTIVATIONS = {
    "gelu": [-0.004050, -0.045500, -0.158655, -0.154269, 0.345731, 0.841345, 1.954500, 2.995950],
    "gelu_tanh": [-0.003637, -0.045402, -0.158808, -0.154286, 0.345714, 0.841192, 1.954598, 2.996363],
    "relu": [0, 0, 0, 0, 0.5, 1, 2, 3],
    "silu": [-0.142278, -0.238406, -0.268941, -0.188770, 0.311230, 0.731059, 1.761594, 2.857722],
}


@pytest.mark.parametrize("name", TABLES["activation"])
def test_activations(name):
    """The exact GELU and the tanh form differ from the third decimal on, and each name means its own."""
    values = TABLES["activation"][name]()(torch.tensor(X, dtype=torch.float64))

    assert ACTIVATIONS[name] == pytest.approx(values.tolist(), abs=1e-6)


@pytest.mark.parametrize(
    ("norm", "eps", "expected"),
    [
        ("layer_norm", 0.0, [1.732051, -0.577350, -0.577350, -0.577350]),
        ("layer_norm", 1e-5, [1.732005, -0.577335, -0.577335, -0.577335]),
        ("rms_norm", 0.0, [2.0, 0, 0, 0]),
        ("rms_norm", 0.25, [2 / 2**0.5, 0, 0, 0]),
    ],
)
def test_norms(norm, eps, expected):
    """The variance is the population's (divided by d_e, not d_e - 1), and eps is added to it inside the root."""
    line = TABLES["norm"][norm](config(eps=eps), "beta", 4).double()

    assert expected == pytest.approx(line(torch.tensor([1.0, 0, 0, 0]).double()).tolist(), abs=1e-6)


@pytest.mark.parametrize(("ell", "same"), [(6, True), (7, True), (8, False)])
def test_dynamic_frequencies_begin_beyond_training(ell, same):
    """Up to ell_train tokens dynamic frequencies are those of the base; one token more turns them all."""
    plain = {"positions": "rotary", "d_attn": 4}
    dynamic = {"frequencies": "dynamic", "factor": 3.0, "ell_train": 7}
    x = tokens(config(), 1, ell)

    assert same == torch.equal(model(config(**plain))(x), model(config(**plain, **dynamic))(x))


def test_heads_need_not_divide_the_width():
    """With d_attn given, H heads of any width work: W_o maps H d_mid numbers to d_e."""
    fast = DTransformer(config(d_e=23, H=8, d_attn=25))

    assert (1, 4, 11) == fast(tokens(fast.config, 1, 4)).shape


def test_shapes_are_checked_in_tests():
    """A tensor of another shape than the signature says is refused: the hook of conftest.py is at work."""
    with pytest.raises(TypeCheckError):
        DTransformer(config())(torch.zeros(3, dtype=torch.int64))


def outside(code: str) -> str:
    """What a program prints in a fresh process, where no signature is checked."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return run.stdout.strip()


def test_formats_need_no_torch():
    """A config.json is read without importing torch."""
    assert outside("import sys, transformulary.formats; print('torch' in sys.modules)") == "False"


COMPILED = """
import torch
from nn.models import ARCHITECTURES, config, inputs, model

CHANGES = [{"positions": p} for p in ("rotary", "sinusoid", "relative", "bucketed")]
CHANGES += [{"positions": "rotary", "mask": "local(3)"}, {"mask": "prefix(2)"}, {"absent": {"b_k"}}]
ALL = [(kind, {}) for kind in ARCHITECTURES] + [(list(ARCHITECTURES)[0], change) for change in CHANGES]
for kind, change in ALL:
    fast, given = model(config(kind, **change)), inputs(config(kind, **change), 2, 6)
    compiled = torch.compile(fast, backend="eager", fullgraph=True)
    real = [torch.arange(x.shape[1]).expand_as(x) < x.shape[1] - 1 for x in given]
    padded = dict(zip(("real_z", "real_x") if len(given) == 2 else ("real",), real))
    for reals in ({}, padded):
        torch.compiler.reset()
        print(bool((compiled(*given, **reals) - fast(*given, **reals)).abs().max() < 1e-13))
"""


def test_compiles_as_one_graph():
    """Nothing in `forward` depends on the numbers, so that a compiler sees one graph; it computes the same."""
    assert {"True"} == set(outside(COMPILED).split())

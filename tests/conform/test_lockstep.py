"""The comparison in lockstep names the line that is wrong, and only that."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from strategies import d_configs
from transformulary.conform import compare, theta_of
from transformulary.errors import ConfigError
from transformulary.nn import DTransformer
from transformulary.nn.slots import POSITIONS
from transformulary.paper import DTransformerConfig

config = DTransformerConfig(N_V=31, ell_max=10, L=2, H=3, d_e=12, d_mlp=20, eps=1e-5, activation="gelu_tanh", tied=True)
X = [3, 1, 4, 1, 5, 9, 2]


def fast(c=config, seed=0):
    """A fast decoder in float64 whose parameters are all different from their first values."""
    generator = torch.Generator().manual_seed(seed)
    model = DTransformer(c).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn(p.shape, generator=generator))
    return model


def test_our_model_agrees():
    """A float64 fast model agrees with the oracle in all nine lines that compute a value, to rounding."""
    model = fast()

    report = compare(model, X, theta_of(model))

    assert str(report).startswith("Algorithm 10: 9 of 9 lines that compute a value agree, largest relative error ")
    assert report.worst.error < 1e-13


@settings(max_examples=20)
@given(d_configs(positions=[p for p in POSITIONS if p not in ("relative", "bucketed")]))
def test_every_variant_agrees(c):
    """Whatever the slots, every line agrees; a model with an embedding norm has one line more, 3a."""
    model = fast(c)

    report = compare(model, [0, 1, 1, 0], theta_of(model))

    assert [line.label for line in report.lines if not line.agrees] == []
    assert report.unseen == []
    assert len(report.lines) == (10 if c.embedding_norm else 9)


#: line -> a parameter that only this line reads.
READ_BY = {
    "2": "W_p.weight",
    "5": "layers.1.norm_1.weight",
    "6": "layers.1.attention.W_o.weight",
    "7": "layers.0.norm_2.bias",
    "8": "layers.1.mlp.W_mlp2.weight",
    "10": "norm.weight",
}


@pytest.mark.parametrize("label", READ_BY)
def test_names_the_line_that_is_wrong(label):
    """One element changed by 1e-6 is reported at the line that reads it, in its layer, and nowhere else."""
    model = fast()
    theta = theta_of(model)
    broken = copy.deepcopy(model)
    broken.state_dict()[READ_BY[label]].view(-1)[0] += 1e-6

    report = compare(broken, X, theta)

    wrong = [line for line in report.lines if not line.agrees]
    assert [line.label for line in wrong] == [label]
    at = READ_BY[label].split(".")
    assert wrong[0].at == f"10.{label}" + (f"[l={int(at[1]) + 1}]" if at[0] == "layers" else "")


def test_a_wrong_unembedding():
    """A wrong entry of an untied W_u is line 11."""
    c = DTransformerConfig(**config.to_dict() | {"tied": False})
    model = fast(c)
    theta = theta_of(model)
    model.W_u.weight.data[0, 0] += 1e-6

    report = compare(model, X, theta)

    assert [line.label for line in report.lines if not line.agrees] == ["11"]


def test_a_small_branch_beside_a_large_stream():
    """A branch that is a millionth of X is judged by what it adds: an error of one part in 1e4 there is seen."""
    model = fast()
    with torch.no_grad():
        model.W_e.weight.mul_(1e6)
        model.W_p.weight.mul_(1e6)
    theta = theta_of(model)
    with torch.no_grad():
        model.layers[0].mlp.W_mlp2.weight.mul_(1 + 1e-4)

    report = compare(model, X, theta, allowed=1e-7)

    assert [line.label for line in report.lines if not line.agrees] == ["8"]


def test_not_a_number_is_no_agreement():
    """A value that is not a number disagrees; it is never passed over."""
    model = fast()
    theta = theta_of(model)
    model.layers[1].norm_2.weight.data[0] = float("nan")

    report = compare(model, X, theta)

    assert not report.agrees
    assert report.worst.label == "7"


def test_single_precision_is_reported_as_it_is():
    """In float32 the errors are of the size of its rounding, and not below float64's bound."""
    model = fast()

    report = compare(model.float(), X, theta_of(model.float()))

    assert report.agrees
    assert 1e-8 < report.worst.error


def test_a_place_that_is_not_there():
    """A place that names no module is an error with its path."""
    from transformulary.conform.lockstep import see

    with pytest.raises(ConfigError, match=r"line 10\.3 is to be seen at embedding"):
        see(fast(), {"10.3": "embedding:out"}, config, X)


def test_the_model_is_left_as_it_was():
    """Comparing leaves no hook behind and the model in its mode."""
    model = fast().train()
    before = {name: p.clone() for name, p in model.named_parameters()}

    compare(model, X, theta_of(model))

    assert model.training
    assert not any(m._forward_hooks for m in model.modules())
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(p.detach().numpy(), before[name].detach().numpy())

"""What the table of known mistakes says of models that a mistake does not fit."""

import ast

import numpy as np
import pytest

from transformulary.conform.mistakes import BY_KEY, MISTAKES, ORDER, Mistake
from transformulary.conform.replay import Replay
from transformulary.conform.search import tried
from transformulary.oracle.source import read
from transformulary.oracle.theta import theta_from
from transformulary.paper import DTransformerConfig
from transformulary.paper.parameters import size

SIZES = {"N_V": 13, "ell_max": 4, "L": 1, "H": 2, "d_e": 8, "d_mlp": 12, "eps": 1e-5}
ROTARY = {"positions": "rotary", "norm": "rms_norm", "mlp": "gated"}
BIASES = frozenset({"b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u", "beta", "beta_1", "beta_2"})
CONFIGS = {
    "odd widths": DTransformerConfig(**SIZES, d_attn=3, d_mid=5),
    "grouped, no biases": DTransformerConfig(**SIZES, **ROTARY, H_kv=1, absent=BIASES),
    "normed queries": DTransformerConfig(**SIZES, positions="rotary", d_attn=6, qk_norm=True),
    "sinusoids": DTransformerConfig(**SIZES, positions="sinusoid_vaswani", embedding_norm=True),
}


def replay_of(config):
    rng = np.random.default_rng(0)
    theta = theta_from(config, lambda _, shape: rng.normal(size=[size(s, config) for s in shape.split()]))
    return Replay("10.11", {}, range(config.ell_max), theta, config, {})


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_mistake_that_makes_no_sense_says_so(config):
    """Every mistake, in a model of any shape, gives a value of its last line or is refused in so many words."""
    compute = replay_of(config)

    shapes = {mistake.key: np.shape(tried(compute, {mistake: 0})) for mistake in (*MISTAKES, *ORDER)}

    assert set(shapes.values()) <= {(config.N_V, config.ell_max), ()}


def test_two_mistakes_that_leave_nothing_of_a_line():
    """No attention and no residual connection: what is left is 0, of the shape of the line."""
    value = tried(replay_of(CONFIGS["odd widths"]), {BY_KEY["no-attention"]: 0, BY_KEY["no-residual-6"]: 0})

    assert value is not None


def test_an_error_of_the_table_is_not_hidden():
    """A mistake that is itself mistaken is not taken for one that makes no sense."""
    compute = replay_of(CONFIGS["odd widths"])

    with pytest.raises(AttributeError, match="no_such_setting"):
        tried(compute, {Mistake("broken", {"10.11": ("theta.b_u", "c.no_such_setting")}): 0})


def test_every_mistake_changes_a_line_that_is_there():
    """What a mistake replaces occurs once in its line: a change of the oracle's text cannot switch a mistake off."""
    source, lines = read(), {}
    for name, function in source.functions.items():
        for node in ast.walk(function):
            label = source.label(source.files[name], node) if isinstance(node, ast.Assign | ast.Return) else None
            if label:
                for line in (f"{source.numbers[name]}.{label}", source.numbers[name]):  # "4": a name in any line of it
                    lines.setdefault(line, []).append(ast.unparse(node.value))

    lost = [(m.key, at) for m in (*MISTAKES, *ORDER) for at, (old, _) in m.changes.items()
            if not any(text.count(old) == 1 for text in lines.get(at, []))]  # fmt: skip

    assert lost == []

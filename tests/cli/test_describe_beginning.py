"""What the page of a run says of its beginning, and of the order of chance, is how its parameters are made."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

from transformulary.cli import main
from transformulary.cli._runs import run_of
from transformulary.conform.theta import theta_of
from transformulary.paper import SLOTS, DTransformerConfig, parameters
from transformulary.paper.parameters import size, split
from transformulary.pseudocode import text
from transformulary.train import initial_model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of the command line."""
    place = tmp_path_factory.mktemp("run")
    (place / "a.txt").write_text("abcab bca", encoding="utf-8")
    sizes = "--L 1 --H 1 --d-e 2 --d-mlp 2 --ell-max 6 --steps 1 --held-out 0 --tokenizer characters --seed 4"
    assert main(["train", str(place / "a.txt"), "--out", str(place / "out"), *sizes.split()]) == 0
    return run_of(str(place / "out"))


SMALL = {"N_V": 5, "ell_max": 3, "L": 2, "H": 2, "d_e": 8, "d_mlp": 7, "eps": 1e-5}
BEGINNINGS = [
    *({slot: value} for slot, values in SLOTS.items() for value in values),
    *({name: True} for name in ("tied", "qk_norm", "embedding_norm")),
    {"absent": frozenset({"b_k"})}, {"absent": frozenset({"b_q", "b_k", "b_v"})}, {"absent": frozenset()},
    {"H_kv": 1, "d_attn": 4, "d_mid": 5},
]  # fmt: skip


def drawn_as_said(order, config, std, generator):
    """name -> matrices, one for every layer: drawn in the order of the sentence, with nothing else to go by."""
    shapes = {name: shape for name, array in parameters(config).items() for name, shape in _flat(name, array)}
    found = {}
    tables, layer, *unembedding = order.split("; ")
    layer = layer.removeprefix("of every layer ")
    for part in [tables, *[layer] * config.L, *unembedding]:
        for words in re.split(", (?!W_k and)", part):
            names = re.findall(r"W_\w+", words)
            sizes = [[size(word, config) for word in shapes[name][0].split()] for name in names]
            counts = [size(shapes[name][1], config) if shapes[name][1].startswith("H") else 1 for name in names]
            assert ("of all heads" in words) == shapes[names[0]][1].startswith("H")
            assert ("as one matrix" in words) == (len(names) > 1)
            scale = math.sqrt(2 * config.L) if names[0] in ("W_o", "W_mlp2") else 1
            rows = [count * high for count, (high, _) in zip(counts, sizes, strict=True)]
            shape = (sum(rows), sizes[0][1])
            by_columns = names[0] in ("W_e", "W_p")
            one = torch.empty(shape[::-1] if by_columns else shape).normal_(0, std / scale, generator=generator)
            for name, matrix, count in zip(names, (one.T if by_columns else one).split(rows), counts, strict=True):
                found.setdefault(name, []).append(matrix.chunk(count))
    return found


def _flat(name, shape):
    name, count = split(name)
    return [(name, (shape, count))] if isinstance(shape, str) else [p for one in shape.items() for p in _flat(*one)]


def called(changes):
    """A name for a test, in which sets have an order."""
    return str({name: sorted(value) if isinstance(value, frozenset) else value for name, value in changes.items()})


@pytest.mark.parametrize("changes", BEGINNINGS, ids=called)
def test_the_beginning_drawn_as_said(changes, run):
    """Whatever a decoder chooses, drawing as the page says gives the parameters of its beginning to the digit."""
    config = DTransformerConfig(**SMALL | changes)
    said = [text.line(row) for row in replace(run, config=config).said()]
    order = next(row for row in said if "drawn in this order" in row).partition("in float32: ")[2].rstrip(".")
    begins = next(row for row in said if row.startswith("Beginning:"))
    drawn = drawn_as_said(order, config, run.settings.init_std, torch.Generator().manual_seed(run.settings.seed))
    theta = theta_of(initial_model(config, run.settings))

    for path, array in theta.items():
        name, numbers = re.sub(r"^W\[\d\]\.|\[\d\]", "", path), [int(n) - 1 for n in re.findall(r"\[(\d)\]", path)]
        if array.ndim == 2:
            layer, head, *_ = *numbers, 0, 0
            np.testing.assert_array_equal(array, drawn[name][layer][head].numpy(), err_msg=path)
            continue
        kind = {"b": "biases", "beta": "β", "gamma": "γ"}.get(name.split("_")[0], name)
        zero, _, one = re.search(r"; (?:(.*) are 0(, )?)?(?:(.*) are 1)?\.$", begins).groups(default="")
        assert kind in re.split(", | and ", one if array.all() else zero), path
        assert array.min() == array.max() in (0, 1)


def test_dropout_is_not_repeated_from_the_page(run):
    """A run with dropout says that the page is not enough to repeat it; others have no such line."""
    pages = []
    for p in (0.0, 0.1):
        dropping = replace(run, settings=replace(run.settings, dropout=p))
        pages.append("\n".join(map(text.line, dropping.said())))

    assert "With dropout this run cannot be repeated from the page alone" in pages[1]
    assert "cannot be repeated" not in pages[0]


def test_held_out_windows_that_were_left_out(run):
    """Where a measurement read fewer targets than there are, the page says that its windows are spread evenly."""
    pages = []
    for tokens in (40, 39):
        record = run.record | {
            "corpus": run.record["corpus"] | {"held out": {"sequences": 2, "tokens": 42}},
            "measured": {"step": 1, "nats_per_token": 1.5, "tokens": tokens},
        }
        pages.append("\n".join(map(text.line, replace(run, record=record).said())))

    assert ["spread evenly" in page for page in pages] == [False, True]

"""Weights that stand in each other's place, are another matrix, or are one too many: said of the weights, proven."""

from dataclasses import replace

import pytest
import torch
import transformers
from torch import nn

import huggingface as hf
from conform.ordinary import GPT, LLAMA, PLACES, build
from conform.test_faults import LOGITS
from transformulary.conform.run import conform

X = [3, 1, 4, 1, 5, 9, 2, 6]


def exchange(*pairs):
    """Names of tensors, each pair exchanged."""

    def plant(model):
        for a, b in pairs:
            one, other = model.get_parameter(a), model.get_parameter(b)
            one.data, other.data = other.data, one.data

    return plant


def in_every_layer(a, b):
    return exchange(*((f"blocks.{l}.{a}", f"blocks.{l}.{b}") for l in range(3)))


def exchange_layers(model):
    for one, other in zip(model.blocks[0].parameters(), model.blocks[1].parameters(), strict=True):
        one.data, other.data = other.data, one.data


def another_matrix(model):
    model.head.weight = nn.Parameter(model.head.weight.flip(0).clone())


def tie(model):
    model.head.weight = model.wte.weight


def another_bias(model):
    model.head.bias = nn.Parameter(model.head.bias.flip(0).clone())


def change_one_number(model):
    model.blocks[1].mlp.down.weight.data[3, 4] += 0.01


def share(name, layer, other):
    """A layer's module is another layer's."""

    def plant(model):
        setattr(model.blocks[layer - 1], name, model.blocks[other - 1].get_submodule(name))

    return plant


def add_bias(model):
    model.head.bias = nn.Parameter(torch.linspace(-1, 1, 37).double())


PLANTED = {
    "gammas of a layer": (GPT, exchange(("blocks.1.ln_1.weight", "blocks.1.ln_2.weight")),
                          "gamma_1 and gamma_2 are exchanged in layer 2"),
    "gammas of a Llama": (LLAMA, exchange(("blocks.0.ln_1.weight", "blocks.0.ln_2.weight")),
                          "gamma_1 and gamma_2 are exchanged in layer 1"),
    "W_q and W_k": (GPT, exchange(("blocks.2.attn.q.weight", "blocks.2.attn.k.weight")),
                    "W_q and W_k are exchanged in layer 3"),
    "W_q and W_k everywhere": (GPT, in_every_layer("attn.q.weight", "attn.k.weight"),
                               "W_q and W_k are exchanged in layers 1, 2, 3"),
    "W_q of two layers": (GPT, exchange(("blocks.0.attn.q.weight", "blocks.1.attn.q.weight")),
                          "layers 1, 2 of W_q stand in each other's place, as their names count them"),
    "two layers": (GPT, exchange_layers, "layers 1, 2 stand in each other's place, as their names count them"),
    "unembedding untied": (GPT, another_matrix, "head.weight is not W_e, and this model ties them"),
    "unembedding tied": (LLAMA, tie, "the unembedding is W_e transposed, and this model has a W_u of its own"),
    "a norm of another layer": (GPT, share("ln_1", 2, 1), "layer 2 computes with gamma_1, beta_1 of layer 1"),
    "an MLP of another layer": (LLAMA, share("mlp", 2, 3),
                                "layer 2 computes with W_mlp1, W_mlp2, W_mlp3 of layer 3"),
    "a changed number": (GPT, change_one_number, "W_mlp2[2]: it differs, by 1.6e-03 of its size"),
    "another b_u": (GPT, another_bias, "b_u: the same numbers in an order that nobody knows"),
    "stray b_u": (LLAMA, add_bias, "head.bias is a bias b_u, and this model has none"),
}  # fmt: skip


@pytest.mark.parametrize("view", [PLACES, LOGITS], ids=["all lines", "logits"])
@pytest.mark.parametrize(("kind", "plant", "says"), PLANTED.values(), ids=PLANTED)
def test_wrong_weights_are_the_answer(kind, plant, says, view):
    """What is wrong with the weights is said, and that with this one change everything agrees."""
    model, table, ref = build(kind, places=view)
    plant(model)

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert report.answer[0] == f"Weights: {says}."
    assert report.answer[1].startswith("With this one change everything")
    assert (report.status, report.agreement < 1e-12) == (1, True)
    assert {row.line for row in report.rows if row.status == "differs"}


def test_a_mistake_beside_wrong_weights():
    """The lines are judged beside an oracle that holds what they hold."""
    model, table, ref = build(replace(GPT, faults={"act-ReLU": 0}))
    exchange_layers(model)

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert [fault.key for fault in report.faults] == ["weights", "act-ReLU"]


def test_names_alone_are_no_evidence():
    """A right model whose modules bear each other's names agrees, and its names are not remarked on."""
    model, table, ref = build(GPT)
    for block in model.blocks:
        block.attn.q, block.attn.k = block.attn.k, block.attn.q
        split = block.attn.project
        block.attn.project = lambda layer, x, name, split=split, attn=block.attn: split(
            {"q": attn.k, "k": attn.q}.get(name, layer), x, name
        )

    report = conform(model, ref, tokens=X, table=table, decoding=False)

    assert report.status == 0, report
    assert {note.status for note in report.notes} == {"agrees"}


def test_a_number_of_q_k_and_v_as_one(tmp_path):
    """A tensor that is three of ours is put into all three."""
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    small = transformers.GPT2Config(vocab_size=37, n_positions=24, n_embd=12, n_layer=2, n_head=2, **ids)
    model = hf.randomise(transformers.GPT2LMHeadModel(small))
    model.save_pretrained(tmp_path)
    model.transformer.h[1].attn.c_attn.weight.data[3, 4] += 0.01

    report = conform(model, tmp_path, tokens=X, decoding=False)

    assert report.answer[:2] == [
        "Weights: W_qkv[2]: it differs, by 3.3e-03 of its size.",
        f"With this one change everything agrees to {report.agreement:.0e}.",
    ]

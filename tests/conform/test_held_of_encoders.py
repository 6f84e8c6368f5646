"""What an encoder or an encoder-decoder holds in place of its weights is said of the weights, proven."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from conform.ordinary_encoders import BERT, LOGITS, SEQ2SEQ, T5, build
from conform.test_faults_of_encoders import SEGMENTS, X, Z
from transformulary.conform import conform

SQUARE = replace(BERT, vocab=24)


def exchange(*pairs):
    """Names of modules, each pair exchanged: all that the first has."""

    def plant(model):
        for a, b in pairs:
            one, other = model.get_submodule(a), model.get_submodule(b)
            for name, p in one.named_parameters():
                q = other.get_parameter(name)
                p.data, q.data = q.data, p.data

    return plant


def parameters(*pairs):
    """Names of parameters, each pair exchanged."""

    def plant(model):
        for a, b in pairs:
            one, other = model.get_parameter(a), model.get_parameter(b)
            one.data, other.data = other.data, one.data

    return plant


def change(name, by=0.01):
    def plant(model):
        model.get_parameter(name).data.view(-1)[7] += by

    return plant


def turn(*names):
    """Modules, each of which has what the next should have; the last, what the first should have."""
    return exchange(*zip(names[:-1], names[1:], strict=True))


def untie(model):
    model.logits.weight = nn.Parameter(model.logits.weight.flip(0).clone())


def own_source(model):
    """The encoder reads another table than the decoder does."""
    model.source = type(model.embedding)(model.s).double()
    nn.init.normal_(model.source.tokens.weight, generator=torch.Generator().manual_seed(5))
    both = model.embedding.forward
    model.embedding.forward = lambda ids, side=0, ell_z=0: (model.source if side == 1 else both)(ids, side, ell_z)


def no_bias(model):
    model.logits.bias.data.zero_()


def other_bias(model):
    model.logits.bias.data = model.logits.bias.data.flip(0)


def stray_bias(model):
    model.logits.bias = nn.Parameter(torch.linspace(-1, 1, 37).double())


PLANTED = {
    "gammas": (BERT, parameters(("encoder.blocks.1.norms.0.weight", "encoder.blocks.1.norms.1.weight")),
               "gamma_1 and gamma_2 are exchanged in layer 2"),
    "norms": (BERT, exchange(("encoder.blocks.0.norms.0", "encoder.blocks.0.norms.1")),
              "gamma_1 and gamma_2, beta_1 and beta_2 are exchanged in layer 1"),
    "queries and keys": (BERT, exchange(*((f"encoder.blocks.{l}.attn.q", f"encoder.blocks.{l}.attn.k") for l in (0, 1))),
                         "W_q and W_k, b_q and b_k are exchanged in layers 1, 2"),
    "layers": (BERT, exchange(("encoder.blocks.0", "encoder.blocks.1")),
               "layers 1, 2 stand in each other's place, as their names count them"),
    "norms outside": (BERT, exchange(("ln_e", "ln_h")), "gamma_x and gamma, beta_x and beta are exchanged"),
    "tables": (SQUARE, exchange(("embedding.tokens", "embedding.wpe")), "W_e and W_p are exchanged"),
    "untied": (BERT, untie, "logits.weight is not W_e, and this model ties them"),
    "no bias": (BERT, no_bias, "b_u: it is still as initialised: all 0"),
    "another bias": (BERT, other_bias, "b_u: the same numbers in an order that nobody knows"),
    "a number": (BERT, change("dense.weight"), "W_f: it differs, by 1.4e-03 of its size"),
    "a segment": (BERT, change("segments.weight"), "W_s: it differs, by 4.7e-03 of its size"),
    "three norms": (SEQ2SEQ, turn(*(f"decoder.blocks.1.norms.{k}" for k in (0, 1, 2))),
                    "gamma_3, gamma_4 and gamma_5, beta_3, beta_4 and beta_5 are exchanged in layer 2"),
    "norms of a decoder": (SEQ2SEQ, exchange(("decoder.blocks.2.norms.0", "decoder.blocks.2.norms.2")),
                           "gamma_3 and gamma_5, beta_3 and beta_5 are exchanged in layer 3"),
    "attentions": (SEQ2SEQ, exchange(("decoder.blocks.1.attn", "decoder.blocks.1.cross")),
                   "W_dec and W_ed are exchanged in layer 2"),
    "attentions everywhere": (T5, exchange(*((f"decoder.blocks.{l}.attn", f"decoder.blocks.{l}.cross") for l in (0, 1, 2))),
                              "W_dec and W_ed are exchanged in layers 1, 2, 3"),
    "queries of attentions": (SEQ2SEQ, exchange(("decoder.blocks.0.attn.q", "decoder.blocks.0.cross.q")),
                              "W_dec.W_q and W_ed.W_q, W_dec.b_q and W_ed.b_q are exchanged in layer 1"),
    "queries and keys of cross-attention": (
        SEQ2SEQ, exchange(("decoder.blocks.0.cross.q", "decoder.blocks.0.cross.k")),
        "W_ed.W_q and W_ed.W_k, W_ed.b_q and W_ed.b_k are exchanged in layer 1"),
    "stacks": (SEQ2SEQ, exchange(("encoder.blocks.1.attn", "decoder.blocks.1.attn"), ("encoder.blocks.1.mlp", "decoder.blocks.1.mlp"),
                                 *((f"encoder.blocks.1.norms.{k}", f"decoder.blocks.1.norms.{k}") for k in (0, 1))),
               "the encoder and the decoder are exchanged in layer 2"),
    "MLPs of stacks": (T5, exchange(("encoder.blocks.0.mlp", "decoder.blocks.0.mlp")),
                       "W_mlp1 and W_mlp3, W_mlp2 and W_mlp4 are exchanged in layer 1"),
    "layers of the decoder": (SEQ2SEQ, turn(*(f"decoder.blocks.{l}" for l in range(3))),
                              "layers 1, 2, 3 of the decoder stand in each other's place, as their names count them"),
    "buckets": (T5, exchange(("encoder.bias", "decoder.bias")), "B_enc and B_dec are exchanged"),
    "last norms": (T5, exchange(("encoder.ln_f", "decoder.ln_f")), "gamma_enc and gamma_dec are exchanged"),
    "a number of cross-attention": (SEQ2SEQ, change("decoder.blocks.2.cross.o.weight"),
                                    "W_ed.W_o[3]: it differs, by 1.4e-03 of its size"),
    "buckets' number": (T5, change("decoder.bias.weight"), "B_dec: it differs, by 3.2e-03 of its size"),
    "another table of z": (SEQ2SEQ, own_source, "source.tokens.weight is not W_e, and this model ties them"),
    "stray b_u": (T5, stray_bias, "logits.bias is a bias b_u, and this model has none"),
}  # fmt: skip


def report_of(kind, plant, view=None):
    model, table, ref = build(kind, places=view and view[kind.kind])
    plant(model)
    read = {"segments": SEGMENTS} if kind.kind == "bert" else {"context_tokens": Z}
    return conform(model, ref, tokens=X, table=table, decoding=False, **read)


@pytest.mark.parametrize("view", [None, LOGITS], ids=["all lines", "logits"])
@pytest.mark.parametrize(("kind", "plant", "says"), PLANTED.values(), ids=PLANTED)
def test_wrong_weights_are_the_answer(kind, plant, says, view):
    """What is wrong with the weights is said, and that with this one change everything agrees."""
    report = report_of(kind, plant, view)

    assert report.answer[0] == f"Weights: {says}."
    assert report.answer[1].startswith("With this one change everything")
    assert (report.status, report.agreement < 1e-12) == (1, True)

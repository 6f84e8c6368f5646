"""What an encoder or an encoder-decoder holds in place of its weights is said of the weights, proven."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
import transformers
from torch import nn

import huggingface as hf
from conform.ordinary_encoders import BERT, LOGITS, SEQ2SEQ, T5, Block, build
from conform.test_faults_of_encoders import SEGMENTS, X, Z
from conform.test_held import exchange as parameters
from conform.test_no_false_alarm_of_encoders import BERT as BERT_OF_TRANSFORMERS
from conform.test_no_false_alarm_of_encoders import MARIAN, MODELS
from transformulary.conform import conform
from transformulary.conform.held import held
from transformulary.conform.reference import reference
from transformulary.conform.weights import compare_weights

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


def in_layers(name, other, *layers):
    """Two names with a layer, exchanged in some layers."""
    return exchange(*((name.format(l=l), other.format(l=l)) for l in layers))


def change(name, by=0.01):
    def plant(model):
        model.get_parameter(name).data.view(-1)[7] += by

    return plant


def turn(*names):
    """Modules, each of which has what the next should have; the last, what the first should have."""
    return exchange(*pairwise(names))


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
    "queries and keys": (BERT, in_layers("encoder.blocks.{l}.attn.q", "encoder.blocks.{l}.attn.k", 0, 1),
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
    "attentions everywhere": (T5, in_layers("decoder.blocks.{l}.attn", "decoder.blocks.{l}.cross", 0, 1, 2),
                              "W_dec and W_ed are exchanged in layers 1, 2, 3"),
    "queries of attentions": (SEQ2SEQ, exchange(("decoder.blocks.0.attn.q", "decoder.blocks.0.cross.q")),
                              "W_dec.W_q and W_ed.W_q, W_dec.b_q and W_ed.b_q are exchanged in layer 1"),
    "within cross-attention": (SEQ2SEQ, exchange(("decoder.blocks.0.cross.q", "decoder.blocks.0.cross.k")),
                               "W_ed.W_q and W_ed.W_k, W_ed.b_q and W_ed.b_k are exchanged in layer 1"),
    "stacks": (SEQ2SEQ, exchange(*((f"encoder.blocks.1.{name}", f"decoder.blocks.1.{name}")
                                   for name in ("attn", "mlp", "norms.0", "norms.1"))),
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


def suggested(model, ref):
    theirs = {name: p.detach().double().numpy() for name, p in model.named_parameters()}
    return [found.says for found in held(compare_weights(theirs, ref.theta, ref.config), theirs, ref)]


@pytest.mark.parametrize("kind", [BERT, SQUARE, SEQ2SEQ, T5], ids=["bert", "square", "seq2seq", "t5"])
def test_right_names_suggest_nothing(kind):
    """Where numbers stand where names say, there is nothing to try."""
    model, _, ref = build(kind)

    assert suggested(model, ref) == []


def test_wrong_weights_beside_each_other_from_logits_alone():
    """None of two wrong things explains the logits alone; both do."""

    def plant(model):
        exchange(("encoder.blocks.1.norms.0", "encoder.blocks.1.norms.1"))(model)
        change("dense.weight")(model)

    report = report_of(BERT, plant, LOGITS)

    assert report.answer[:2] == [
        "Weights: W_f: it differs, by 1.4e-03 of its size.",
        "Weights: gamma_1 and gamma_2, beta_1 and beta_2 are exchanged in layer 2.",
    ]
    assert report.answer[2].startswith("With these 2 changes everything")


def test_a_mistake_beside_wrong_weights():
    """The lines are judged beside an oracle that holds what they hold."""
    plant = exchange(("decoder.blocks.1.attn", "decoder.blocks.1.cross"))

    report = report_of(replace(SEQ2SEQ, faults={"memory-own": 0}), plant)

    assert [fault.key for fault in report.faults] == ["weights", "memory-own"]


def test_names_alone_are_no_evidence():
    """A right model whose norms bear each other's names agrees, and its names are not remarked on."""
    model, table, ref = build(BERT, places=LOGITS["bert"])
    for block in model.encoder.blocks:
        block.norms = block.norms[::-1]
        block.step = lambda x, part, _, line, k, block=block: Block.step(block, x, part, block.norms[1 - k], line, k)

    report = conform(model, ref, tokens=X, segments=SEGMENTS, table=table, decoding=False)

    assert suggested(model, ref) == ["gamma_1 and gamma_2, beta_1 and beta_2 are exchanged in layers 1, 2"]
    assert report.status == 0, report
    assert {note.status for note in report.notes} == {"agrees"}


def test_code_that_confuses_is_no_wrong_weight():
    """Where names say that the weights are right, what exchanges them is the code."""
    report = report_of(replace(BERT, faults={"norm-1-for-2": 1, "norm-2-for-1": 1}), lambda model: None)

    assert {fault.key for fault in report.faults} == {"norm-1-for-2", "norm-2-for-1"}


def test_other_weights_are_not_explained_one_by_one():
    """Where most weights are others, the notes say so, and every line that differs is told."""
    _, table, ref = build(SEQ2SEQ)
    other, _, _ = build(SEQ2SEQ, seed=1)

    report = conform(other, ref, tokens=X, context_tokens=Z, table=table, decoding=False)

    assert not [fault for fault in report.faults if fault.key == "weights"]
    assert {fault.line for fault in report.faults} >= {f"Algorithm 8, line {n}" for n in (3, 5, 12, 14, 21)}


def test_weights_that_all_differ_a_little_are_held_together():
    """With other weights in every tensor, which the oracle can hold, everything agrees."""

    def plant(model):
        generator = torch.Generator().manual_seed(3)
        for p in model.parameters():
            p.data += 0.01 * torch.randn(p.shape, generator=generator)

    report = report_of(BERT, plant, LOGITS)

    assert {fault.key for fault in report.faults} == {"weights"}
    assert report.agreement < 1e-12


LAYER, DECODER, GATED = "bert.encoder.layer.{l}", "model.decoder.layers.{l}", "encoder.block.{l}.layer.1.DenseReluDense"
STACKS = ("encoder", "decoder")
LIKE = ("self_attn", "self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")


def share_positions(model):
    model.model.decoder.embed_positions = model.model.encoder.embed_positions


def share_source(model):
    model.model.encoder.embed_tokens = model.model.decoder.embed_tokens


def tie(model):
    model.cls.predictions.decoder.weight = model.bert.embeddings.word_embeddings.weight


RELEASED = {
    "norms": ("masked", in_layers(f"{LAYER}.attention.output.LayerNorm", f"{LAYER}.output.LayerNorm", 0, 1),
              "gamma_1 and gamma_2, beta_1 and beta_2 are exchanged in layers 1, 2"),
    "query": ("masked", in_layers(f"{LAYER}.attention.self.query", f"{LAYER}.attention.self.key", 1),
              "W_q and W_k, b_q and b_k are exchanged in layer 2"),
    "value": ("classes", in_layers(f"{LAYER}.attention.self.value", f"{LAYER}.attention.output.dense", 1),
              "W_v and W_o, b_v and b_o are exchanged in layer 2"),
    "layers": ("vectors", exchange(("encoder.layer.0", "encoder.layer.1")),
               "layers 1, 2 stand in each other's place, as their names count them"),
    "embedding": ("masked", exchange(("bert.embeddings.LayerNorm", "cls.predictions.transform.LayerNorm")),
                  "gamma_x and gamma, beta_x and beta are exchanged"),
    "cross-attention": ("bart", in_layers(f"{DECODER}.self_attn", f"{DECODER}.encoder_attn", 0, 1, 2),
                        "W_dec and W_ed are exchanged in layers 1, 2, 3"),
    "its norm": ("bart", in_layers(f"{DECODER}.encoder_attn_layer_norm", f"{DECODER}.final_layer_norm", 1),
                 "gamma_4 and gamma_5, beta_4 and beta_5 are exchanged in layer 2"),
    "stacks": ("bart", exchange(*([f"model.{stack}.layers.1.{name}" for stack in STACKS] for name in LIKE)),
               "the encoder and the decoder are exchanged in layer 2"),
    "positions": ("bart", exchange(("model.encoder.embed_positions", "model.decoder.embed_positions")),
                  "W_p and W_p_z are exchanged"),
    "gate": ("t5 1.1", in_layers(f"{GATED}.wi_0", f"{GATED}.wi_1", 0),
             "W_mlp1 and W_mlp5 are exchanged in layer 1"),
    "shared positions": ("bart", share_positions,
                         "the table of positions is W_p_z, and this model has a W_p of its own"),
    "shared source": ("two tables", share_source, "the embedding of z is W_e, and this model has a W_e_z of its own"),
    "tables of tokens": ("two tables", exchange(("model.encoder.embed_tokens", "model.decoder.embed_tokens")),
                         "W_e and W_e_z are exchanged"),
    "tied": ("untied", tie, "the unembedding is W_e transposed, and this model has a W_u of its own"),
}  # fmt: skip


TWO_TABLES = transformers.MarianConfig(**MARIAN.to_diff_dict() | {"share_encoder_decoder_embeddings": False})
UNTIED = transformers.BertConfig(**BERT_OF_TRANSFORMERS.to_diff_dict() | {"tie_word_embeddings": False})
KINDS = MODELS | {"two tables": ("MarianMTModel", TWO_TABLES), "untied": ("BertForMaskedLM", UNTIED)}


def released(name, folder):
    """A random model of `transformers`, whose checkpoint is written."""
    kind, config = KINDS[name]
    hf.randomise(getattr(transformers, kind)(config), 1).float().save_pretrained(folder)
    return getattr(transformers, kind).from_pretrained(folder).double()


@pytest.mark.parametrize(("name", "plant", "says"), RELEASED.values(), ids=RELEASED)
def test_released_models(tmp_path, name, plant, says):
    """BERT, BART and T5 of `transformers`, by their own names; without the exchange nothing is suggested."""
    model = released(name, tmp_path)
    before = suggested(model, reference(tmp_path))
    plant(model)

    report = conform(model, tmp_path, decoding=False)

    assert before == []
    assert report.answer[0] == f"Weights: {says}."
    assert report.answer[1].startswith("With this one change everything")


def test_a_bias_that_was_not_loaded(tmp_path):
    """A bias b_u that a library holds under two names, all 0, is one wrong weight and no mistake of a line."""
    model = released("masked", tmp_path)
    model.cls.predictions.bias.data.zero_()

    report = conform(model, tmp_path, decoding=False)

    assert report.answer[0] == "Weights: b_u: it is still as initialised: all 0."
    assert [fault.key for fault in report.faults] == ["weights"]

"""A small Marian with the vocabularies of two languages, as a folder."""

import io
import json

import pytest
import torch

from nn.models import model
from transformulary import models
from transformulary.paper import EDTransformerConfig
from transformulary.tokens import Tokenizer

sentencepiece = pytest.importorskip("sentencepiece")

LINES = ["the cat sat on the mat", "dogs", "a dog and a cat", "on and on and on and on", "mat"]


def sentence_pieces(seed):
    """The bytes of a SentencePiece model learned from a few lines."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES[seed:] * 5), model_writer=content, hard_vocab_limit=False, minloglevel=2,
        model_type="unigram", vocab_size=30, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
    )  # fmt: skip
    return content.getvalue()


def save_marian(folder, **generation):
    """A random Marian with the vocabularies of two languages, whose pad token begins an answer."""
    names = {"</s>": 0, "<unk>": 1}
    for side, seed in (("source", 0), ("target", 1)):
        (folder / f"{side}.spm").write_bytes(content := sentence_pieces(seed))
        package = sentencepiece.SentencePieceProcessor(model_proto=content)
        for i in range(3, package.get_piece_size()):
            names.setdefault(package.id_to_piece(i), len(names))
    pad = names.setdefault("<pad>", len(names))
    (folder / "vocab.json").write_text(json.dumps(names))
    c = EDTransformerConfig(
        N_V=len(names), ell_max=64, L_enc=1, L_dec=2, H=2, d_e=16, d_mlp=24, activation="silu", eps=1e-5,
        positions="sinusoid_halves", embedding_scale="sqrt", tied=True, absent=(),
    )  # fmt: skip
    fast = model(c, 1)
    with torch.no_grad():
        for name, theta in fast.named_parameters():
            theta.mul_(5 if theta.dim() == 2 and name != "W_e.weight" else 1)
        fast.decoder[1].norm_5.weight.mul_(3)
        fast.W_u.bias[0] += 5
    said = {"decoder_start_token_id": pad, "bad_words_ids": [[pad]], "max_length": 12}
    models.save(folder, fast, Tokenizer.load(folder), said | generation)
    return str(folder)

"""Configs of BERT, Marian and BART as `transformers` writes them: which model they mean, and what is refused."""

import pytest
import transformers

import huggingface
from formats.least import LEAST
from transformulary.errors import CheckpointError
from transformulary.formats import understood
from transformulary.formats.bart import BART
from transformulary.formats.bert import BERT
from transformulary.formats.marian import MARIAN


@pytest.mark.parametrize("make", [huggingface.bert, huggingface.marian])
def test_the_config_of_a_model(make):
    """What the library saves with a model is read as the config with which the oracle computes the same numbers."""
    model, c, _ = make()

    assert understood(model.config.to_dict() | {"dtype": "float64"}, "config.json")[1] == c


@pytest.mark.parametrize(
    ("form", "theirs"),
    [(BERT, transformers.BertConfig), (MARIAN, transformers.MarianConfig), (BART, transformers.BartConfig)],
)
def test_what_is_missing_is_their_default(form, theirs):
    """A config.json that says its sizes and nothing more has the rest as the library's default model."""
    _, all_said = understood(theirs().to_dict(), "config.json")

    assert understood(LEAST[form.model_type], "config.json") == (form, all_said)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("bert", {"position_embedding_type": "relative_key"}, "position_embedding_type = 'relative_key' is not comput"),
        ("bert", {"is_decoder": True}, "is_decoder = True is not computed"),
        ("bert", {"hidden_act": "mish"}, "hidden_act = 'mish' is none of"),
        ("bert", {"hiden_size": 8}, "hiden_size = 8 has no rule.*Did you mean hidden_size?"),
        (
            "bert",
            {"type_vocab_size": -1},
            "type_vocab_size: ETransformerConfig: segments = -1 must be a whole number, at least 0",
        ),
        ("marian", {"normalize_before": True}, "normalize_before = True is not computed"),
        ("marian", {"decoder_ffn_dim": 8}, "encoder_ffn_dim = 4096, decoder_ffn_dim = 8: .* one d_mlp for both"),
        ("marian", {"decoder_attention_heads": 8}, "encoder_attention_heads = 16, decoder_attention_heads = 8"),
        ("marian", {"decoder_vocab_size": 7}, "vocab_size = 58101, decoder_vocab_size = 7"),
        ("marian", {"num_hidden_layers": 7}, "encoder_layers = 12, num_hidden_layers = 7"),
        ("marian", {"tie_word_embeddings": False}, "tie_word_embeddings = False and share_.* is anyone's guess"),
        ("marian", {"tie_word_embeddings": 1}, "tie_word_embeddings = 1 is neither true nor false"),
        ("bart", {"normalize_embedding": False}, "normalize_embedding = False is not computed"),
        ("bart", {"extra_pos_embeddings": 0}, "extra_pos_embeddings = 0 is not computed"),
        ("bart", {"tie_word_embeddings": None}, "tie_word_embeddings = None is neither true nor false"),
        ("bart", {"decoder_vocab_size": 7}, "decoder_vocab_size = 7 has no rule"),
        ("marian", {"scale_embedding": "yes"}, "scale_embedding = 'yes' is none of True, False"),
    ],
)
def test_what_we_do_not_compute(kind, change, message):
    """A value that would change the numbers, and a key that nobody knows, are refused by name."""
    with pytest.raises(CheckpointError, match=rf"^config\.json: {message}"):
        understood(LEAST[kind] | change, "config.json")

"""Greedy and beam search of encoder-decoders: the sequences of `transformers` on the same random weights."""

import pytest
import torch
import transformers

from huggingface import marian, randomise
from transformulary import models
from transformulary.formats import AnswerDefaults
from transformulary.generate import EDInference, Sampling
from transformulary.ragged import padded

Z = [[2, 3, 4, 5, 1], [7, 1], [9, 8, 30, 31, 32, 11, 1], [5, 5, 5, 1]]
ENDS = {"eos_token_id": [1, 6, 20], "pad_token_id": 36, "decoder_start_token_id": 36}
#: What generation_config.json may say, each of which changes something here.
SAID = [
    {"num_beams": 1},
    {"num_beams": 4},
    {"num_beams": 3, "length_penalty": 0.0, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": 2.0, "early_stopping": "never"},
    {"num_beams": 3, "length_penalty": 2.0, "early_stopping": True},
    {"num_beams": 5, "length_penalty": -1.0},
    {"num_beams": 2, "eos_token_id": 1},
    {"num_beams": 4, "bad_words_ids": [[36], [1]], "forced_eos_token_id": 1, "renormalize_logits": True},
    {"num_beams": 4, "bad_words_ids": [[36]], "suppress_tokens": [3, 4, 17]},
    {"num_beams": 3, "forced_bos_token_id": 12, "forced_eos_token_id": 1},
    {"num_beams": 3, "no_repeat_ngram_size": 2, "min_length": 4},
    {"num_beams": 1, "no_repeat_ngram_size": 1, "min_new_tokens": 5},
    {"num_beams": 4, "no_repeat_ngram_size": 3, "min_length": 6, "length_penalty": 2.0, "early_stopping": True},
]


def t5(seed):
    config = transformers.T5Config(
        vocab_size=37, d_model=16, d_kv=4, d_ff=20, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return randomise(transformers.T5ForConditionalGeneration(config), seed)


def bart(seed):
    config = transformers.BartConfig(
        vocab_size=37, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=20, decoder_ffn_dim=20, max_position_embeddings=16,
        pad_token_id=36, bos_token_id=0, eos_token_id=1, decoder_start_token_id=36, forced_eos_token_id=None,
    )  # fmt: skip
    return randomise(transformers.BartForConditionalGeneration(config), seed)


MODELS = {"bart": bart, "marian": lambda seed: marian(seed)[0], "t5": t5}


@pytest.fixture(scope="module", params=[("bart", 0), ("marian", 0), ("t5", 2)], ids=str)
def pair(request, tmp_path_factory):
    """Their model, made to say more than one thing, and ours, read from its files."""
    kind, seed = request.param
    theirs = MODELS[kind](seed)
    theirs.generation_config = transformers.GenerationConfig()
    with torch.no_grad():
        for name, theta in theirs.named_parameters():
            if "decoder.final_layer_norm" in name or "decoder.layers.1.final_layer_norm" in name:
                theta.mul_({"bart": 4, "marian": 4, "t5": 12}[kind])
            elif theta.dim() == 2 and "shared" not in name and "positions" not in name:
                theta.mul_(6)
    folder = tmp_path_factory.mktemp(kind)
    theirs.save_pretrained(folder)
    return theirs, models.load(folder)


@pytest.mark.parametrize("said", SAID, ids=str)
def test_same_sequences(pair, said):
    """What generation_config.json says gives their sequences, with each context's length its own."""
    theirs, ours = pair
    said = ENDS | {"max_length": 10} | said
    x, real = padded(Z)

    rows = theirs.generate(x, attention_mask=real.long(), generation_config=transformers.GenerationConfig(**said))
    defaults = AnswerDefaults.read(said, {}, (None, None), 37)
    how = Sampling(tau=0) if defaults.beam.N_beam == 1 else defaults.beam
    found = EDInference(ours.model, Z, defaults.ell_gen, how, frame=defaults.frame)

    ends = said["eos_token_id"] if isinstance(said["eos_token_id"], list) else [said["eos_token_id"]]
    assert [until(row, ends) for row in rows.tolist()] == [h.x for h in found]


def until(row, ends):
    """What comes before the padding."""
    first = next((t for t in range(1, len(row)) if row[t] in ends), len(row) - 1)
    return row[: first + 1]


def test_the_settings_matter(pair):
    """What is compared above is not one sequence again and again."""
    _, ours = pair
    found = set()
    for said in SAID[1:]:
        defaults = AnswerDefaults.read(ENDS | {"max_length": 10} | said, {}, (None, None), 37)
        found.add(str(EDInference(ours.model, Z, defaults.ell_gen, defaults.beam, frame=defaults.frame)))

    assert len(found) >= 6

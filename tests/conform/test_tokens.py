"""What `transformers` reads in a text, beside what the reference does."""

import json

import pytest
import transformers
from tokenizers.processors import TemplateProcessing

import huggingface as hf
from transformulary.conform import conform
from transformulary.tokens import Tokenizer

TEXT = "the cat sat on the mat"
SIZES = {"n_positions": 32, "n_embd": 24, "n_layer": 1, "n_head": 2, "bos_token_id": None, "eos_token_id": None}


@pytest.fixture
def checkpoint(tmp_path):
    """A folder with a GPT-2 and a tokenizer of byte pairs that begins every text with bos_token if asked to."""

    def write(bos=False, **options):
        tokenizer = Tokenizer.train("bytepairs", [TEXT], 270)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=tokenizer.N_V, **SIZES))
        hf.randomise(model, 0).float().save_pretrained(tmp_path)
        if bos:
            name = tokenizer.special["bos_token"]
            tokenizer.pipeline.post_processor = TemplateProcessing(
                single=f"{name} $A", special_tokens=[(name, tokenizer.bos_token)]
            )
        tokenizer.save(tmp_path)
        config = tmp_path / "tokenizer_config.json"
        config.write_text(json.dumps(json.loads(config.read_text()) | options))
        return tmp_path

    return write


def said(folder):
    report = conform("transformers", folder, text=TEXT, decoding=False)
    return report.status, [(note.status, note.says) for note in report.notes if note.kind == "tokens"]


def test_the_same_ids(checkpoint):
    """Ids that agree are said to."""
    status, [(state, says)] = said(checkpoint())

    assert (status, state) == (0, "agrees")
    assert says.endswith(" ids")


def test_a_token_that_the_tokenizer_puts_first(checkpoint):
    """It is named, and is no difference: neither ran with it."""
    status, [(agrees, _), (note, says)] = said(checkpoint(bos=True))

    assert (status, agrees, note) == (0, "agrees", "note")
    assert says == "its tokenizer by itself adds <|bos_token|>, and both ran without: --tokens says other ids"


def test_a_space_that_the_tokenizer_puts_first(checkpoint):
    """Other ids of the same text are the first difference, and explained."""
    found = said(checkpoint(tokenizer_class="GPT2Tokenizer", add_prefix_space=True))

    assert found == (1, [("differs", "a space is put before the text")])


def test_a_tokenizer_that_cannot_be_read(checkpoint):
    """It is said, and the model is compared all the same."""
    status, [(state, says)] = said(checkpoint(tokenizer_class="T5Tokenizer", auto_map={"AutoTokenizer": ["no.Such"]}))

    assert (status, state) == (0, "not seen"), says

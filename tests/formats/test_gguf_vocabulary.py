"""The vocabulary in a GGUF file gives the ids that `transformers` finds with it, or is refused."""

import json
import random

import pytest
import transformers

from formats.test_gguf import LLAMA, made, write
from transformulary.cli import main
from transformulary.errors import TokenError
from transformulary.formats import open_source
from transformulary.models import load
from transformulary.tokens import Tokenizer

TEXTS = [
    "My grandma makes the best apple pie. It's 1234567 times better, isn't it?\n\n  Yes  it is!\t",
    "Größe 大きさ 😀",
]
CONTROL, USER_DEFINED = "<|end|>", "<think>"


def vocabulary():
    """Byte pairs learned from the texts, a control token and one of the user's, as the metadata of a file."""
    pipeline = Tokenizer.train("bytepairs", [text * 3 for text in TEXTS]).pipeline
    model = json.loads(pipeline.to_str())["model"]
    tokens = [*sorted(model["vocab"], key=model["vocab"].get), CONTROL, USER_DEFINED]
    return {
        "model": "gpt2", "tokens": tokens, "merges": [" ".join(merge) for merge in model["merges"]],
        "token_type": [1] * (len(tokens) - 2) + [3, 4], "eos_token_id": len(tokens) - 2,
    }  # fmt: skip


def file(tmp_path, **changes):
    """A model with that vocabulary, a part of it changed."""
    meta = vocabulary() | changes
    named = [(f"tokenizer.ggml.{name}", value) for name, value in meta.items() if value is not None]
    return write(tmp_path / "m.gguf", made(**LLAMA, N_V=len(vocabulary()["tokens"])), more=named)


def random_texts(n):
    """Texts of letters, digits, signs, white space and any characters of Unicode."""
    rng = random.Random(0)
    usual = "aàbctheTHE's'll 0123456789.,;!?-_\n\r\t\u00a0\u2028  "
    for _ in range(n):
        chars = [rng.choice(usual) if rng.random() < 0.8 else chr(rng.randrange(0x110000)) for _ in range(60)]
        yield "".join(c for c in chars if not 0xD800 <= ord(c) < 0xE000) + rng.choice(TEXTS)


@pytest.mark.parametrize("pre", ["gpt-2", "llama-bpe"])
def test_the_ids_are_those_of_transformers(tmp_path, pre):
    """On random Unicode; a token of the user's is one wherever it is spelled."""
    path = file(tmp_path, pre=pre)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, gguf_file=path.name)
    ours = load(path).tokenizer

    for text in (*random_texts(300), f"a{USER_DEFINED}b"):
        assert ours.encode(text) == theirs.encode(text, add_special_tokens=False), text
        assert ours.decode(ours.encode(text)) == text


def test_a_control_token_in_a_text_is_text(tmp_path):
    """Who writes a text cannot forge the end of one; the token itself is known by its id."""
    tokenizer = load(file(tmp_path, pre="llama-bpe")).tokenizer

    assert tokenizer.eos_token not in tokenizer.encode(f"a{CONTROL}b")
    assert tokenizer.decode([tokenizer.eos_token]) == CONTROL


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"pre": None}, "cuts text by the rule None"),
        ({"pre": "default"}, "cuts text by the rule 'default'"),
        ({"model": "llama"}, "has no score for every token"),
        ({"model": "bert"}, "is of the kind 'bert', and only 'gpt2', 'llama' are read exactly"),
        ({"pre": "gpt-2", "tokens": ["a", "b"]}, "has tokens twice, or without a type"),
        ({"pre": "gpt-2", "merges": ["nowhere to"]}, "is damaged"),
        ({"pre": "gpt-2", "merges": None}, "is no list of texts"),
    ],
)
def test_what_is_not_exact_is_refused(tmp_path, capsys, changes, why):
    """The model is loaded without a tokenizer, and a text is refused with the reason and what to do."""
    path = file(tmp_path, **changes)

    with pytest.raises(TokenError, match=why):
        Tokenizer.from_gguf(open_source(path).vocabulary())

    assert load(path).tokenizer is None
    assert main(["trace", str(path), "--text", "a", "--out", str(tmp_path / "out")]) == 2
    assert "give the ids themselves, --tokens 1,2,3." in capsys.readouterr().err

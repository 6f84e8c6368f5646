"""Files -> texts -> two parts that share nothing -> token ids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformulary.data import Piece, corpus, read_texts, split
from transformulary.errors import ConfigError, DataError
from transformulary.tokens import Tokenizer


@given(st.lists(st.text(max_size=20)), st.floats(0, 0.99))
def test_split_loses_and_shares_no_character(texts, held_out):
    """The two parts are all the text, in order; the second has the wanted share of its characters."""
    learn, rest = split(texts, held_out)

    total = sum(map(len, texts))
    assert "".join(texts) == "".join(piece.text for piece in learn + rest)
    assert round(total * held_out) == sum(len(piece.text) for piece in rest)


def test_split_cuts_one_text_at_most():
    """By default the last tenth is held out; the text that is cut is marked at the cut, on both sides."""
    learn, rest = split(["a" * 15, "b" * 5])

    assert [Piece("a" * 15), Piece("bbb", last=False)] == learn
    assert [Piece("bb", first=False)] == rest


@pytest.mark.parametrize("held_out", [-0.1, 1.0, 1.5])
def test_impossible_fraction(held_out):
    """A fraction outside [0, 1) is an error with the number."""
    with pytest.raises(ConfigError, match=rf"held_out = {held_out} is outside \[0, 1\)"):
        split(["abc"], held_out)


def test_folder_stands_for_its_text_files(tmp_path):
    """A folder is read at any depth, sorted; files are read in the order given."""
    for name in ("b.txt", "a/z.txt", "a/c.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")

    assert ["a/c.md", "a/z.txt", "b.txt"] == read_texts([tmp_path / "a/c.md", tmp_path])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "does not exist"),
        (lambda path: path.mkdir(), r"is a folder without \*\.txt files"),
        (lambda path: path.write_text(""), "no text; a model cannot learn from 0 characters"),
        (lambda path: path.write_bytes(b"it\x92s"), "is not UTF-8: byte 0x92 at offset 2"),
    ],
)
def test_unusable_path_is_named(tmp_path, make, message):
    """What cannot be read as text is a DataError that names the path."""
    make(tmp_path / "x")

    with pytest.raises(DataError, match=f"x:? {message}"):
        read_texts([tmp_path / "x"])


def test_texts_are_framed_where_they_begin_and_end():
    """A text is bos, tokens, eos; a cut has neither; text that spells a special token stays text."""
    tokenizer = Tokenizer.train("bytepairs", ["abc"], 300)
    bos, eos = tokenizer.bos_token, tokenizer.eos_token
    whole, cut = "<|eos_token|>", "abcdefghijklm"

    made = corpus([whole, cut], tokenizer, held_out=6 / 26)

    assert [bos, *tokenizer.encode(whole), eos, bos, *tokenizer.encode("abcdefg")] == made.training.ids.tolist()
    assert [*tokenizer.encode("hijklm"), eos] == made.held_out.ids.tolist()
    assert [0, 15, 23] == made.training.bounds.tolist()

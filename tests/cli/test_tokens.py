"""transformulary tokens."""

import io
import json
import sys

import pytest

from transformulary import cli
from transformulary.tokens import Tokenizer

TEXT = "\ufeffMy grandma makes\r\nthe best apple pie. é 👩\n\n"


@pytest.fixture
def stdin(monkeypatch):
    """Give standard input some bytes."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8", newline=""))


@pytest.fixture
def folder(tmp_path):
    """A folder with a word tokenizer."""
    Tokenizer.train("words", [TEXT]).save(tmp_path / "words")
    return str(tmp_path / "words")


@pytest.mark.parametrize("kind", ["characters", "words", "bytepairs"])
def test_text_comes_back_through_files(kind, tmp_path, capsys, stdin):
    """train, encode and decode in turn give the text itself, without its byte-order mark."""
    file, out = tmp_path / "text", str(tmp_path / "tokens")
    file.write_bytes(TEXT.encode())

    assert cli.main(["tokens", "train", str(file), "--kind", kind, "--out", out]) == 0
    capsys.readouterr()
    stdin(TEXT.encode())
    assert cli.main(["tokens", "encode", out]) == 0
    stdin(capsys.readouterr().out.encode())
    assert cli.main(["tokens", "decode", out]) == 0

    assert capsys.readouterr().out == TEXT[1:]


def test_json(folder, tmp_path, capsys):
    """With --json each action prints one object."""
    file = tmp_path / "text"
    file.write_text("aaa")

    cli.main(["tokens", "train", str(file), "--kind", "characters", "--out", str(tmp_path / "a"), "--json"])
    cli.main(["tokens", "encode", folder, "--text", "My pie", "--json"])
    cli.main(["tokens", "decode", folder, "0", "--json"])
    trained, encoded, decoded = map(json.loads, capsys.readouterr().out.splitlines())

    hash_of = Tokenizer.load(tmp_path / "a").hash
    special = {"mask_token": 1, "bos_token": 2, "eos_token": 3}
    assert trained == {"folder": str(tmp_path / "a"), "kind": "characters", "N_V": 4, **special, "hash": hash_of}
    assert encoded == {"ids": Tokenizer.load(folder).encode("My pie")}
    assert decoded == {"text": "!"}


def test_special_tokens_only_when_asked(folder, capsys):
    """--special reads what spells a special token as that token."""
    cli.main(["tokens", "encode", folder, "--text", "<|eos_token|>"])
    cli.main(["tokens", "encode", folder, "--text", "<|eos_token|>", "--special"])
    plain, special = capsys.readouterr().out.splitlines()

    assert special == str(Tokenizer.load(folder).eos_token)
    assert special not in plain.split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decode", "99999"], "has no token 99999"),
        (["decode", "1.5"], "'1.5' is no token id"),
        (["decode", "1" * 5000], "'11111111111111111111...' is no token id"),
        (["encode", "--text", "\udc92"], r"lone surrogate (U+DC92)"),
    ],
)
def test_bad_input(words, message, folder, capsys):
    """One line on stderr, nothing on stdout, exit status 2."""
    status = cli.main(["tokens", words[0], folder, *words[1:]])
    out, err = capsys.readouterr()

    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("ids", [["--json", "0", "1"], ["0", "--json", "1"]])
def test_options_may_stand_anywhere(ids, folder, capsys):
    """Ids before an option, after it, and on both sides of it are one list."""
    assert cli.main(["tokens", "decode", folder, *ids]) == 0
    assert json.loads(capsys.readouterr().out) == {"text": Tokenizer.load(folder).decode([0, 1])}


@pytest.mark.parametrize("action", ["encode", "decode"])
def test_standard_input_is_closed(action, folder, capsys, monkeypatch):
    """`<&-` is one line that says how else to give the text or the ids."""
    monkeypatch.setattr(sys, "stdin", None)

    assert cli.main(["tokens", action, folder]) == 2
    assert "standard input is closed, and what is needed is read from there. Give" in capsys.readouterr().err


@pytest.mark.parametrize("action", ["encode", "decode"])
def test_bytes_that_are_no_text(action, folder, capsys, stdin):
    """An invalid byte on standard input is named with its offset."""
    stdin(b"it\x92s")

    assert cli.main(["tokens", action, folder]) == 2
    assert "standard input is not UTF-8: byte 0x92 at offset 2" in capsys.readouterr().err


@pytest.mark.parametrize(("data", "message"), [(b"", "every text is empty"), (b"\xff\xfea\x00", "if it is UTF-16")])
def test_nothing_is_written_for_a_bad_text(data, message, tmp_path, capsys):
    """Training on an empty or undecodable file leaves no folder behind."""
    (tmp_path / "text").write_bytes(data)

    status = cli.main(["tokens", "train", str(tmp_path / "text"), "--out", str(tmp_path / "out")])

    assert (status, (tmp_path / "out").exists()) == (2, False)
    assert message in capsys.readouterr().err

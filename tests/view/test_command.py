"""`transformulary attention`."""

import json
import os

import pytest
import torch

from encode import models as encoders
from transformulary.cli import main
from transformulary.models import save
from transformulary.nn import DTransformer, EDTransformer
from transformulary.paper import DTransformerConfig, EDTransformerConfig
from transformulary.tokens import Tokenizer


@pytest.fixture
def folder(tmp_path):
    """A model of 2 layers and 3 heads for prompts of up to 8 of the letters a, b, c."""
    tokenizer = Tokenizer.train("characters", ["abc"])
    config = DTransformerConfig(N_V=tokenizer.N_V, ell_max=8, L=2, H=3, d_e=12, d_mlp=8)
    save(tmp_path / "model", DTransformer(config, generator=torch.Generator().manual_seed(0)), tokenizer)
    return tmp_path / "model"


@pytest.mark.parametrize(("name", "start"), [("a.html", b"<!doctype html>"), ("a.png", b"\x89PNG")])
def test_the_command_writes_a_file_and_says_so(folder, tmp_path, capsys, name, start):
    """The name of the file is the result, on stdout; its end says what it is."""
    status = main(["attention", str(folder), "--prompt", "abcab", "--out", str(tmp_path / name)])

    assert (0, f"{tmp_path / name}\n") == (status, capsys.readouterr().out)
    assert (tmp_path / name).read_bytes().startswith(start)


def test_json_for_machines(folder, tmp_path, capsys):
    """--json says which tokens, layers and heads are in the file; --layer and --head choose them."""
    file = str(tmp_path / "a.html")

    main(["attention", str(folder), "--prompt", "cab", "--no-bos", "--out", file, "--head", "2", "--json"])

    told = json.loads(capsys.readouterr().out)
    assert {"file": file, "kind": "decoder", "tokens": ["c", "a", "b"], "layers": [1, 2], "heads": [2]} == told


def test_a_prompt_begins_as_for_generate(folder, tmp_path, capsys):
    """The tokens are those that `generate` continues: with bos_token where the vocabulary has one of its own."""
    main(["attention", str(folder), "--prompt", "ab", "--out", str(tmp_path / "a.html"), "--json"])

    assert ["<|bos_token|>", "a", "b"] == json.loads(capsys.readouterr().out)["tokens"]


def test_an_empty_prompt_is_bos(folder, tmp_path, capsys):
    """The prompt '' is the token that begins a text."""
    main(["attention", str(folder), "--prompt", "", "--out", str(tmp_path / "a.html"), "--json"])

    assert ["<|bos_token|>"] == json.loads(capsys.readouterr().out)["tokens"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--prompt", "abcabcab"],
            "9 tokens is longer than ell_max = 8: the model has learned no positions beyond. S",
        ),
        (["--prompt", "", "--no-bos"], "the prompt is empty: begin with some text, or with bos_token if"),
        (["--prompt", "abd"], "'d' (U+0064)"),
        (["--prompt", "a", "--layer", "3"], "there is no layer 3: the layers are 1 to 2"),
        (["--prompt", "a", "--head", "0"], "there is no head 0: the heads are 1 to 3"),
        (["--prompt", "a", "--out", "a.pdf"], "'.pdf'"),
        (["--prompt", "a", "--out", "model/config.json/a.html"], "model/config.json"),
    ],
)
def test_what_cannot_be_shown_is_one_line(folder, monkeypatch, capsys, options, message):
    """One line on stderr with the numbers, exit status 2, nothing on stdout, nothing written."""
    monkeypatch.chdir(folder.parent)

    status = main(["attention", str(folder), *options])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (status, out, err.count("\n"))
    assert message in err
    assert ["model"] == os.listdir(folder.parent)


def test_a_model_without_a_vocabulary_is_one_line(folder, tmp_path, capsys):
    """Without a tokenizer a prompt has no ids, and the error says so."""
    config = DTransformerConfig(N_V=5, ell_max=8, L=1, H=1, d_e=4, d_mlp=4)
    save(tmp_path / "bare", DTransformer(config))

    status = main(["attention", str(tmp_path / "bare"), "--prompt", "a"])

    assert 2 == status
    assert "has no tokenizer" in capsys.readouterr().err


@pytest.fixture
def translator(tmp_path):
    """An encoder-decoder whose answers begin with token 0."""
    config = EDTransformerConfig(N_V=15, ell_max=9, H=2, d_e=8, d_mlp=8, L_enc=1, L_dec=2)
    about = {"decoder_start_token_id": 0}
    save(tmp_path / "model", EDTransformer(config), encoders.tokenizer(), about)
    return tmp_path / "model"


def test_an_encoder_decoder_has_two_texts(translator, tmp_path, capsys):
    """--context is what its encoder reads, --prompt what it answers; --kind chooses one kind of attention."""
    words = ["attention", str(translator), "--context", "the cat sat", "--prompt", "a dog", "--json"]
    words += ["--out", str(tmp_path / "a.html")]

    assert main(words) == main([*words, "--kind", "cross", "--layer", "2"]) == 0

    three, cross = map(json.loads, capsys.readouterr().out.splitlines())
    source, target = ["[CLS]", "the", "cat", "sat", "[SEP]"], ["[PAD]", "[CLS]", "a", "dog", "[SEP]"]
    assert [("encoder", source), ("decoder", target), ("cross", target)] == [
        (told["kind"], told["tokens"]) for told in three["attention"]
    ]
    assert (target, source, [2]) == (cross["tokens"], cross["keys"], cross["layers"])


def test_an_encoder_has_one_text(tmp_path, capsys):
    """Of --context it says that it has no use for it."""
    folder = encoders.saved(tmp_path / "model", "fill")

    assert 2 == main(["attention", str(folder), "--prompt", "the cat", "--context", "a"])
    assert "reads one text, and no context" in capsys.readouterr().err


def test_an_encoder_reads_its_text(tmp_path, capsys):
    """With its special tokens."""
    folder = encoders.saved(tmp_path / "model", "fill")

    status = main(["attention", str(folder), "--prompt", "the cat", "--out", str(tmp_path / "a.png"), "--json"])

    told = json.loads(capsys.readouterr().out)
    assert (0, "encoder", ["[CLS]", "the", "cat", "[SEP]"]) == (status, told["kind"], told["tokens"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "needs a context too, the text that it answers"),
        (["--context", "a", "--layer", "2"], "there is no layer 2: the layers are 1 to 1"),
        (["--context", "the " * 9], "a sequence of 11 tokens is longer than ell_max = 9"),
    ],
)
def test_an_encoder_decoder_that_cannot_be_shown(translator, tmp_path, capsys, options, message):
    """One line on stderr, exit status 2."""
    status = main(["attention", str(translator), "--prompt", "a", "--out", str(tmp_path / "a.html"), *options])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (status, out, err.count("\n"))
    assert message in err


def test_a_format_that_no_config_says(folder, tmp_path, capsys):
    """--format says how a model is stored."""
    config = json.loads((folder / "config.json").read_text())
    del config["model_type"]
    (folder / "config.json").write_text(json.dumps(config))
    words = ["attention", str(folder), "--prompt", "ab", "--out", str(tmp_path / "a.html")]

    assert [2, 0] == [main(words), main([*words, "--format", "gpt2"])]

"""transformulary generate."""

import json
import shutil

import pytest
import torch

from transformulary import cli, models
from transformulary.generate import Continuation, Sampling
from transformulary.nn import DTransformer
from transformulary.paper import DTransformerConfig
from transformulary.tokens import Tokenizer

SIZES = {"ell_max": 16, "L": 2, "H": 2, "d_e": 16, "d_mlp": 32, "eps": 1e-5, "activation": "gelu_tanh"}


def save(folder, tokenizer, padding=0, **choices):
    """A random model and its tokenizer, as a folder."""
    config = DTransformerConfig(N_V=tokenizer.N_V + padding, **SIZES | choices)
    models.save(folder, DTransformer(config, 0.0, torch.Generator().manual_seed(0)), tokenizer)
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model whose vocabulary is padded by 40 rows that the tokenizer does not have."""
    return save(
        tmp_path_factory.mktemp("model"), Tokenizer.train("bytepairs", ["My grandma " * 9]), padding=40, tied=True
    )


def test_text_on_stdout(folder, capsys):
    """The continuation and one newline are on stdout; it is that of the library with the same settings."""
    loaded = models.load(folder)
    sampling = Sampling(tau=2.0, top_k=50, top_p=0.9)
    right = "".join(Continuation(loaded.model, loaded.tokenizer, "My ", 9, sampling, seed=1))
    settings = ["--temperature", "2", "--top-k", "50", "--top-p", "0.9", "--seed", "1"]

    status = cli.main(["generate", folder, "--prompt", "My ", "--max", "9", *settings])

    assert (status, capsys.readouterr()) == (0, (right + "\n", ""))


def test_json(folder, capsys):
    """--json prints one object with the text, the tokens and why it ended."""
    words = ["generate", folder, "--prompt", "My ", "--tokens", "99", "--seed", "1"]
    cli.main(words)
    text = capsys.readouterr().out.removesuffix("\n")

    cli.main([*words, "--json"])
    result = json.loads(capsys.readouterr().out)

    tokenizer = Tokenizer.load(folder)
    assert (result["prompt"], result["text"], result["finish_reason"]) == ("My ", text, "length")
    assert result["prompt_tokens"] == [tokenizer.bos_token, *tokenizer.encode("My ")]
    assert len(result["tokens"]) == 16 + 1 - len(result["prompt_tokens"])
    assert tokenizer.decode(result["tokens"]) == text


def test_crop_goes_on(folder, capsys):
    """With --crop all the tokens come that were asked for, beyond ell_max too, and none that the tokenizer lacks."""
    words = ["generate", folder, "--tokens", "60", "--crop", "--seed", "0", "--temperature", "inf", "--json"]

    cli.main(words)
    result = json.loads(capsys.readouterr().out)

    tokenizer = Tokenizer.load(folder)
    assert len(result["tokens"]) == 60
    assert tokenizer.eos_token not in result["tokens"]
    assert set(result["tokens"]) <= tokenizer.ids


def test_stop(folder, capsys):
    """--stop ends the text before the string."""
    words = ["generate", folder, "--prompt", "My ", "--seed", "5"]
    cli.main(words)
    text = capsys.readouterr().out[:-1]

    cli.main([*words, "--stop", text[4:7], "--stop", "nowhere to be found"])

    assert capsys.readouterr().out == text[: text.index(text[4:7])] + "\n"


def test_beyond_ell_max_without_a_table(tmp_path, capsys):
    """A model without a table of positions has no limit; a note says that it was made for less."""
    folder = save(tmp_path, Tokenizer.train("words", ["-"], 259), positions="rotary", norm="rms_norm")

    cli.main(["generate", folder, "--tokens", "40", "--temperature", "0", "--json"])
    out, err = capsys.readouterr()

    assert len(json.loads(out)["tokens"]) == 40
    assert err == "note: up to 41 tokens, and the model was made for ell_max = 16.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prompt", "!" * 20], "the prompt has 21 tokens, more than ell_max = 16"),
        (["--temperature", "-1"], "temperature = -1.0"),
        (["--temperature", "nan"], "temperature = nan"),
        (["--top-k", "-1"], "top_k = -1"),
        (["--top-k", "1.5"], "invalid int value: '1.5'"),
        (["--top-p", "1.5"], "top_p = 1.5"),
        (["--stop", ""], "a stop string is empty"),
        (["--stop", "a"] * 5, "5 stop strings; there may be up to 4"),
        (["--tokens", "-1"], "ell_gen = -1"),
    ],
)
def test_bad_input(words, message, folder, capsys):
    """One line on stderr, nothing on stdout, exit status 2."""
    status = cli.main(["generate", folder, *words])
    out, err = capsys.readouterr()

    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_model_without_a_tokenizer(tmp_path, capsys):
    """Text has no ids without a tokenizer."""
    models.save(tmp_path, DTransformer(DTransformerConfig(N_V=9, **SIZES)))

    assert cli.main(["generate", str(tmp_path), "--prompt", "a"]) == 2
    assert "has no tokenizer that we read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("theirs", "words", "same"),
    [
        ({"do_sample": False}, [], ["--temperature", "0"]),
        ({"do_sample": False, "max_new_tokens": 5}, ["--temperature", "2"], ["--temperature", "2", "--tokens", "5"]),
        ({"temperature": 2.0, "top_k": 3, "top_p": 0.5}, ["--top-k", "0"], ["--temperature", "2", "--top-p", "0.5"]),
        ({"max_new_tokens": 5}, ["--tokens", "9"], ["--tokens", "9"]),
    ],
)
def test_the_folders_defaults(theirs, words, same, folder, tmp_path, capsys):
    """What generation_config.json says is the default, and the command line overrides it."""
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "generation_config.json").write_text(json.dumps(theirs))
    texts = []

    for where, options in ((str(other), words), (folder, same)):
        assert cli.main(["generate", where, "--prompt", "My ", "--seed", "1", *options]) == 0
        texts.append(capsys.readouterr().out)

    assert texts[0] == texts[1]


def test_defaults_that_mean_nothing(folder, tmp_path, capsys):
    """A key of generation_config.json that nobody knows is one line that names the file, before any text."""
    other = shutil.copytree(folder, tmp_path / "other")
    (other / "generation_config.json").write_text('{"eos_token_id": [[1]]}')

    assert cli.main(["generate", str(other)]) == 2
    assert capsys.readouterr() == (
        "",
        f"transformulary generate: {other}/generation_config.json: eos_token_id [1] is no token of the model: ids are "
        f"whole numbers in [0, N_V) = [0, {models.load(folder).model.config.N_V}).\n",
    )

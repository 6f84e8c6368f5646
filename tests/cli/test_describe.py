"""`transformulary describe` and `transformulary diff`: any model's pseudocode, from its config alone."""

import io
import json
import shutil
import sys
from dataclasses import replace

import pytest

from formats.least import LEAST
from nn.models import config, model
from transformulary import __version__
from transformulary.cli import main
from transformulary.models import save
from transformulary.paper import number_of_parameters, preset
from transformulary.paper.presets import families, presets
from transformulary.pseudocode import FORMATS, describe, diff, render


@pytest.fixture
def said(capsys):
    """The function that runs a command and gives its exit status, stdout and stderr."""

    def run(*argv):
        status = main([str(word) for word in argv])
        return status, *capsys.readouterr()

    return run


HEAD = """\
GPT-2 (gpt2-small)
Radford et al. 2019; openai/gpt-2, hparams.json
The article's numbers of parameters (117M, 345M, 762M, 1542M) are too low; its authors corrected
them to 124M, 355M, 774M, 1558M.
124,439,808 parameters (published: 117M)
247,064,064 FLOPs a token for matrices, 37,748,736 for attention among 1,024 tokens; three times
that in training
Training keeps parameters, gradients and AdamW's two moments in float32, also where products are in
bfloat16.
          weights  cache of 1,024 tokens  training
float32    498 MB                75.5 MB   1.99 GB
bfloat16   249 MB                37.7 MB   1.99 GB
int8       124 MB                18.9 MB         -
"""


def test_a_preset(said):
    """Name, source, note, counts; then its lines with its numbers."""
    status, out, err = said("describe", "gpt2-small")

    assert (0, f"{describe(preset('gpt2-small'), numbers=True)}\n", "") == (status, out, err)
    assert out.startswith(f"{HEAD}\nAlgorithm 4: ")


def test_an_architecture(said):
    """gpt2 is no size: symbols, and which sizes there are."""
    status, out, _ = said("describe", "gpt2")

    assert "Sizes: gpt2-small, gpt2-medium, gpt2-large, gpt2-xl\n" in out
    assert f"{describe(preset('gpt2'))}\n" == out
    assert "FLOPs a token" not in out
    assert 0 == status


def test_symbols_or_numbers(said):
    """--sizes says which; an architecture has no numbers."""
    status, out, err = said("describe", "gpt2", "--sizes", "numbers")
    symbols = said("describe", "gpt2-xl", "--sizes", "symbols")[1]

    assert (2, "") == (status, out)
    assert err == (
        "transformulary describe: gpt2 is an architecture and has no sizes of its own. "
        "Name one of gpt2-small, gpt2-medium, gpt2-large, gpt2-xl.\n"
    )
    assert f"{describe(preset('gpt2-xl'))}\n" == symbols


@pytest.mark.parametrize("name", [*families(), *presets()])
def test_every_name(name, said):
    """Whatever `presets` lists is described."""
    status, out, err = said("describe", name)

    assert (0, "") == (status, err)
    assert f"({name})\n" in out


@pytest.mark.parametrize("format", FORMATS)
def test_every_format(format, said):
    """Each prints the same page that Python gives."""
    page = describe(preset("bert-base"), numbers=True, format=format)

    assert (0, f"{page}\n", "") == said("describe", "bert-base", "--format", format)


@pytest.mark.parametrize("format", FORMATS)
def test_show_in_every_format(format, said):
    """`show --format` prints the paper's algorithms so too."""
    assert (0, f"{render(['6', '10'], format=format)}\n", "") == said("show", "6", "10", "--format", format)


def test_as_json(said):
    """For machines: config, counts, pseudocode and the version that printed it."""
    found = json.loads(said("describe", "gpt2-small", "--json")[1])

    assert preset("gpt2-small").config == type(preset("gpt2").config).from_dict(found["config"])
    assert {"ell": 1024, "matrices": 247_064_064, "attention": 37_748_736} == found["flops_per_token"]
    assert {"weights": 497_759_232, "cache": 75_497_472, "training": 1_991_036_928} == found["bytes"]["float32"]
    assert (describe(preset("gpt2-small"), numbers=True), __version__) == (found["pseudocode"], found["version"])


def test_a_folder_and_its_config(tmp_path, said):
    """A saved model, its config alone, and a model that was trained elsewhere: no weights are read."""
    save(tmp_path / "model", model(config()))
    shutil.copy(tmp_path / "model" / "config.json", tmp_path / "theirs.json")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"no weights")

    pages = [said("describe", path)[1].split("\n", 1) for path in (tmp_path / "model", tmp_path / "theirs.json")]

    assert [str(tmp_path / "model"), str(tmp_path / "theirs.json")] == [name for name, _ in pages]
    assert pages[0][1] == pages[1][1]
    assert f"{describe(config(), numbers=True, name='theirs')}\n" == f"theirs\n{pages[0][1]}"


def test_a_path_comes_first(tmp_path, monkeypatch, said):
    """A file called gpt2 is that file; without it, gpt2 is the architecture."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").write_text(json.dumps(LEAST["gpt2"] | {"n_layer": 1}))

    one = number_of_parameters(replace(preset("gpt2").config, L=1))
    assert said("describe", "gpt2")[1].startswith(f"gpt2\n{one:,} parameters\n")


@pytest.mark.parametrize("verb", [["describe"], ["diff", "paper"]])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no model is called 'config.json'. `transformulary presets` lists them all.\n"),
        ("[1", "config.json is not JSON (Expecting ',' delimiter: line 1 column 3 (char 2)).\n"),
        ('{"model_type": "llama"}', "config.json: missing or null: vocab_size, hidden_size, intermediate_size, num_h"),
        (json.dumps(LEAST["gpt2"] | {"n_embd": "x" * 10**6}), "d_e = 'xxx"),
        (json.dumps(LEAST["gpt2"] | {"new\n\x1b[31m": [1]}), "config.json: new \\x1b[31m = [1] has no rule"),
    ],
)
def test_bad_input(verb, content, message, tmp_path, monkeypatch, said):
    """One short line on stderr, exit status 2, whatever the file holds."""
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / "config.json").write_text(content)

    status, out, err = said(*verb, "config.json")

    assert (2, "", True) == (status, out, message in err)
    assert err.startswith(f"transformulary {verb[0]}: ")
    assert len(err) < 1200
    assert 1 == err.count("\n")


def test_diff(said):
    """The unified diff of two models, named as they were asked for, plain where it is not a terminal."""
    expected = diff(preset("paper").config, preset("gpt2").config, "text", ("paper", "gpt2"))

    assert (0, f"{expected}\n", "") == said("diff", "paper", "gpt2")


def test_diff_of_the_same(said):
    """Two sizes of one architecture execute the same lines: what differs are sizes.  An architecture has none."""
    sizes = """\
gpt2-small and gpt2-medium
Both execute the same lines; these sizes differ:
             gpt2-small  gpt2-medium
parameters  124,439,808  354,823,168
H                    12           16
d_e                 768        1,024
d_mlp             3,072        4,096
L                    12           24
"""

    assert (0, sizes, "") == said("diff", "gpt2-small", "gpt2-medium")
    assert "H_kv " in said("diff", "llama-2-7b", "llama-2-70b")[1]
    assert (0, "gpt2 and gpt2-xl\nBoth execute the same lines.\n", "") == said("diff", "gpt2", "gpt2-xl")


class Terminal(io.StringIO):
    """A stdout that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_in_a_terminal(environment, colour, monkeypatch):
    """Lines of one model red, of the other green, unless NO_COLOR is set or the terminal has none."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Terminal())

    main(["diff", "paper", "gpt2"])

    lines = sys.stdout.getvalue().splitlines()
    plain = diff(preset("paper").config, preset("gpt2").config, "text", ("paper", "gpt2")).splitlines()
    colours = {"-": "\x1b[31m", "+": "\x1b[32m", "@": "\x1b[36m"}
    painted = [f"{colours[line[0]]}{line}\x1b[0m" if line[:1] in colours else line for line in plain]
    assert (painted if colour else plain) == lines


def test_what_a_file_does_not_say(tmp_path, said):
    """The head names the keys that a config.json lacks, and their defaults; so does --json."""
    (tmp_path / "config.json").write_text(json.dumps(LEAST["gpt_neo"] | {"window_size": 9}))

    words = " ".join(said("describe", tmp_path / "config.json")[1].split())
    found = json.loads(said("describe", tmp_path / "config.json", "--json")[1])

    assert (
        "Not in the file, so as its library has it: intermediate_size = 8192, activation_function = "
        '"gelu_new", layer_norm_epsilon = 1e-05, tie_word_embeddings = true, '
        'attention_types = [[["global", "local"], 12]].'
    ) in words
    assert 8192 == found["assumed"]["intermediate_size"]
    assert not {"num_layers", "vocab_size", "window_size"} & found["assumed"].keys()

"""transformulary trace."""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import huggingface
from transformulary import cli, oracle
from transformulary.conform import theta_of
from transformulary.formats import open_source, theta_source
from transformulary.models import save
from transformulary.nn import DTransformer
from transformulary.paper import DTransformerConfig
from transformulary.tokens import Tokenizer

TEXT = "My grandma makes the best apple pie."


@pytest.fixture(scope="module")
def model():
    """A random GPT-2 in float64."""
    torch.manual_seed(0)
    N_V = Tokenizer.train("characters", [TEXT]).N_V
    sizes = {"N_V": N_V, "ell_max": 16, "L": 2, "H": 2, "d_e": 8, "d_mlp": 12}
    return DTransformer(DTransformerConfig(**sizes, eps=1e-5, activation="gelu_tanh", tied=True)).double()


@pytest.fixture
def folder(model, tmp_path):
    """Its folder, with a tokenizer."""
    save(tmp_path / "model", model, Tokenizer.train("characters", [TEXT]))
    return tmp_path / "model"


def trace(folder, *options):
    """(exit status, the folder written) of a trace of three tokens."""
    out = folder.parent / "out"
    return cli.main(["trace", str(folder), "--out", str(out), *options]), out


def values(out):
    """{path: array} of a trace in .npz."""
    with np.load(out / "values.npz") as stored:
        return dict(stored)


def test_from_a_folder_to_values(folder, model, capsys):
    """What is written are the values of the oracle on the parameters of the folder; the index tells the rest."""
    status, out = trace(folder, "--tokens", "3,1,4")

    assert status == 0
    assert capsys.readouterr().out == f"{out}: 56 values of 3 tokens in 1 file\n"
    expected = oracle.record("DTransformer", [3, 1, 4], theta_of(model), model.config)
    stored = values(out)
    for path in ("10.3", "10.6[l=2]/5.2[h=2]/4.6:softmax", "10.8[l=1]:GELU_tanh", "10.11:logits"):
        np.testing.assert_array_equal(stored[path], expected[path])
    index = json.loads((out / "index.json").read_text(encoding="utf-8"))
    assert (index["model"], index["model_type"], index["tokens"]) == (str(folder), "gpt2", [3, 1, 4])
    (logits,) = [value for value in index["values"] if value["path"] == "10.11:logits"]
    assert [name["name"] for name in logits["names"]] == ["lm_head:out", "unembed.hook_out", "result_output"]


def test_a_text(folder, capsys):
    """--text is spelled by the model's own tokenizer; the vocabulary's bos_token comes first unless told otherwise."""
    tokenizer = Tokenizer.load(folder)

    _, out = trace(folder, "--text", "pie", "--at", "10.1", "--json")
    with_bos = json.loads(capsys.readouterr().out)
    (out / "values.npz").unlink()
    (out / "index.json").unlink()
    trace(folder, "--text", "pie", "--no-bos", "--at", "10.1", "--json")

    assert with_bos["tokens"] == [tokenizer.bos_token, *tokenizer.encode("pie")]
    assert with_bos["text"] == "pie"
    assert json.loads(capsys.readouterr().out)["tokens"] == tokenizer.encode("pie")


def test_only_what_is_asked_for(folder):
    """--at may be repeated, with wildcards."""
    _, out = trace(folder, "--tokens", "3,1", "--at", "10.8[l=*]:GELU_tanh", "--at", "10.5[l=1,t=*]")

    assert list(values(out)) == ["10.5[l=1,t=1]", "10.5[l=1,t=2]", "10.8[l=1]:GELU_tanh", "10.8[l=2]:GELU_tanh"]


def test_everything(folder, model):
    """--all is every value of the run."""
    _, out = trace(folder, "--tokens", "3,1", "--all")

    assert list(values(out)) == list(oracle.record("DTransformer", [3, 1], theta_of(model), model.config))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tokens", "1,2,x"], "'1,2,x' is no list of token ids; write them like 15496,11,995."),
        (["--tokens", "1,9999"], "x[2] = 9999 is outside the vocabulary of N_V ="),
        (["--tokens", "-1"], "x[1] = -1 is outside the vocabulary"),
        (["--tokens", ",".join("1" * 17)], "length(x) = 17 is more than ell_max = 16"),
        (["--text", "Ω"], "Ω"),
        ([], "is to read: give --text, or --tokens."),
        (["--text", "a", "--tokens", "1"], "not allowed with argument"),
        (["--tokens", "1", "--at", "10.8[l=1]:GELU"], "The nearest path is 10.8[l=*]:GELU_tanh;"),
        (["--tokens", "1", "--at", "10.8[l=7]"], "l = 7 is outside 1 to 2."),
        (["--tokens", "1", "--precision", "float8"], "invalid choice: 'float8'"),
    ],
)
def test_what_the_user_can_mend_is_one_line(folder, capsys, options, says):
    """Wrong tokens, texts and paths are said in one line; nothing is written."""
    status, out = trace(folder, *options)

    printed = capsys.readouterr()
    assert (status, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert says in printed.err
    assert not out.exists()


def test_without_a_tokenizer(model, tmp_path, capsys):
    """A text needs the model's tokenizer; token ids do not."""
    save(tmp_path / "bare", model)

    status, _ = trace(tmp_path / "bare", "--text", "pie")
    assert status == 2
    assert "has no tokenizer, which --text needs: give the ids themselves, --tokens 1,2,3." in capsys.readouterr().err
    assert trace(tmp_path / "bare", "--tokens", "1")[0] == 0


def test_the_tokenizer_of_another_model(folder, capsys):
    """A text is spelled by the model's own tokenizer or by none."""
    Tokenizer.train("characters", ["another text"]).save(folder)

    status, out = trace(folder, "--text", "a")

    assert (status, out.exists()) == (2, False)
    assert "not the one that the model was saved with" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
def test_damaged_parameters(model, tmp_path, capsys, wrong):
    """A number that is not finite is refused where it is used, and nothing is written."""
    broken = copy.deepcopy(model)
    with torch.no_grad():
        next(p for n, p in broken.named_parameters() if n.endswith("0.mlp.W_mlp1.bias"))[3] = wrong
    save(tmp_path / "model", broken)

    status, out = trace(tmp_path / "model", "--tokens", "1")

    assert (status, out.exists()) == (2, False)
    says = "theta's b_mlp1[1] has a number that is not finite: the parameters are damaged."
    assert says in capsys.readouterr().err


def test_a_folder_with_something_in_it(folder, capsys):
    """Nothing is overwritten, not even an earlier trace."""
    trace(folder, "--tokens", "1")
    status, out = trace(folder, "--tokens", "2")

    assert status == 2
    assert f"{out} exists and is not an empty folder" in capsys.readouterr().err
    assert json.loads((out / "index.json").read_text(encoding="utf-8"))["tokens"] == [1]


def test_a_published_format_in_bfloat16(tmp_path):
    """A Llama that `transformers` saved in bfloat16 gives what the oracle computes from those very numbers."""
    theirs, config, _ = huggingface.llama(tied=True)
    theirs.bfloat16().save_pretrained(tmp_path / "llama")

    status, out = trace(tmp_path / "llama", "--tokens", "5,3,36,0")

    read, array = theta_source(open_source(tmp_path / "llama"))
    expected = oracle.record("DTransformer", [5, 3, 36, 0], oracle.theta_from(read, array), read)
    assert status == 0
    assert (read.H_kv, read.positions, read.tied) == (config.H_kv, "rotary", True)
    for path, value in values(out).items():
        if path != "10.2":  # a list of columns
            np.testing.assert_allclose(value, expected[path], rtol=1e-12, atol=1e-14, err_msg=path)


def test_no_torch(folder, tmp_path):
    """A trace of a safetensors file loads no PyTorch."""
    out = tmp_path / "out"
    program = (
        f"import sys; sys.path[:0] = {sys.path!r}\nfrom transformulary.cli import main\n"
        f"assert main(['trace', {str(folder)!r}, '--text', 'pie', '--out', {str(out)!r}]) == 0\n"
        "assert 'torch' not in sys.modules"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")

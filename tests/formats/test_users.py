"""A format of the user's own, in a file: tables as ours, for any architecture; what is wrong is one line."""

import pytest
import torch
from safetensors.torch import load_file

from transformulary import describe, diff, pseudocode
from transformulary.cli import main
from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats import named_format
from transformulary.models import load
from transformulary.nn import EDTransformer
from transformulary.paper import EDTransformerConfig

TABLES = """
from transformulary.formats import Format, Rule
from transformulary.paper import EDTransformerConfig

ATTENTION = {"fc_q": "W_qkv.W_q", "fc_k": "W_qkv.W_k", "fc_v": "W_qkv.W_v", "fc_o": "W_o"}
ENCODER = {
    "self_attn_layer_norm": "norm_1", "ff_layer_norm": "norm_2",
    "positionwise_feedforward.fc_1": "mlp.W_mlp1", "positionwise_feedforward.fc_2": "mlp.W_mlp2",
    **{f"self_attention.{a}": f"attention.{b}" for a, b in ATTENTION.items()},
}
DECODER = {
    "self_attn_layer_norm": "norm_3", "enc_attn_layer_norm": "norm_4", "ff_layer_norm": "norm_5",
    "positionwise_feedforward.fc_1": "mlp.W_mlp3", "positionwise_feedforward.fc_2": "mlp.W_mlp4",
    **{f"self_attention.{a}": f"attention.{b}" for a, b in ATTENTION.items()},
    **{f"encoder_attention.{a}": f"cross.{b}" for a, b in ATTENTION.items()},
}
LAYERS = {f"{s}.layers.{{l}}.{a}": f"{s}.{{l}}.{b}" for s, t in (("encoder", ENCODER), ("decoder", DECODER))
          for a, b in t.items()}
FORMAT = Format(
    "mine",
    keys=(),
    fixed=dict(N_V=11, ell_max=9, L_enc=2, L_dec=3, H=2, d_e=8, d_mlp=6, eps=1e-5, embedding_scale="sqrt", absent=[]),
    weights=(
        Rule("tok_embedding.weight", "W_e.weight"),
        Rule("pos_embedding.weight", "W_p.weight"),
        *(Rule(f"{a}.{k}", f"{b}.{k}") for a, b in {**LAYERS, "fc_out": "W_u"}.items() for k in ("weight", "bias")),
    ),
    kind=EDTransformerConfig,
)
"""
SIZES = {"N_V": 11, "ell_max": 9, "L_enc": 2, "L_dec": 3, "H": 2, "d_e": 8, "d_mlp": 6}


@pytest.fixture
def folder(tmp_path):
    """An encoder-decoder under names of its own, without a config.json, and its tables."""
    (tmp_path / "my_format.py").write_text(TABLES)
    model = EDTransformer(EDTransformerConfig(**SIZES, eps=1e-5, embedding_scale="sqrt", absent=[])).double().eval()
    form = named_format(str(tmp_path / "my_format.py"))
    ours = {}
    for name, tensor in model.state_dict().items():
        parts = tensor.chunk(3) if ".W_qkv." in name else [tensor]
        names = [name.replace("W_qkv.", f"W_qkv.W_{x}.") for x in "qkv"] if len(parts) == 3 else [name]
        ours |= dict(zip(names, parts, strict=True))
    torch.save(dict(form.stored(model.config, ours, torch.cat)), tmp_path / "mine.pt")
    return tmp_path, model


def test_an_encoder_decoder(folder):
    """Loaded by its tables, and converted, it is the model that was stored."""
    path, model = folder
    z, x = torch.tensor([[3, 1, 4, 1]]), torch.tensor([[5, 9, 2, 6]])

    loaded = load(path / "mine.pt", str(path / "my_format.py")).model
    assert 0 == main(
        [
            "convert",
            str(path / "mine.pt"),
            str(path / "new"),
            "--format",
            str(path / "my_format.py"),
            "--dtype",
            "float64",
        ]
    )
    again = load(path / "new").model

    assert model.config == loaded.config == again.config
    assert torch.equal(model(z, x), loaded(z, x))
    assert torch.equal(model(z, x), again(z, x))
    assert "W_e.weight" in load_file(path / "new" / "model.safetensors")


def test_its_tensors_are_checked(folder):
    """What the tables do not know, and what they lack, is an error with its name, as for every format."""
    path, _ = folder
    tensors = torch.load(path / "mine.pt", weights_only=True)
    torch.save(tensors | {"fc_in.weight": torch.ones(1)}, path / "more.pt")

    with pytest.raises(CheckpointError, match=r"more.pt has fc_in.weight, for which there is no rule"):
        load(path / "more.pt", str(path / "my_format.py"))


def test_a_name_of_ours_is_misspelt(folder):
    """A rule that says a tensor is one that the model does not have names that, and the nearest one."""
    path, _ = folder
    tables = TABLES.replace('"W_e.weight"', '"W_ee.weight"')
    (path / "my_format.py").write_text(tables)
    message = r"mine.pt: tok_embedding.weight is said to be W_ee.weight, which the model does not have. .* W_e.weight"

    with pytest.raises(CheckpointError, match=message):
        load(path / "mine.pt", str(path / "my_format.py"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no file .*my_format.py"),
        ("FORMAT = ", r"cannot be run \(SyntaxError"),
        ("1 / 0", r"cannot be run \(ZeroDivisionError: division by zero\)"),
        ("raise SystemExit(0)", r"cannot be run \(SystemExit: 0\)"),
        ("x = 1", "has no FORMAT, which would be a transformulary.formats.Format"),
        ("FORMAT = 1", "has no FORMAT, which would be"),
    ],
)
def test_wrong_files(tmp_path, text, message):
    """A file that is not there, fails, or has no tables."""
    if text is not None:
        (tmp_path / "my_format.py").write_text(text)

    with pytest.raises(ConfigError, match=message):
        named_format(str(tmp_path / "my_format.py"))


def test_no_such_format():
    """A name that is none of ours lists those that there are."""
    with pytest.raises(ConfigError, match=r"there is no format 'bloom': a file ending in \.py, or one of gpt2"):
        named_format("bloom")
    assert "bert" == named_format("bert").model_type


def test_its_pages(folder, capsys):
    """It is described and compared as what it is converted to, on the command line and in Python."""
    path, model = folder
    stored, tables = str(path / "mine.pt"), str(path / "my_format.py")
    wanted = str(pseudocode.describe(model.config, True, name=stored))

    assert 0 == main(["describe", stored, "--stored", tables])
    assert f"{wanted}\n" == capsys.readouterr().out
    assert wanted == describe(stored, form=tables) == describe(load(stored, tables))
    assert 0 == main(["diff", "paper", stored, "--stored", tables])
    assert f"{diff('paper', load(stored, tables))}\n" == capsys.readouterr().out
    assert 0 == main(["diff", stored, "paper", "--stored", tables, "--stored", tables]) - 2
    assert "paper is a preset" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["paper", "gpt2"], ["gpt2", "gpt2-xl"]])
def test_nothing_is_stored(words, capsys):
    """--stored of presets alone is an error."""
    assert 2 == main(["diff", *words, "--stored", "bert"])
    assert f"{words[0]} is a preset" in capsys.readouterr().err


def test_without_tables(folder, capsys):
    """A file without them is named, and so is the option that gives them."""
    path, _ = folder

    assert 2 == main(["describe", str(path / "mine.pt")])
    assert f"{path / 'mine.pt'} has no config.json beside it" in (said := capsys.readouterr().err)
    assert "--stored" in said


def test_what_is_loaded_is_shown_in_a_line(folder):
    """Its kind, format, place and vocabulary; no tables."""
    path, _ = folder
    loaded = load(path / "mine.pt", str(path / "my_format.py"))

    assert f"<mine: {path / 'mine.pt'}>" == repr(loaded.described)
    assert f"<Loaded: EDTransformer, {loaded.described!r}, None>" == repr(loaded)

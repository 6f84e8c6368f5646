"""Converted: the same numbers, the same vocabulary, in files that `transformers` loads; whole or not at all."""

import json
import resource

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from encode.models import saved
from formats.theirs import KINDS, SIZES
from huggingface import randomise
from nn.models import config, model, tokens
from transformulary.cli import main
from transformulary.errors import CheckpointError, ConfigError, DataError
from transformulary.files import claimed
from transformulary.formats import open_source
from transformulary.models import convert, load, save
from transformulary.tokens import Tokenizer

GPT2 = {"vocab_size": 11, "n_positions": 16, "n_embd": 16, "n_layer": 3, "n_head": 4}
NEO = {"vocab_size": 11, "max_position_embeddings": 16, "hidden_size": 16, "num_layers": 2, "num_heads": 4}
MAKERS = {
    "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel, GPT2),
    "gpt_neo": (
        transformers.GPTNeoConfig,
        transformers.GPTNeoForCausalLM,
        NEO | {"window_size": 3, "attention_types": [[["global", "local"], 1]]},
    ),
    **{kind: (*KINDS[kind], SIZES) for kind in KINDS},
}
BART = {"vocab_size": 11, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 8}
BART |= {f"{stack}_{size}": 2 for stack in ("encoder", "decoder") for size in ("attention_heads", "ffn_dim")}
KEPT = {"bos_token_id": 3, "eos_token_id": 4, "initializer_range": 0.5}


def theirs(kind, folder, dtype="float32", **changes):
    """A random model of theirs in a folder, with the files of a vocabulary."""
    config, model, sizes = MAKERS[kind]
    randomise(model(config(**sizes | KEPT | changes))).to(getattr(torch, dtype)).save_pretrained(folder)
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')


def theirs_loads(kind, folder):
    """What `transformers` makes of a folder, nothing missing and nothing left over."""
    found, info = MAKERS[kind][1].from_pretrained(folder, output_loading_info=True, dtype="auto")
    assert [set()] * 3 == [set(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    return found.eval()


def logits(found, x):
    with torch.no_grad():
        return found(x).logits


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", MAKERS)
def test_there_and_back(tmp_path, kind, tied, dtype):
    """The same tensors bitwise, the same format, keys and files; `transformers` computes the very same logits."""
    theirs(kind, tmp_path / "theirs", dtype, tie_word_embeddings=tied)
    convert(tmp_path / "theirs", tmp_path / "ours")

    before, after = (theirs_loads(kind, tmp_path / folder) for folder in ("theirs", "ours"))
    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours")]
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    x = tokens(load(tmp_path / "ours").model.config, 2, 9)

    assert stored[0].keys() == stored[1].keys()
    assert all(torch.equal(tensor, stored[1][name]) for name, tensor in stored[0].items())
    assert {"model_type": kind, "dtype": dtype} | KEPT == {k: config[k] for k in ("model_type", "dtype", *KEPT)}
    assert torch.equal(logits(before, x), logits(after, x))
    for name in ("generation_config.json", "tokenizer_config.json"):
        assert (tmp_path / "theirs" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()


@pytest.mark.parametrize(
    ("kind", "to", "changes"),
    [("mistral", "llama", {"sliding_window": None}), ("llama", "mistral", {}), ("gpt2", "transformulary", {})],
)
def test_to_another_format(tmp_path, kind, to, changes):
    """Where another format has the words, the model is the same in it."""
    theirs(kind, tmp_path / "theirs", **changes)
    convert(tmp_path / "theirs", tmp_path / "ours", to)
    one, other = (load(tmp_path / folder).model for folder in ("theirs", "ours"))
    x = tokens(one.config, 1, 9)

    assert to == json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"]
    assert torch.equal(one(x), other(x))


@pytest.mark.parametrize(("kind", "to", "word"), [("llama", "qwen3", "qk_norm = False"), ("qwen2", "llama", "absent")])
def test_to_a_format_without_words(tmp_path, kind, to, word):
    """Where it has not, one line says which is missing, and nothing is written."""
    theirs(kind, tmp_path / "theirs")

    with pytest.raises(
        ConfigError, match=rf"theirs/model.safetensors cannot be written as {to}: .* no word for {word}"
    ):
        convert(tmp_path / "theirs", tmp_path / "ours", to)
    assert not (tmp_path / "ours").exists()


def test_a_model_as_it_is_now(tmp_path):
    """A loaded model, changed, is saved in the format that it came from, as a Mistral that could be a Llama."""
    theirs("mistral", tmp_path / "theirs", sliding_window=None)
    loaded = load(tmp_path / "theirs")
    with torch.no_grad():
        loaded.model.norm.weight += 1

    loaded.save(tmp_path / "ours")

    x = tokens(loaded.model.config, 1, 9)
    assert "mistral" == json.loads((tmp_path / "ours" / "config.json").read_text())["model_type"]
    torch.testing.assert_close(
        logits(theirs_loads("mistral", tmp_path / "ours"), x), loaded.model(x), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_another_precision(tmp_path, dtype):
    """Every number is rounded once, to the nearest of the other precision."""
    theirs("llama", tmp_path / "theirs")
    convert(tmp_path / "theirs", tmp_path / "ours", dtype=dtype)

    stored = [load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "ours")]

    assert all(torch.equal(stored[0][name].to(getattr(torch, dtype)), tensor) for name, tensor in stored[1].items())


def test_a_number_too_large(tmp_path):
    """What would become infinite is refused by its name, and nothing is written."""
    theirs("llama", tmp_path / "theirs")
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    tensors["model.norm.weight"][3] = 7e4
    save_file(tensors, tmp_path / "theirs" / "model.safetensors")

    with pytest.raises(ConfigError, match=r"norm.weight has 7e\+04, and float16 ends at 6.55e\+04"):
        convert(tmp_path / "theirs", tmp_path / "ours", dtype="float16")
    assert not (tmp_path / "ours").exists()


def with_spares(folder, dtype="float32", **tensors):
    """A BERT whose file has more tensors than we compute with."""
    convert(saved(folder / "first", "fill"), folder / dtype, dtype=dtype)
    file = folder / dtype / "model.safetensors"
    save_file(load_file(file) | {f"bert.pooler.dense.{name}": t for name, t in tensors.items()}, file)
    return folder / dtype


def test_spare_tensors_stay_as_they_are(tmp_path):
    """What we compute nothing with keeps its numbers and its own type, also beside parameters of another."""
    spares = {"bias": torch.tensor([2**40 + 1]), "weight": torch.tensor([[1 + 2**-20]])}
    before = with_spares(tmp_path, "float16", **spares)
    convert(before, tmp_path / "out")

    found = load_file(tmp_path / "out" / "model.safetensors")
    for name, tensor in load_file(before / "model.safetensors").items():
        assert tensor.dtype == found[name].dtype, name
        assert torch.equal(tensor, found[name])


def test_spare_numbers_too_large(tmp_path):
    """No number becomes infinite, not even one that we compute nothing with."""
    bert = with_spares(tmp_path, weight=torch.tensor([[1e6]]))
    bart = transformers.BartForConditionalGeneration(transformers.BartConfig(**BART))
    bart.model.encoder.embed_positions.weight.data[0] = 1e6  # a row that no position has
    bart.save_pretrained(tmp_path / "bart")

    with pytest.raises(ConfigError, match=r"bert.pooler.dense.weight has 1e\+06, and float16 ends at 6.55e\+04"):
        convert(bert, tmp_path / "out", dtype="float16")
    with pytest.raises(ConfigError, match=r"encoder.embed_positions.weight has 1e\+06"):
        convert(tmp_path / "bart", tmp_path / "out", dtype="float16")


def test_our_own_vocabulary_stays_its_own(tmp_path):
    """The hash of the vocabulary with which a model was saved comes along, and still guards it."""
    tokenizer = Tokenizer.train("characters", ["abcd"])
    save(tmp_path / "1", model(config()), tokenizer)
    convert(tmp_path / "1", tmp_path / "2")

    assert tokenizer.hash == load(tmp_path / "2").tokenizer.hash
    Tokenizer.train("characters", ["efgh"]).save(tmp_path / "2")
    with pytest.raises(CheckpointError, match="that of another vocabulary"):
        load(tmp_path / "2")


def test_nothing_is_overwritten_unasked(tmp_path):
    """A folder that holds something stays as it is; --overwrite replaces a model, and leaves other files alone."""
    theirs("llama", tmp_path / "theirs")
    save(tmp_path / "old", model(config()), Tokenizer.train("characters", ["abcd"]))
    (tmp_path / "old" / "training.safetensors").write_bytes(b"")
    (tmp_path / "old" / "notes.md").write_text("mine")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}
    with pytest.raises(DataError, match="not an empty folder: nothing is overwritten"):
        convert(tmp_path / "theirs", tmp_path / "old")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}

    convert(tmp_path / "theirs", tmp_path / "old", overwrite=True)

    assert {path.name for path in (tmp_path / "old").iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "notes.md", "tokenizer_config.json"
    }  # fmt: skip
    assert load(tmp_path / "theirs").model.config == load(tmp_path / "old").model.config


def test_overwrite_replaces_models_only(tmp_path):
    """A folder that holds no model is not replaced by one."""
    theirs("llama", tmp_path / "theirs")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "vocab.txt").write_text("mine")

    with pytest.raises(DataError, match="nothing is overwritten"):
        convert(tmp_path / "theirs", tmp_path / "out", overwrite=True)


def test_in_its_own_place(tmp_path):
    """A model may replace itself in another precision."""
    theirs("llama", tmp_path / "m")
    convert(tmp_path / "m", tmp_path / "m", dtype="float64", overwrite=True)

    assert {"F64"} == set(open_source(tmp_path / "m").dtypes.values())


def two_models(folder):
    """Two of one config, with other weights, and another tokenizer_config.json."""
    for name in "ab":
        theirs("llama", folder / name)
    (folder / "b" / "tokenizer_config.json").write_text("{}")
    return folder / "a", folder / "b"


def read(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_full_disk_leaves_the_old_model(tmp_path):
    """When a model cannot take the place of another, or its own, all its files stay, and no other."""
    a, b = two_models(tmp_path)
    before = read(b)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        for source in (a, b):
            with pytest.raises(OSError, match=r"model\.safetensors"):
                convert(source, b, dtype="float64", overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert before == read(b)


def test_no_mixture_is_a_model(tmp_path, monkeypatch):
    """Killed while one model takes the place of another, which has the same config, OUT is none; a retry mends that."""
    a, b = two_models(tmp_path)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("os.replace", killed)
        convert(a, b, overwrite=True)
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        load(b)

    convert(a, b, overwrite=True)

    convert(a, tmp_path / "c")
    assert read(tmp_path / "c") == read(b)


def test_two_at_once(tmp_path):
    """Who would write where another run is writing is refused, and the model there stays."""
    a, b = two_models(tmp_path)
    before = read(b)

    with claimed(b), pytest.raises(ConfigError, match="is in use: another run writes there"):
        convert(a, b, overwrite=True)

    assert before == read(b)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    """When writing fails, there is no folder, and no temporary one either."""
    theirs("llama", tmp_path / "theirs")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("transformulary.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        convert(tmp_path / "theirs", tmp_path / "ours")

    assert ["theirs"] == [path.name for path in tmp_path.iterdir()]


def test_on_the_command_line(tmp_path, capsys):
    """One line, or one JSON object, says what was written; what cannot be is one line and status 2."""
    theirs("llama", tmp_path / "theirs")
    source, out = str(tmp_path / "theirs"), str(tmp_path / "out")

    assert 0 == main(["convert", source, out, "--to", "mistral", "--dtype", "float16"])
    assert capsys.readouterr().out == f"{out}: mistral, 4,496 parameters, F16\n"
    assert 2 == main(["convert", source, out])
    assert "nothing is overwritten" in capsys.readouterr().err
    assert 0 == main(["convert", source, out, "--overwrite", "--json"])
    assert {"out": out, "format": "llama", "dtype": "F32", "parameters": 4496} == json.loads(capsys.readouterr().out)
    for wrong, message in ((["--to", "bloom"], "no format 'bloom' is written"), (["--dtype", "int8"], "is none of")):
        assert 2 == main(["convert", source, out + "2", *wrong])
        assert message in capsys.readouterr().err

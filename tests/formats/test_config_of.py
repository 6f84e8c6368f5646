"""A config is read without weights, from wherever it lies; whatever else lies there is refused in one line."""

import json
import os
import shutil
import tracemalloc

import pytest

from formats.least import LEAST
from nn.models import config, model
from transformulary.errors import CheckpointError
from transformulary.formats import config_of
from transformulary.models import save
from transformulary.paper import preset

GPT2 = LEAST["gpt2"]


def digits(kind="gpt2", **sizes):
    """A config.json, digit by digit: json writes no number of so many."""
    return json.dumps(LEAST[kind] | {key: f"<{n}>" for key, n in sizes.items()}).replace('"<', "").replace('>"', "")


@pytest.fixture
def folder(tmp_path):
    """A saved model."""
    save(tmp_path / "model", model(config()))
    return tmp_path / "model"


def test_a_folder_needs_no_weights(folder):
    """With weights and without, the folder and each of its files mean the same config."""
    found = [config_of(folder / name) for name in (".", "model.safetensors", "config.json")]
    (folder / "model.safetensors").unlink()
    found += [config_of(folder), config_of(str(folder))]

    assert [config()] * 5 == found


def test_a_file_of_any_name(folder):
    """A config.json may be called otherwise."""
    shutil.copy(folder / "config.json", folder / "mine")

    assert config() == config_of(folder / "mine")


def test_the_index_of_shards(folder):
    """An index has its config beside it."""
    (folder / "model.safetensors.index.json").write_text("{}")

    assert config() == config_of(folder / "model.safetensors.index.json")


def test_a_name_in_the_cache(tmp_path, monkeypatch):
    """org/name is looked for where Hugging Face's library keeps what it has downloaded."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--some--gpt" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(GPT2))

    assert preset("gpt2-small").config == config_of("some/gpt")


def nested(depth):
    """A config whose harmless and unknown keys hold lists in lists."""
    return f'{{"model_type": "gpt2", "id2label": {"[" * depth}{"]" * depth}, "new": {"[" * depth}{"]" * depth}}}'


BAD = {
    "nothing": ("", "is not JSON"),
    "no text": (b"\xff\xfe\x00", "is not JSON"),
    "cut short": ('{"model_type": "gpt2', "is not JSON"),
    "a list": ("[]", "is no JSON object"),
    "a key twice": ('{"n_embd": 1, "n_embd": 2}', "n_embd occurs twice"),
    "many keys": ("{" + "".join(f'"{k}": 1, ' for k in range(10**5)) + '"99999": 2}', "99999 occurs twice"),
    "deep": (nested(100_000), "is not JSON"),
    "deep, but JSON": (nested(900), "new = .* has no rule|recursion"),
    "an unknown kind": ('{"model_type": "gpt5"}', "model_type = 'gpt5' is none of those"),
    "a kind that is no word": ('{"model_type": [1]}', r"model_type = \[1\] is none of those"),
    "a known, refused kind": ('{"model_type": "gemma"}', "gemma has norms that multiply by 1 \\+ gamma"),
    "a string for a number": ({"n_embd": "768"}, "d_e = '768' must be a whole number"),
    "a fraction": ({"n_layer": 1.5}, "L = 1.5 must be a whole number"),
    "nothing for a number": ({"n_layer": None}, "missing or null: n_layer. "),
    "NaN": ({"n_layer": float("nan")}, "L = nan must be a whole number"),
    "NaN for a real number": ({"layer_norm_epsilon": float("nan")}, "eps = nan must be 0 or a positive number"),
    "infinite": ({"layer_norm_epsilon": float("inf")}, "eps = inf must be 0 or a positive number"),
    "zero": ({"n_layer": 0}, "L = 0 must be a whole number, at least 1"),
    "negative": ({"n_positions": -1}, "ell_max = -1 must be a whole number, at least 1"),
    "heads": ({"n_head": 7}, "H = 7 does not divide d_e = 768"),
    "too many layers": ({"n_layer": 10**9}, r"n_layer \(L\) is more than 10,000, and no model has so many"),
    "too wide": ({"n_embd": 12 * 10**9}, r"n_embd \(d_e\) is more than 1,000,000,000"),
    "longer than can be shown": (digits(vocab_size="1" + "0" * 4290), "N_V has 14252 bits"),
    "longer than is read": (digits(vocab_size="1" + "0" * 10**6), "is not JSON"),
    "a derived number that long": (
        digits(n_embd="9" + "0" * 4299, n_head=7),
        "d_e has 14285 bits",
    ),
    "a long unknown key": ({"x" * 10**6: 1}, "x+ = 1 has no rule"),
    "layers that contradict": (digits("gpt_neo", num_layers=3), "they contradict each other"),
    "too many layers to list": (digits("gpt_neo", num_layers=10**9), "is no number of layers"),
    "a lack": (
        '{"model_type": "transformulary"}',
        "missing or null: norm, eps, .*, N_V, ell_max, L, mask. N",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_config(name, tmp_path):
    """One line that names the file and says what is wrong, whatever it holds, in bounded memory."""
    content, message = BAD[name]
    path = tmp_path / "config.json"
    text = json.dumps(GPT2 | content) if isinstance(content, dict) else content
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=rf"^{path}.*({message})") as error:
            config_of(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert ("\n" in str(error.value), peak < 2**28) == (False, True)


def test_a_gigabyte(tmp_path):
    """A file far too large is not read to its end."""
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(2**30)
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match="has more than 32 MiB"):
            config_of(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2**27


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="needs pipes that have names")
def test_a_pipe(tmp_path):
    """A config may come through a pipe (`describe <(...)`); one that nobody writes to is not waited for."""
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json is not JSON"):
        config_of(tmp_path / "config.json")
    reading, writing = os.pipe()
    os.write(writing, json.dumps(GPT2 | {"n_layer": 5}).encode())
    os.close(writing)

    try:
        assert 5 == config_of(f"/dev/fd/{reading}").L
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nowhere/at/all", "nowhere/at/all does not exist"),
        ("some/name", "the cache .* has no such model. Nothing is downloaded"),
        (".", "has no config.json"),
    ],
)
def test_nothing_there(where, message, tmp_path, monkeypatch):
    """A path that does not exist, a model that was never downloaded, and an empty folder."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CheckpointError, match=message):
        config_of(where)

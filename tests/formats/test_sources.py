"""Wherever a checkpoint lies and however it is stored, it is the same model; what is damaged is one line."""

import json
import os
import pickle
import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from formats.theirs import made
from nn.models import config, model
from transformulary import oracle
from transformulary.conform.theta import theta_of
from transformulary.errors import CheckpointError
from transformulary.formats import open_source, theta_source
from transformulary.models import load, save

DTYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}


@pytest.fixture
def folder(tmp_path):
    made("llama").save_pretrained(tmp_path / "whole")
    return tmp_path / "whole"


def sharded(folder, suffix):
    """The same folder in two files with an index."""
    other = folder.parent / f"shards{suffix}"
    other.mkdir()
    shutil.copy(folder / "config.json", other)
    tensors = load_file(folder / "model.safetensors")
    stem, kind = suffix.rsplit(".", 1)
    places = {name: f"{stem}-{1 + (i > 4)}.{kind}" for i, name in enumerate(tensors)}
    for file in set(places.values()):
        part = {name: tensor for name, tensor in tensors.items() if places[name] == file}
        (save_file if kind == "safetensors" else torch.save)(part, other / file)
    (other / f"{suffix}.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": places}))
    return other


def pickled(folder, old=False):
    other = folder.parent / "pickled"
    other.mkdir()
    shutil.copy(folder / "config.json", other)
    tensors = load_file(folder / "model.safetensors")
    torch.save(tensors, other / "pytorch_model.bin", _use_new_zipfile_serialization=not old)
    return other


PLACES = {
    "folder": lambda folder: folder,
    "file": lambda folder: folder / "model.safetensors",
    "shards": lambda folder: sharded(folder, "model.safetensors"),
    "index": lambda folder: sharded(folder, "model.safetensors") / "model.safetensors.index.json",
    "pytorch_model.bin": pickled,
    "its file": lambda folder: pickled(folder) / "pytorch_model.bin",
    "an old one": lambda folder: pickled(folder, old=True),
    "shards of pytorch_model.bin": lambda folder: sharded(folder, "pytorch_model.bin"),
}


@pytest.mark.parametrize("place", PLACES)
def test_the_same_model_from_everywhere(folder, place):
    """Config, fast model and theta are those of the folder with one file."""
    wanted = load(folder).model

    where = PLACES[place](folder)
    fast, (c, array) = load(where).model, theta_source(open_source(where))

    assert wanted.config == fast.config == c
    assert all(torch.equal(a, b) for a, b in zip(wanted.parameters(), fast.parameters(), strict=True))
    for (name, one), (other, two) in zip(theta_of(wanted).items(), oracle.theta_from(c, array).items(), strict=True):
        assert name == other
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("variables", [{"HF_HOME": "{}"}, {"HF_HUB_CACHE": "{}/hub"}, {"XDG_CACHE_HOME": "{}/.."}])
@pytest.mark.parametrize("name", ["org/some-name.1", "bare"])
def test_from_the_cache_by_name(folder, tmp_path, monkeypatch, name, variables):
    """org/name finds the snapshot that refs/main names, whatever says where the cache is."""
    home = tmp_path / "huggingface"
    repository = home / "hub" / f"models--{name.replace('/', '--')}"
    for snapshot in ("abc", "old"):
        shutil.copytree(folder, repository / "snapshots" / snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    for variable in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value.format(home))
    monkeypatch.chdir(tmp_path)

    assert open_source(name).folder.resolve() == repository / "snapshots" / "abc"
    (repository / "refs" / "main").unlink()
    with pytest.raises(CheckpointError, match="has 2 versions"):
        open_source(name)


@pytest.mark.parametrize("name", ["org/unknown", "../x", "a/b/c", "a/..", "/nowhere/at/all", "a b"])
def test_no_such_name(tmp_path, monkeypatch, name):
    """What is neither there nor in the cache is one line, and nothing is looked for outside the cache."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))

    with pytest.raises(CheckpointError, match="does not exist"):
        open_source(name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_exact(tmp_path, dtype):
    """Every type is read as it is; bfloat16, which NumPy lacks, as float32 without loss; from pickles as well."""
    fast = model(config()).to(getattr(torch, dtype))
    save(tmp_path, fast)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "other.bin")

    for path in (tmp_path, tmp_path / "other.bin"):
        source = open_source(path)
        name = "transformer.wte.weight"
        assert source.dtypes[name] == DTYPES[dtype]
        assert source.shapes[name] == (11, 8)
        assert np.array_equal(source.array(name).astype(np.float64), fast.W_e.weight.double().detach().numpy())
        assert load(path).model.W_e.weight.dtype == fast.W_e.weight.dtype


def test_only_what_is_asked_for_is_read(folder):
    """An array of theta reads its own tensor, once for all heads."""
    source, read = open_source(folder), []

    def watched(name, tensor):
        return replace(tensor, read=lambda: (read.append(name), tensor.read())[1])

    source = replace(source, tensors={name: watched(name, tensor) for name, tensor in source.tensors.items()})
    _, array = theta_source(source)
    assert read == []

    heads = [array(f"W[2].W_q[{h}]", "d_attn d_e") for h in (1, 2, 3, 4)]

    assert read == ["model.layers.1.self_attn.q_proj.weight"]
    assert [(4, 16)] * 4 == [head.shape for head in heads]


def edit_index(folder, change):
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))


N = "model.norm.weight"
SHARDS = {
    "not there": (lambda i: i["weight_map"].update({N: "model-3.safetensors"}), "names model-3.safetensors, and it is"),
    "outside": (lambda i: i["weight_map"].update({N: "../whole/model.safetensors"}), "is no file of parameters beside"),
    "another place": (lambda i: i["weight_map"].update({N: "model-1.safetensors"}), f"has {N}, which .* is in model-1"),
    "not named": (lambda i: i["weight_map"].pop(N), f"has {N}, which .* is in no file"),
    "lost": (lambda i: i["weight_map"].update(more="model-1.safetensors"), "more is not in model-1.safetensors"),
    "no map": (lambda i: i.pop("weight_map"), "has no weight_map"),
    "no names": (lambda i: i["weight_map"].update({N: 1}), "has no weight_map"),
}


@pytest.mark.parametrize("kind", SHARDS)
def test_an_index_that_is_wrong(folder, kind):
    """An index and its shards must say the same, and name files beside them."""
    change, message = SHARDS[kind]
    shards = sharded(folder, "model.safetensors")
    edit_index(shards, change)

    with pytest.raises(CheckpointError, match=message):
        load(shards)


class Exploit:
    """What runs code when it is unpickled without care."""

    def __reduce__(self):
        return (print, ("pwned",))


def deflated(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 10**7)


def twice(path):
    torch.save({"a": torch.ones(1)}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other/data.pkl", b"\x80\x02}.")


def stretched(path):
    torch.save({"a": torch.zeros(1).expand(10**12)}, path)


class Memory:
    """What takes ten gigabytes when it is unpickled, by a class that PyTorch allows."""

    def __reduce__(self):
        return (bytearray, (10**10,))


def claimed(path):
    """An old file whose storage says that it has more numbers than the file has bytes."""
    torch.save({"a": torch.ones(200)}, path, _use_new_zipfile_serialization=False)
    content = path.read_bytes()
    assert content.count(b"K\xc8") == 2  # the storage's, and the tensor's shape
    path.write_bytes(content.replace(b"K\xc8", b"J\xff\xff\xff\x7f", 1))


def bomb(path):
    """A key made of two that are each made of two, sixty times: its hash would take for ever."""
    doubled = b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02K\x00\x85q\x00" + doubled + b"}h\x3cK\x01s.")


def endless(path):
    """A program of half a million operations, each of one byte."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + b"(" * 500_000 + b"}.")


PICKLES = {
    "memory": (lambda path: torch.save({"a": Memory()}, path), "holds more than tensors"),
    "a key without end": (bomb, "holds more than tensors"),
    "a program without end": (endless, "holds more than tensors"),
    "an old one without end": (lambda path: path.write_bytes(b"(" * 2**24), "holds more than tensors"),
    "two programs": (twice, "holds more than tensors"),
    "code": (lambda path: torch.save({"a": Exploit()}, path), "more than tensors, or is damaged: it is not read, no"),
    "a plain pickle": (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "holds more than tensors, or is damaged"),
    "code, in an old one": (
        lambda path: torch.save({"a": Exploit()}, path, _use_new_zipfile_serialization=False), "holds more than tensors"
    ),
    "numbers that an old one lacks": (claimed, "holds more than tensors, or is damaged"),
    "no tensors": (lambda path: torch.save([1, 2], path), "holds list, not tensors"),
    "a number": (lambda path: torch.save({"a": 1}, path), "a is int, not a plain tensor"),
    "nested": (lambda path: torch.save({"state_dict": {"a": torch.eye(2)}}, path), "inside, save that part alone"),
    "sparse": (lambda path: torch.save({"a": torch.eye(2).to_sparse()}, path), "holds more than tensors"),
    "stretched": (stretched, "in a layout that no parameter has"),
    "empty and endless": (lambda path: torch.save({"a": torch.empty(0, 2**62)}, path), "in a layout that no parameter"),
    "complex": (lambda path: torch.save({"a": torch.ones(2, dtype=torch.complex64)}, path), "complex64 numbers"),
    "packed": (deflated, "packed as torch.save never packs"),
    "empty": (lambda path: path.write_bytes(b""), "is damaged"),
}  # fmt: skip


def test_no_name():
    """The empty name, which a forgotten variable leaves, is not the current folder."""
    with pytest.raises(CheckpointError, match="the name of the model is empty"):
        open_source("")


@pytest.mark.filterwarnings("ignore::UserWarning")  # sparse tensors warn
@pytest.mark.parametrize("kind", PICKLES)
def test_pickles_that_are_no_weights(folder, capsys, kind):
    """Nothing in a pickle is run, nothing is unpacked beyond the file's size; what holds no weights is one line."""
    write, message = PICKLES[kind]
    write(folder / "pytorch_model.bin")

    with pytest.raises(CheckpointError, match=message):
        open_source(folder / "pytorch_model.bin")
    assert "pwned" not in capsys.readouterr().out


@pytest.mark.parametrize("old", [False, True])
def test_a_truncated_pickle(folder, old):
    """A pytorch_model.bin cut anywhere is refused with its name."""
    path = pickled(folder, old) / "pytorch_model.bin"
    whole = path.read_bytes()

    for n in range(0, len(whole), 997):
        path.write_bytes(whole[:n])
        with pytest.raises(CheckpointError, match=r"pytorch_model.bin"):
            load(path)


@pytest.mark.parametrize("name", ["m.safetensors", "m.bin", "m.pt", "m.gguf"])
def test_a_pipe(folder, name):
    """Nobody waits for what is written to a pipe, perhaps for ever."""
    os.mkfifo(folder / name)

    with pytest.raises(CheckpointError, match=f"{name} is no file"):
        open_source(folder / name)


def test_other_files(folder):
    """A file of another kind, a folder without parameters, one without config.json: each says what is missing."""
    (folder / "model.txt").write_text("")
    with pytest.raises(CheckpointError, match="none of the files that hold a model"):
        open_source(folder / "model.txt")
    (folder / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"has no model\.safetensors nor pytorch_model\.bin"):
        open_source(folder)
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        open_source(folder)

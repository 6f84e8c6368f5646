"""What becomes of the vectors of tokens is said by files of sentence-transformers, which are read, kept and written."""

import json

import pytest
import torch

from encode.models import config, saved
from nn.models import model
from transformulary.errors import CheckpointError
from transformulary.formats import Pooling
from transformulary.models import convert, load, save
from transformulary.nn import EEmbedder

MODES = {"mean_tokens": "mean", "cls_token": "first", "max_tokens": "max"}


def written(folder, mode="mean_tokens", modules=("Transformer", "Pooling", "Normalize"), **more):
    """The files as their library writes them."""
    paths = {"Transformer": "", "Pooling": "1_Pooling"}
    listed = [
        {"idx": i, "name": str(i), "path": paths.get(m, f"{i}_{m}"), "type": f"sentence_transformers.models.{m}"}
        for i, m in enumerate(modules)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    modes = {f"pooling_mode_{name}": name == mode for name in (*MODES, "mean_sqrt_len_tokens", "lasttoken")}
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 8} | modes | more))
    return folder


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_a_folder_says_how_vectors_are_made(tmp_path, mode, normalised):
    """Its pooling, and its norm or none, are those of the model."""
    folder = saved(tmp_path, "embed")
    written(folder, mode, ("Transformer", "Pooling", "Normalize")[: 2 + normalised], include_prompt=True)

    made = load(folder).model

    assert (MODES[mode], normalised) == (made.pooling, made.normalised)


def test_without_such_files_it_is_the_mean(tmp_path):
    """Of length 1."""
    assert Pooling("mean", True) == Pooling.read(tmp_path, 8)


@pytest.mark.parametrize("pooling", MODES.values())
@pytest.mark.parametrize("normalised", [True, False])
def test_what_is_saved_is_loaded(tmp_path, pooling, normalised):
    """Saved, converted, and saved once more, a model makes vectors as it did."""
    made = model(config(), made=EEmbedder(config(), pooling, normalised))
    save(tmp_path / "one", made)
    load(tmp_path / "one").save(tmp_path / "two")

    convert(tmp_path / "two", tmp_path / "three")

    for name in ("one", "two", "three"):
        found = load(tmp_path / name).model
        assert (pooling, normalised) == (found.pooling, found.normalised)


def test_a_pooling_that_was_changed_is_saved(tmp_path):
    """The model is saved as it is now."""
    loaded = load(written(saved(tmp_path / "one", "embed")))
    loaded.model.pooling = "max"

    loaded.save(tmp_path / "two")

    assert ("mean", "max") == (load(tmp_path / "one").model.pooling, load(tmp_path / "two").model.pooling)


def test_one_model_replaces_another_with_its_pooling(tmp_path):
    """The files of the old model go."""
    save(tmp_path / "old", EEmbedder(config(), "first"))
    saved(tmp_path / "new", "fill")

    convert(tmp_path / "new", tmp_path / "old", overwrite=True)

    assert not (tmp_path / "old" / "modules.json").exists()
    assert not (tmp_path / "old" / "1_Pooling" / "config.json").exists()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"mode": "lasttoken"}, "config.json asks for lasttoken; we compute one of mean_tokens, cls_token, max_tokens"),
        ({"pooling_mode_max_tokens": True}, r"config.json asks for mean_tokens \+ max_tokens"),
        ({"mode": "none"}, "asks for no pooling"),
        ({"modules": ("Transformer", "Pooling", "Dense")}, "modules.json puts Pooling, Dense on top of the encoder"),
        ({"modules": ("Transformer",)}, "modules.json puts nothing on top"),
        ({"modules": ("Dense", "Pooling")}, "modules.json does not begin with the Transformer in .* itself"),
        ({"modules": ("Pooling", "Normalize")}, "modules.json does not begin with the Transformer"),
        ({"pooling_mode_mean_tokens": "false"}, "pooling_mode_mean_tokens = 'false': not true or false"),
        ({"pooling_mode_max_tokens": None}, "pooling_mode_max_tokens = None: not true or false"),
        ({"word_embedding_dimension": 999}, "word_embedding_dimension = 999, and the model's vectors have d_e = 8"),
        ({"weighted": 1}, "config.json: weighted has no rule"),
    ],
)
def test_other_vectors_are_refused(tmp_path, said, message):
    """What we do not compute is named: other vectors would come out without any error."""
    with pytest.raises(CheckpointError, match=message):
        load(written(saved(tmp_path, "embed"), **said))


@pytest.mark.parametrize("content", ["{", "{}", "[1]", '[{"type": 3, "path": ""}]', "[]"])
def test_no_list_of_modules(tmp_path, content):
    """A damaged modules.json is named."""
    written(saved(tmp_path, "embed"))
    (tmp_path / "modules.json").write_text(content)

    with pytest.raises(CheckpointError, match=r"modules\.json"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1_Pooling", "../1_Pooling", "the path '../1_Pooling' is no folder beside it"),
        ("1_Pooling", "/etc", "the path '/etc' is no folder"),
        ("1_Pooling", "..", "the path '..' is no folder"),
        ("1_Pooling", "", "config.json: .* has no rule"),
        ('"path": ""', '"path": "0_Transformer"', "does not begin with the Transformer"),
        ("sentence_transformers.models.Pooling", "mine.Pooling", "modules.json puts mine.Pooling, Normalize on top"),
    ],
)
def test_modules_of_others(tmp_path, old, new, message):
    """A module is one of theirs, in a folder of its name beside modules.json; the first is the model there."""
    file = written(saved(tmp_path, "embed")) / "modules.json"
    file.write_text(file.read_text().replace(old, new, 1))

    with pytest.raises(CheckpointError, match=message):
        load(tmp_path)


def test_the_largest_numbers_of_padding_do_not_count():
    """The largest number of each coordinate is that of a token."""
    made = model(config(), made=EEmbedder(config(), "max", normalised=False))
    x, real = torch.tensor([[2, 5, 3, 0, 0]]), torch.tensor([[True] * 3 + [False] * 2])

    torch.testing.assert_close(
        made(x, 0 * x, real=real), made(x[:, :3], 0 * x[:, :3]), rtol=0, atol=1e-12
    )  # fmt: skip

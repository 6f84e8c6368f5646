"""`transformulary describe FOLDER --run` of a record that no run wrote: one line, whatever it holds."""

import json
import math
import shutil
from copy import deepcopy
from functools import reduce

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save

from formats.least import LEAST
from transformulary.cli import main
from transformulary.cli._runs import run_of
from transformulary.errors import CheckpointError, UserError
from transformulary.formats.state import checksum, read_state
from transformulary.pseudocode import run
from transformulary.pseudocode.nodes import Head
from transformulary.train import load_state
from transformulary.train.checkpoint import raw

OPTIONS = (
    "--tokenizer characters --held-out 0.2 --precision float32 --threads 1 --steps 6 --L 1 --H 1 --d-e 2 --ell-max 6"
)
#: What no run records, of any kind that JSON has.
WRONG = (None, -1, 1.5, 10**400, math.nan, "7", [None], {"x": 1})
#: What may be as one likes: what is kept for whoever trained from Python, special tokens, and no measurement.
FREE = {("about",), ("tokenizer", "special"), ("record", "measured"), ("config", "model")}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny model that was trained by the command line, went on by the clock, and its measurement."""
    place = tmp_path_factory.mktemp("run")
    (place / "a.txt").write_text("abcab bca cab bca abba ccab", encoding="utf-8")
    assert main(["train", str(place / "a.txt"), "--out", str(place / "out"), *OPTIONS.split()]) == 0
    assert main(["train", "--resume", str(place / "out"), "--steps", "8", "--seconds", "1000"]) == 0
    return place / "out"


@pytest.fixture(scope="module")
def opened(trained):
    """Its tensors, and its header."""
    path = trained / "training.safetensors"
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, read_state(path)  # noqa: SIM118


@pytest.fixture
def forged(trained, opened, tmp_path):
    """The function that gives a folder whose header is another, with the checksum that it should have."""
    shutil.copytree(trained, tmp_path / "out")

    def write(header, **tensors):
        tensors = opened[0] | tensors
        text = json.dumps(header)
        digest = checksum(text, [raw(*tensor) for tensor in tensors.items()])
        (tmp_path / "out" / "training.safetensors").write_bytes(
            save(tensors, {"transformulary": text, "sha256": digest})
        )
        return tmp_path / "out"

    return write


def places(tree, at=()):
    """The path of everything in a tree of tables and lists, the tree itself left out."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, below in items:
        yield (*at, key)
        yield from places(below, (*at, key))


def changed(tree, at, *value):
    """A copy with another value at a place; without the place if no value is given."""
    tree = deepcopy(tree)
    *above, last = at
    inner = tree
    for key in above:
        inner = inner[key]
    if value:
        inner[last] = value[0]
    else:
        del inner[last]
    return tree


def printed(folder):
    """The page of the run."""
    found = run_of(str(folder))
    json.dumps(found.facts())
    return run(found.config, found.practice, head=Head("a run", found.said()))


def test_any_value_that_is_none(opened, forged):
    """Whatever is left out or of another kind is refused in words; what is taken is of the kind that stood there."""
    header, refused = opened[1], 0

    for at in places(header):
        there = reduce(lambda tree, key: tree[key], at, header)
        for value in [(), *((wrong,) for wrong in WRONG)]:
            try:
                page = printed(forged(changed(header, at, *value)))
            except UserError as error:
                refused += 1
                assert "\n" not in str(error), (at, value)
            else:
                assert at[:2] in FREE or (value and type(value[0]) in (type(there), float)), (at, value)
                assert "nan" not in page, (at, value)

    assert refused > 800


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (("progress", "step"), (7777,), "a session of 8 steps is at step 7777."),
        (("progress", "step"), (1.5,), "progress.step = 1.5 must be a whole number, at least 0."),
        (("progress", "seconds"), (-3.0,), "progress.seconds = -3.0 must be a number, at least 0."),
        (("progress", "epoch"), (), "progress lacks 'epoch'."),
        (("record", "version"), (), "record lacks 'version'."),
        (("record", "sessions", 1, "step"), (9,), "a session of 6 steps is at step 9."),
        (("record", "sessions", 1, "steps"), (9,), "the last session's limits (9, 1000.0) are not the run's."),
        (("record", "measured", "step"), (9,), "measured after step 9 of 8."),
        (("config", "training", "batch"), (), "config.training lacks 'batch'."),
        (("config", "training", "steps"), (None,), "config.training leaves something open."),
        (("config", "training", "precision"), ("auto",), "precision = 'auto' is none of float32, float64, bfloat16."),
        (("config", "model", "H"), (10**400,), "DTransformerConfig: H has 1329 bits, which is absurd."),
        (("config", "model", "mask"), (["full"],), "config.json is not of the model whose training"),
        (("about", "files", 0), (None,), "about.files[0] = None must be a table."),
    ],
)
def test_what_is_said(at, value, words, opened, forged, capsys):
    """One line says which value is none, and why."""
    status = main(["describe", str(forged(changed(opened[1], at, *value))), "--run"])

    out, err = capsys.readouterr()
    assert (2, "", 1) == (status, out, err.count("\n"))
    assert words in err


@pytest.mark.parametrize("added", [None, 5, [None], [{"content": "a"}], [{"content": "a", "id": 10**6}]])
def test_special_tokens_that_are_none(added, opened, forged):
    """A token is text with an id below N_V."""
    pipeline = json.dumps(json.loads(opened[1]["tokenizer"]["pipeline"]) | {"added_tokens": added})

    with pytest.raises(CheckpointError, match=r"tokenizer\.added_tokens.* must be a"):
        run_of(str(forged(changed(opened[1], ("tokenizer", "pipeline"), pipeline))))


@pytest.mark.parametrize("numbers", [[0.0] * 7, [-1.0] + [0.0] * 7, [math.inf] * 8, [2.0, 1.0] + [3.0] * 6])
def test_a_clock_that_no_run_has(numbers, opened, forged):
    """Seconds are one for each step, in order."""
    with pytest.raises(CheckpointError, match="its clock is not the seconds before each of 8 steps"):
        run_of(str(forged(opened[1], clock=torch.tensor(numbers))))


@pytest.mark.parametrize("read", [lambda folder: run_of(str(folder)), load_state])
def test_a_byte_that_was_changed(read, opened, forged):
    """A header or a number that is not what was saved is noticed before anything is printed, as when resuming."""
    path = forged(opened[1]) / "training.safetensors"
    whole = path.read_bytes()

    for damaged in (whole.replace(rb"\"tokens\": 176", rb"\"tokens\": 177"), whole[:-1] + bytes([whole[-1] ^ 1])):
        path.write_bytes(damaged)
        assert whole != damaged
        with pytest.raises(CheckpointError, match="does not have the checksum in its header"):
            read(path.parent)


def test_files_that_do_not_belong_together(trained, tmp_path, capsys):
    """A folder with another model's config.json, and a file where a folder is meant, are one line."""
    shutil.copytree(trained, tmp_path / "out")
    (tmp_path / "out" / "config.json").write_text(json.dumps(LEAST["gpt2"]))

    statuses = [main(["describe", str(trained.parent / name), "--run"]) for name in ("out/config.json", "a.txt")]
    statuses.append(main(["describe", str(tmp_path / "out"), "--run"]))

    told = capsys.readouterr().err.splitlines()
    assert [2, 2, 2] == statuses
    assert told[0].endswith(
        "out/config.json is a file; name the folder: no run of `transformulary train` is recorded there."
    )
    assert "config.json is not of the model whose training training.safetensors records" in told[2]


def test_fewer_steps_than_were_made(trained, capsys):
    """A run does not go on to a step that it has passed: nothing would be recorded but a contradiction."""
    assert 2 == main(["train", "--resume", str(trained), "--steps", "3"])
    assert "steps = 3, and 8 were made before. Give no fewer." in capsys.readouterr().err


@pytest.mark.parametrize("eos", ["a", 1.5, math.nan, -1, 99999, [1, "a"], {}, True])
def test_tokens_that_end_a_text(eos, trained, tmp_path):
    """config.json, which says them where generation_config.json does not, is checked as that is."""
    shutil.copytree(trained, tmp_path / "out")
    (tmp_path / "out" / "generation_config.json").unlink()
    path = tmp_path / "out" / "config.json"
    theirs = json.loads(path.read_text())

    path.write_text(json.dumps(theirs | {"eos_token_id": [2, 1]}))
    assert (1, 2) == run_of(str(tmp_path / "out")).inference.stop

    path.write_text(json.dumps(theirs | {"eos_token_id": eos}))
    with pytest.raises(CheckpointError, match=r"config\.json: eos_token_id"):
        run_of(str(tmp_path / "out"))

"""Golden vectors: the same bytes every time, complete, and what they allow is what rounding can do."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from math import prod

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from transformulary import oracle
from transformulary.conform import cases as making
from transformulary.conform.vectors import (
    UNIT_ROUNDOFF,
    compare_values,
    compare_vectors,
    read_vectors,
    write_vectors,
)
from transformulary.errors import DataError
from transformulary.oracle.path import parse, to_filename
from transformulary.paper import DTransformerConfig

#: sha256 of all inputs and parameters, in the order of the cases and of their names: the same on every machine.
GIVEN = "2b667408ac0a5a3a96a128a31061e7cd10793b8bb5b606f4fea47fbb0e6c79f2"


def given(vectors):
    """The inputs and parameters of every case, as bytes."""
    for case in read_vectors(vectors).values():
        for name in sorted([*case.entry["inputs"], *case.entry["parameters"]]):
            yield name.encode() + case.tensors[name].tobytes()


def test_the_same_bytes_every_time(vectors, tmp_path):
    """Another process, with another hash seed, writes the same bytes."""
    script = f"from transformulary.conform import write_vectors; write_vectors({str(tmp_path / 'again')!r})"
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)}

    subprocess.run([sys.executable, "-c", script], env=environment, check=True)

    assert {file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()} == {
        file.name: file.read_bytes() for file in vectors.iterdir()
    }


def test_inputs_and_parameters_are_the_same_on_every_machine(vectors):
    """They come from bits and exact operations alone: their bytes are known here."""
    assert hashlib.sha256(b"".join(given(vectors))).hexdigest() == GIVEN


def test_small(vectors):
    """All vectors together have less than 5 MB."""
    assert sum(file.stat().st_size for file in vectors.iterdir()) < 5_000_000


def test_the_algorithms(vectors):
    """There are several cases of Algorithms 1 to 10, 14 and 15, and of what practice adds to them."""
    numbers = [case.entry["algorithm"] for case in read_vectors(vectors).values()]

    assert {n: numbers.count(n) for n in numbers} == {
        "1": 2, "2": 2, "3": 2, "4": 6, "5": 2, "6": 2, "6r": 1, "7": 1, "8": 2, "8a": 1, "9": 2, "9c": 1,
        "10": 5, "14": 3, "15": 3
    }  # fmt: skip


def test_the_index_says_what_the_files_hold(vectors):
    """Every tensor of a file is an input, a parameter or a value of the index, in its shape; nothing else is there."""
    for name, case in read_vectors(vectors).items():
        entry, shapes = (
            case.entry,
            {key: list(a.shape) for key, a in load_file(vectors / f"{name}.safetensors").items()},
        )
        values = {path: value["shape"] for path, value in entry["values"].items()}

        assert {**entry["inputs"], **entry["parameters"], **values} == shapes
        assert len(shapes) == len(entry["inputs"]) + len(entry["parameters"]) + len(values)
        assert entry["output"] in values


def test_axes_are_sizes(vectors):
    """In one case, axes of one algorithm's name have one size, and it is the config's where it has that name."""
    for case in read_vectors(vectors).values():
        sizes = {}
        for path, value in case.entry["values"].items():
            assert len(value["axes"]) == len(value["shape"]), path
            if case.entry["algorithm"] not in ("14", "15"):  # there the sequence grows
                outer, last = parse(path).steps[0], parse(path).steps[-1]
                among = outer.number in ("8", "8a")  # whose lines attend to one sequence or the other
                number = f"{outer.number}.{outer.label}/{last.number}" if among else last.number
                for name, size in zip(value["axes"], value["shape"], strict=True):
                    sizes.setdefault((number, name), set()).add(size)
        config = case.entry["config"]

        assert {at: found for at, found in sizes.items() if len(found) > 1} == {}
        assert {at: found for at, found in sizes.items() if at[1] in config and found != {config[at[1]]}} == {}


@pytest.mark.parametrize("name", ["10-paper", "10-gpt2", "10-banded", "10-llama", "10-wide"])
def test_the_files_alone_give_the_output(name, vectors):
    """Config, inputs and parameters as they are in the files are what the output was computed from, to the bit."""
    case = read_vectors(vectors)[name]
    config = DTransformerConfig.from_dict(case.entry["config"])
    theta = oracle.theta_from(config, lambda name, _: case.tensors[name].astype(np.float64))

    P = oracle.DTransformer(case.tensors["x"].tolist(), theta, config)

    np.testing.assert_array_equal(P, case.tensors[case.entry["output"]])


def test_every_value_is_there(vectors):
    """Every path that a watched run shows is in the vectors: a port can look at any line."""
    case = read_vectors(vectors)["10-gpt2"]
    config = DTransformerConfig.from_dict(case.entry["config"])
    theta = oracle.theta_from(config, lambda name, _: case.tensors[name].astype(np.float64))

    recorded = oracle.record("DTransformer", case.tensors["x"].tolist(), theta, config)

    assert list(recorded) == list(case.paths)


@pytest.mark.parametrize(
    ("name", "drawn", "column"),
    [(f"14-{how}", "14.5", "14.4") for how in ("gpt2", "cold", "greedy")]
    + [(f"15-{how}", "15.6", "15.5") for how in ("marian", "eos-0", "greedy")],
)
def test_draws_are_clear(name, drawn, column, vectors):
    """No token hangs on rounding: single precision draws it too, and so do half precisions."""
    case = read_vectors(vectors)[name]
    for i, u in enumerate(case.tensors["u"], 1):
        q, p = case.tensors[f"{drawn}[i={i}]:proportional"], np.sort(case.tensors[f"{column}[i={i}]"])

        assert np.abs(np.cumsum(q)[:-1] - u).min() > 5e-3
        assert p[-1] - p[-2] > 5e-3 or not name.endswith("greedy")


def test_a_sequence_ends_with_eos_or_is_cut(vectors):
    """Algorithm 15 gives bos first, and eos last where it was drawn, also where its id is 0; else it is cut."""
    cases = read_vectors(vectors)
    found = {
        name: (cases[name].tensors["15.9"].tolist(), cases[name].entry["config"]) for name in cases if "15-" in name
    }

    assert {name: x_hat[0] == c["bos_token"] for name, (x_hat, c) in found.items()} == dict.fromkeys(found, True)
    assert {name: x_hat[-1] == c["eos_token"] for name, (x_hat, c) in found.items()} == {
        "15-marian": True, "15-eos-0": True, "15-greedy": False,
    }  # fmt: skip
    assert len(found["15-greedy"][0]) == 1 + found["15-greedy"][1]["ell_gen"]


# tolerances


def rounded(case, unit, seed):
    """The values of a case in a run where every number carries one rounding of the size `unit`."""
    made = next(one for one in making.CASES if one.name == case.name)
    inputs = {name: case.tensors[name] for name in case.entry["inputs"] if name != "u"}
    draw = making._Numbers(made.name)
    for given in made.inputs.values():
        making._input(draw, given)
    theta = making._theta(draw, made, making._config(made))
    rng = np.random.default_rng(seed)

    def change(value):
        if isinstance(value, list):
            return [change(member) for member in value]
        real = np.asarray(value).dtype.kind == "f"
        return value * (1 + unit * rng.uniform(-1, 1, np.shape(value))) if real else value

    return making._record(made, inputs, theta, change)


@pytest.mark.parametrize(
    "name", ["3-paper", "4-rotary", "5-grouped", "6-gpt2", "10-gpt2", "10-llama", "10-wide", "14-cold"]
)
@pytest.mark.parametrize(("precision", "unit"), [("float64", 2.0**-53), ("float32", 2.0**-24)])
def test_rounding_passes(name, precision, unit, vectors):
    """A run where every number is off by a unit roundoff agrees in every value."""
    case = read_vectors(vectors)[name]

    rows = compare_values(rounded(case, unit, seed=99), case, precision)

    assert [str(row) for row in rows if row.verdict != "pass"] == []


@pytest.mark.parametrize("name", ["3-paper", "5-grouped", "10-gpt2", "10-wide"])
def test_more_than_rounding_differs(name, vectors):
    """A thousand times as much is noticed at most values."""
    case = read_vectors(vectors)[name]

    rows = compare_values(rounded(case, 2.0**-43, seed=99), case)

    assert sum(row.verdict == "differ" for row in rows) > 0.8 * sum(row.allowed > 0 for row in rows)


def test_allowed_is_a_power_of_two(vectors):
    """What is allowed is stated coarsely: another machine's last bits do not change the index."""
    allowed = {v["roundoffs"] for case in read_vectors(vectors).values() for v in case.entry["values"].values()}

    assert [n for n in allowed if n and (n < making.LEAST or n & (n - 1))] == []


def test_infinite_values_must_be_infinite():
    """A masked score is minus infinity: a large negative number instead is another value; so is NaN."""
    ours = np.array([-np.inf, 2.0])

    found = [making.error(ours, np.array([first, 2.0])) for first in (-np.inf, -1e30, np.nan, np.inf)]

    assert found == [0.0, np.inf, np.inf, np.inf]


def test_errors_are_relative_to_the_largest_number():
    """The error of a value is its largest difference over its largest number."""
    assert making.error(np.array([4.0, -8.0, -np.inf]), np.array([5.0, -8.0, -np.inf])) == 1 / 8


# comparing


def dumped(case, folder, skip=()):
    folder.mkdir(parents=True)
    for path in case.paths:
        if path not in skip:
            np.save(folder / f"{to_filename(path)}.npy", case.tensors[path])


def test_a_folder_of_dumps(vectors, tmp_path):
    """Values in the files of a folder, named as paths, pass; what is not there is said to be missing."""
    case = read_vectors(vectors)["5-paper"]
    dumped(case, tmp_path / "5-paper", skip={"5.3"})

    rows = compare_vectors(tmp_path, vectors)

    assert [(row.path, row.verdict) for row in rows if row.verdict != "pass"] == [("5.3", "missing")]
    assert [row.path for row in rows] == list(case.paths)


def test_one_file_a_case(vectors, tmp_path):
    """A case may be one .npz or .safetensors file; cases come in the order of the vectors."""
    cases = read_vectors(vectors)
    np.savez(tmp_path / "7-paper.npz", **{path: cases["7-paper"].tensors[path] for path in cases["7-paper"].paths})
    save_file(
        {path: cases["6-paper"].tensors[path] for path in cases["6-paper"].paths}, tmp_path / "6-paper.safetensors"
    )

    rows = compare_vectors(tmp_path, vectors)

    assert {row.case: row.verdict for row in rows} == {"6-paper": "pass", "7-paper": "pass"}
    assert [row.case for row in rows] == ["6-paper"] * 4 + ["7-paper"] * 4


def test_rows_and_their_names(vectors, tmp_path):
    """PyTorch's orientation with a batch of one, and names of its own, counted from 0."""
    case = read_vectors(vectors)["10-gpt2"]
    theirs = {f"blocks.{l}.out": case.tensors[f"10.8[l={l + 1}]"].T[None] for l in range(2)}
    np.savez(tmp_path / "10-gpt2.npz", **theirs, loss=np.zeros(1))

    rows = compare_vectors(tmp_path, vectors, {"blocks.{l}.out": "10.8[l]", "loss": None}, tokens="rows")

    assert [row.path for row in rows if row.verdict == "pass"] == ["10.8[l=1]", "10.8[l=2]"]


def test_single_precision_is_judged_as_such(vectors, tmp_path):
    """What a dump allows is its own precision's, unless another is named."""
    case = read_vectors(vectors)["7-paper"]
    theirs = {"7.1": (case.tensors["7.1"] * (1 + 1e-6)).astype(np.float32)}

    verdicts = [compare_values(theirs, case, precision)[-1].verdict for precision in (None, "float32", "float64")]

    assert verdicts == ["pass", "pass", "differ"]


def test_a_mistake_is_found_at_its_line(vectors):
    """GELU in its exact form: the first value that differs is line 8 of the first layer."""
    case = read_vectors(vectors)["10-gpt2"]
    config = DTransformerConfig.from_dict(case.entry["config"] | {"activation": "gelu"})
    theta = oracle.theta_from(config, lambda name, _: case.tensors[name].astype(np.float64))
    run = oracle.record("DTransformer", case.tensors["x"].tolist(), theta, config)

    rows = compare_values({path: oracle.numbers(value) for path, value in run.items()}, case)

    assert next(row.path for row in rows if row.verdict == "differ") == "10.8[l=1]:W_mlp2"


@pytest.mark.parametrize(
    ("name", "message"),
    [("10-gpt.npz", "10-gpt.npz bears no name of a case. Nearest: 10-gpt2"), (None, "is empty. Put there what was")],
)
def test_dumps_that_are_of_no_case(name, message, vectors, tmp_path):
    """A dump that bears no case's name is refused, and so is an empty folder."""
    if name:
        np.savez(tmp_path / name, a=np.zeros(1))

    with pytest.raises(DataError, match=message):
        compare_vectors(tmp_path, vectors)


# files


def test_nothing_is_written_over(tmp_path):
    """A folder that holds something is left as it is; the message says what to do."""
    (tmp_path / "mine").write_text("x")

    with pytest.raises(
        DataError, match=r"exists and is not an empty folder: nothing is overwritten\. Name a new one, or remove it\."
    ):
        write_vectors(tmp_path)

    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_all_or_nothing(tmp_path, monkeypatch):
    """Where writing fails, nothing is left behind."""

    def fails(*_):
        raise OSError("no space left")

    monkeypatch.setattr("transformulary.conform.vectors.CASES", making.CASES[:2])
    monkeypatch.setattr("transformulary.conform.vectors._index", fails)

    with pytest.raises(OSError, match="no space left"):
        write_vectors(tmp_path / "out")

    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_taken(tmp_path, monkeypatch):
    """An empty folder, which somebody made for the vectors, becomes theirs."""
    monkeypatch.setattr("transformulary.conform.vectors.CASES", making.CASES[:2])

    write_vectors(tmp_path)

    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "1-first.safetensors",
        "1-last.safetensors",
        "index.json",
    ]


def test_a_changed_file_is_noticed(vectors, tmp_path):
    """A file whose bytes are not those that were written is refused."""
    folder = shutil.copytree(vectors, tmp_path / "copy")
    file = folder / "7-paper.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")

    with pytest.raises(DataError, match=r"7-paper\.safetensors is not what index.json says was written"):
        _ = read_vectors(folder)["7-paper"].tensors


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("[", "index.json is no index of vectors"),
        ("[]", "index.json is no index of vectors"),
        ("{}", "index.json is no index of vectors"),
        (
            json.dumps({"format": "transformulary vectors", "version": 2, "cases": []}),
            "version 2; known is .* version 1",
        ),
    ],
)
def test_an_index_that_is_none(index, message, tmp_path):
    """Another file, or a version from the future, is said in one line."""
    (tmp_path / "index.json").write_text(index)

    with pytest.raises(DataError, match=message):
        read_vectors(tmp_path)


def test_unit_roundoffs():
    """Half the distance from 1 to the next number, in every precision that NumPy knows."""
    for precision in ("float64", "float32", "float16"):
        assert UNIT_ROUNDOFF[precision] == np.finfo(precision).eps / 2


def test_parameters_are_exact_in_single_precision(vectors):
    """A program in single precision starts from the very same parameters and inputs."""
    for case in read_vectors(vectors).values():
        for name in case.entry["parameters"]:
            assert case.tensors[name].dtype == np.float32
        for name, shape in case.entry["inputs"].items():
            array = case.tensors[name]
            assert prod(shape) == array.size
            assert (array == array.astype(np.float32)).all()

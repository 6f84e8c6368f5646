"""Values of a run, written with an index that says what they are and what others call them."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings

from strategies import d_configs, seeds
from transformulary import oracle
from transformulary.errors import AlgorithmError, ConfigError, DataError
from transformulary.oracle.path import from_filename
from transformulary.oracle.values import numbers
from transformulary.paper import DTransformerConfig
from transformulary.trace import FORMATS, Selection, axes, default, trace
from transformulary.trace.select import kinds
from transformulary.trace.values import token_axis

x = [5, 3, 36, 0, 11]
c = DTransformerConfig(N_V=37, ell_max=8, L=2, H=2, d_e=8, d_mlp=12, eps=1e-5)


def theta(config=c):
    return oracle.random_theta(config, np.random.default_rng(0))


def read(folder):
    """{path: array} of a trace, by its index."""
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    kind, files = index["format"], {value["file"] for value in index["values"]}
    assert {path.name for path in folder.iterdir()} == files | {"index.json"}
    if kind == "f32":
        return {
            value["path"]: np.fromfile(folder / value["file"], "<f4").reshape(value["shape"])
            for value in index["values"]
        }
    load = {"npz": np.load, "safetensors": safetensors.numpy.load_file}[kind]
    (file,) = files
    stored = load(folder / file)
    return {value["path"]: stored[value["key"]] for value in index["values"]}


@pytest.mark.parametrize("kind", FORMATS)
def test_what_is_written_is_what_the_oracle_computes(tmp_path, kind):
    """Every format holds the values of a recorded run, bitwise (f32: as float32), where and as the index says."""
    index = trace(theta(), c, x, tmp_path / "out", format=kind)

    values, expected = read(tmp_path / "out"), oracle.record("DTransformer", x, theta(), c)
    assert list(values) == [value["path"] for value in index["values"]]
    for value in index["values"]:
        array, want = values[value["path"]], numbers(expected[value["path"]])
        np.testing.assert_array_equal(array, want.astype(array.dtype), err_msg=value["path"])
        assert (list(array.shape), str(array.dtype)) == (value["shape"], value["dtype"])
        assert kind != "f32" or from_filename(value["file"].removesuffix(".f32")) == value["path"]


def test_the_index_is_what_is_returned(tmp_path):
    """index.json is the returned index; it has what identifies the run."""
    index = trace(theta(), c, x, tmp_path / "out", about={"model": "m", "model_type": "gpt2"})

    assert json.loads((tmp_path / "out" / "index.json").read_text(encoding="utf-8")) == index
    assert (index["tokens"], index["precision"], index["model"]) == (x, "float64", "m")
    assert DTransformerConfig.from_dict(index["config"]) == c


def test_a_trace_can_be_repeated_bit_by_bit(tmp_path):
    """Two traces of the same are the same bytes."""
    for name in ("a", "b"):
        trace(theta(), c, x, tmp_path / name)

    for name in ("values.npz", "index.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_low_precision(tmp_path, precision):
    """A trace in low precision holds the values of the rounded oracle, exactly, in float32."""
    trace(theta(), c, x, tmp_path / "out", precision=precision)

    values = read(tmp_path / "out")
    expected = oracle.record("DTransformer", x, oracle.in_precision(theta(), precision), c)
    assert {value.dtype.name for path, value in values.items() if path != "10.1"} == {"float32"}
    for path, value in values.items():
        np.testing.assert_array_equal(value.astype(np.float64), numbers(expected[path]), err_msg=path)


def test_the_default(tmp_path):
    """Without --at there is every line for all tokens at once, and the weights, the MLP and the logits inside lines."""
    sizes = {"N_V": 37, "ell_max": 8, "L": 1, "H": 1, "d_e": 8, "d_mlp": 12}
    config = DTransformerConfig(**sizes, eps=1e-5, mlp="gated", positions="rotary")

    trace(theta(config), config, x, tmp_path / "out")

    head = "10.6[l=1]/5.2[h=1]"
    assert list(read(tmp_path / "out")) == [
        "10.1", "10.2", "10.3", "10.5[l=1]",
        f"{head}/4.1", f"{head}/4.2", f"{head}/4.3", f"{head}/4.3a", f"{head}/4.3b", f"{head}/4.4", f"{head}/4.5",
        f"{head}/4.6:softmax", f"{head}/4.6", head, "10.6[l=1]/5.3", "10.6[l=1]/5.4", "10.6[l=1]", "10.7[l=1]",
        "10.8[l=1]:W_mlp1", "10.8[l=1]:GELU", "10.8[l=1]:W_mlp3", "10.8[l=1]:W_mlp2", "10.8[l=1]",
        "10.10", "10.11:logits", "10.11",
    ]  # fmt: skip


@settings(max_examples=60)
@given(d_configs(), seeds)
def test_axes_have_the_sizes_that_they_name(config, rng):
    """For every value of every choice of slots, the axes named are the axes there, of the sizes of the model."""
    ell = 4
    values = oracle.record("DTransformer", [0, 1, 1, 0], oracle.random_theta(config, rng), config)

    def size(axis):
        if axis.startswith("ell"):
            return ell
        return config.H * config.d_mid if axis == "H*d_mid" else getattr(config, axis)

    for path, value in values.items():
        array = numbers(value)
        named, shape = axes(path, array), array.shape
        assert len(named) == len(shape), path
        halves = [axis for axis in named if axis.endswith("/2")]
        assert halves or tuple(map(size, named)) == shape, path
        assert (token_axis(named) is None) == (not {"ell", "ell_x", "ell_z"} & set(named))


@settings(max_examples=40)
@given(d_configs(), seeds)
def test_the_paths_of_a_small_model_are_those_of_a_large_one(config, rng):
    """The kinds of paths, against which patterns are checked, are those of a run, for every choice of slots."""
    values = oracle.record("DTransformer", [0, 1, 1, 0], oracle.random_theta(config, rng), config)

    assert list(kinds(config)) == list(dict.fromkeys(re.sub(r"=\d+", "=1", path) for path in values))


def test_axes_of_known_values():
    """The scores have the asked tokens along the first axis and the asking ones along the second."""
    A = np.zeros((2, 2))

    assert axes("10.6[l=1]/5.2[h=1]/4.6:softmax", A) == ["ell_z", "ell_x"]
    assert axes("10.8[l=2]:GELU_tanh", A) == ["d_mlp", "ell"]
    assert axes("10.5[l=1,t=2]", A[0]) == ["d_e"]
    assert axes("10.5[l=1,t=2]/6.1", A[0, 0]) == []
    assert token_axis(["ell_z", "ell_x"]) == 1


def test_every_line_has_its_text(tmp_path):
    """Each value names its line as `show` prints it."""
    index = trace(theta(), c, x, tmp_path / "out")

    texts = {value["path"]: value["text"] for value in index["values"]}
    assert all(texts.values())
    assert texts["10.6[l=1]/5.2[h=1]/4.4"] == "S ← Kᵀ Q"
    assert texts["10.6[l=2]"] == "X ← X + MHAttention(X̃ | 𝓦_l, Mask[t,t′] = [[t ≤ t′]])"


# patterns


def chosen(*patterns, config=c, ell=3):
    """The paths of a full run that the patterns ask for."""
    selection = Selection(patterns, config, ell)
    return [path for path in oracle.record("DTransformer", list(range(ell)), theta(), config) if selection.wants(path)]


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("10.8[l=*]:GELU", ["10.8[l=1]:GELU", "10.8[l=2]:GELU"]),
        ("10.8[l=2]:*", ["10.8[l=2]:W_mlp1", "10.8[l=2]:GELU", "10.8[l=2]:W_mlp2"]),
        ("10.5[l=1,t=*]", ["10.5[l=1,t=1]", "10.5[l=1,t=2]", "10.5[l=1,t=3]"]),
        ("10.6[l=2]/5.2[h=*]/4.6:softmax", [f"10.6[l=2]/5.2[h={h}]/4.6:softmax" for h in (1, 2)]),
        ("10.*", ["10.1", "10.2", "10.3", "10.10", "10.11"]),
        ("10.2[t=3]/**", []),
        ("10.10[t=3]/**", [f"10.10[t=3]/6.{n}" for n in ("1", "2", "3:sqrt", "3")]),
    ],
)
def test_patterns(pattern, paths):
    """`*` stands for an index, a line or a name, and never for more than one step; `**` for everything below."""
    if not paths:
        with pytest.raises(AlgorithmError, match="no value of this model is at"):
            chosen(pattern)
    else:
        assert chosen(pattern) == paths


@pytest.mark.parametrize("stars", ["*" * 99, "*1" * 40, "**1" * 40, "*1**0" * 40])
def test_many_stars(stars):
    """However many stars a pattern has, it is answered at once."""
    with pytest.raises(AlgorithmError, match="no value of this model is at"):
        chosen(stars + "z")


def test_a_star_takes_as_little_as_it_can():
    """Where what follows a star comes twice, either is found."""
    assert chosen("**1*]:GE**U") == ["10.8[l=1]:GELU"]


def test_everything():
    """`**` is every value."""
    assert chosen("**") == list(oracle.record("DTransformer", [0, 1, 2], theta(), c))


@pytest.mark.parametrize(
    "patterns",
    [("**",), ("10.6[l=2]/**",), ("10.10[t=2]/**", "10.1"), ("10.5[l=*,t=2]/6.1", "10.5[l=2,t=*]/6.2"), default(c)],
)
def test_nothing_asked_for_is_passed_over(tmp_path, patterns):
    """What a run does not look into holds nothing that was asked for."""
    trace(theta(), c, x, tmp_path / "out", at=patterns)

    selection = Selection(patterns, c, len(x))
    expected = [path for path in oracle.record("DTransformer", x, theta(), c) if selection.wants(path)]
    assert list(read(tmp_path / "out")) == expected


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("10.8:GELU", r"at 10\.8:GELU\. The nearest path is 10\.8\[l=\*\]:GELU;"),
        ("10.8[l=1]:GELU_tanh", r"The nearest path is 10\.8\[l=\*\]:GELU;"),
        ("10.9", r"The nearest path is 10\.\d+;"),
        ("10.5[l=3]", r"no value is at 10\.5\[l=3\]: l = 3 is outside 1 to 2\."),
        ("10.5[l=1,t=0]", r"t = 0 is outside 1 to 5\."),
        ("", "no value of this model is at"),
    ],
)
def test_paths_that_are_not_there(tmp_path, pattern, says):
    """A path that the model does not have is told before anything runs, with the nearest; nothing is written."""
    with pytest.raises(AlgorithmError, match=says):
        trace(theta(), c, x, tmp_path / "out", at=[pattern])

    assert list(tmp_path.iterdir()) == []


# the folder


def test_other_content_is_never_overwritten(tmp_path):
    """A folder that holds something, or a file, is an error; an empty folder is filled."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    (tmp_path / "empty").mkdir()

    for name in ("full", "full/mine.txt"):
        with pytest.raises(DataError, match="exists and is not an empty folder"):
            trace(theta(), c, x, tmp_path / name)
    trace(theta(), c, x, tmp_path / "empty")

    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]
    assert (tmp_path / "empty" / "index.json").is_file()


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_that_fails_leaves_nothing(tmp_path, kind):
    """A token outside the vocabulary, or a failure in the middle of the run, leaves no file."""

    class Gone:
        """A matrix that cannot be had when line 8 of layer 2 asks for it."""

        shape = theta().W_mlp2[1].shape

        def __matmul__(self, _):
            raise IndexError("gone")

    broken = theta()
    broken.W_mlp2[1] = Gone()

    with pytest.raises(AlgorithmError, match="outside the vocabulary"):
        trace(theta(), c, [1, 37], tmp_path / "out", format=kind)
    with pytest.raises(IndexError, match="gone"):
        trace(broken, c, x, tmp_path / "out", format=kind)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX's")
@pytest.mark.parametrize("kind", FORMATS)
def test_a_full_disk(tmp_path, kind):
    """When a file cannot grow, the error names the folder, and nothing is left."""
    program = f"""
import resource, numpy as np
from transformulary import oracle
from transformulary.paper import DTransformerConfig
from transformulary.trace import trace
c = DTransformerConfig(N_V=3000, ell_max=8, L=1, H=1, d_e=4, d_mlp=4)
theta = oracle.random_theta(c, np.random.default_rng(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    trace(theta, c, [1, 2, 3], {str(tmp_path / "out")!r}, format={kind!r})
except OSError as error:
    print(error.filename)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

    assert (done.stdout.strip(), done.stderr) == (str(tmp_path / "out"), "")
    assert list(tmp_path.iterdir()) == []


def test_unknown_choices(tmp_path):
    """An unknown format or precision is named, before anything runs."""
    with pytest.raises(ConfigError, match="'hdf5' is none of npz, safetensors, f32"):
        trace(theta(), c, x, tmp_path / "out", format="hdf5")
    with pytest.raises(ConfigError, match="'fp8' is none of"):
        trace(theta(), c, x, tmp_path / "out", precision="fp8")

    assert list(tmp_path.iterdir()) == []

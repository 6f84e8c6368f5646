"""Values that somebody gives by path: whichever way round, of however many tokens, under whatever names."""

import json
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from conform.test_candidates import layer_norm, mlp
from transformulary.cli import main
from transformulary.conform import conform
from transformulary.conform.candidates.given import shape
from transformulary.conform.dumps import read_dumps
from transformulary.conform.reference import PRESETS, reference
from transformulary.conform.tokens import what_is_read
from transformulary.errors import CandidateError, DataError, UserError
from transformulary.oracle import record, watched
from transformulary.oracle.path import to_filename
from transformulary.oracle.values import numbers
from transformulary.tokens import Given
from transformulary.trace import FORMATS, trace

X = [3, 1, 4, 1, 5]


def values_of(name, *paths):
    ref = reference(name)
    every = {path: numbers(value) for path, value in record("DTransformer", X, ref.theta, ref.config).items()}
    return {path: every[path] for path in paths or every}


@pytest.mark.parametrize("name", PRESETS)
def test_shapes_of_values(name):
    """What a value's axes count gives its shape."""
    ref, every = reference(name), {}
    given = what_is_read(ref, Given())

    ref.whole.run(watched(lambda path, value: every.setdefault(path, value)), given)

    assert {path: shape(path, ref.whole, given) for path in every} == {p: numbers(v).shape for p, v in every.items()}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_trace_conforms(name, precision, format, tmp_path):
    """What `trace` writes agrees with the model it came from, in the precision that its index says."""
    ref = reference(name)
    trace(ref.theta, ref.config, X, tmp_path / "t", precision=precision, format=format)

    report = conform(tmp_path / "t", ref, tokens=X)

    stored = "float32" if (precision, format) == ("float64", "f32") else precision
    assert report.status == 0, report
    assert (report.precision, report.unseen) == (stored, ())
    assert [(note.kind, note.status) for note in report.notes] == [("tokens", "agrees")]


@pytest.mark.parametrize(("name", "format"), [("gpt2", "f32"), ("llama", "npz")])
def test_a_trace_of_everything_conforms(name, format, tmp_path):
    """Every value within every line may be given."""
    ref = reference(name)
    trace(ref.theta, ref.config, X[:3], tmp_path / "t", at=["**"], format=format)

    assert conform(tmp_path / "t", ref, tokens=X[:3]).status == 0


def whole_lines(name="gpt2"):
    return values_of(name, "10.3", "10.5[l=1]", "10.6[l=1]", "10.10", "10.11")


@pytest.mark.parametrize("tokens", [None, "rows"])
@pytest.mark.parametrize("turn", [lambda a: a.T, lambda a: a.T[None]])
def test_tokens_as_rows(turn, tokens):
    """Tokens may be rows, with a batch of one before them; unless it was said that they are, the report says so."""
    values = {path: turn(value) for path, value in whole_lines().items()}

    report = conform(values, "gpt2", tokens=X, orientation=tokens)

    assert report.status == 0, report
    assert [n.says for n in report.notes] == ["they have tokens as rows, and were transposed"] * (tokens is None)


def test_square_values_as_the_others():
    """What is square, like the weights of attention, is turned as the others are."""
    weights = "10.6[l=1]/5.2[h=1]/4.6:softmax"
    values = {path: value.T for path, value in values_of("gpt2", "10.3", weights).items()}

    assert conform(values, "gpt2", tokens=X).status == 0


def test_a_batch_of_one():
    """A batch of one is left out."""
    assert conform({path: a[None] for path, a in whole_lines().items()}, "gpt2", tokens=X).status == 0


A, P = np.zeros((12, 5)), np.full((37, 5), 1 / 37)


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        ({"10.3": A, "10.5[l=1]": A.T}, {}, "10.5.l=1. has tokens as rows, and 10.3 has them as columns"),
        ({"10.3": A.T}, {"orientation": "columns"}, r"10.3 has the shape \(5, 12\), .* \(tokens are columns, it"),
        ({"10.3": A[:8], "10.11": P}, {}, r"10.3 has the shape \(8, 5\), and \(12, 5\) is right"),
        ({"10.3": A[:, :4], "10.11": P[:, :4]}, {}, "of 4 tokens, and the run has 5: give their ids with --tokens"),
        ({"10.3": A[:, :4].T}, {}, "of 4 tokens, and the run has 5: give their ids with --tokens"),
        ({"10.1": np.array(4)}, {}, "of 4 tokens, and the run has 5: give their ids with --tokens"),
        ({"10.1": np.array(1e11)}, {}, "of 100000000000 tokens, and the run has 5: give their ids with --tokens"),
        ({"10.3": A}, {"orientation": "row"}, "'row' must be 'columns' or 'rows'"),
        ({"10.33": A}, {}, "10.33 is no value of this run. Nearest: 10.3"),
        ({"10.5[l=3]": A}, {}, r"10.5\[l=3\] is no value of this run. Nearest: 10.5\[l=2\]"),
        ({"hidden": A}, {}, "hidden is no value of this run."),
    ],
)  # fmt: skip
def test_values_that_cannot_be_compared(values, options, says):
    """One line says what is wrong with the values, and what to do."""
    with pytest.raises(UserError, match=says) as raised:
        conform(values, "gpt2", tokens=X, **options)

    assert "\n" not in str(raised.value)


def test_probabilities_of_another_size():
    """Nothing follows the last value, so that it may have any shape: it differs."""
    report = conform({"10.11": P[:30]}, "gpt2", tokens=X)

    assert report.status == 1
    assert "it has 30 numbers for each of 5 tokens, and should have 37 for each of 5" in report.answer[0]


def test_logits_in_place_of_probabilities():
    """Line 11 is the probabilities: logits under its path are a fault, which says what their path is."""
    logits = values_of("gpt2", "10.11:logits")["10.11:logits"]

    wrong, right = (conform({path: logits}, "gpt2", tokens=X) for path in ("10.11", "10.11:logits"))

    assert [fault.key for fault in wrong.faults] == ["logits-for-P"]
    assert "10.11:logits is the path of logits" in wrong.answer[0]
    assert "11" not in right.unseen
    assert right.status == 0


def test_a_value_inside_a_line_differs():
    """What a line computes inside is described by itself, not beside X."""
    values = values_of("gpt2", "10.3", "10.6[l=1]", "10.7[l=1]", "10.8[l=1]:GELU_tanh")
    values["10.8[l=1]:GELU_tanh"] = values["10.8[l=1]:GELU_tanh"] + 0.5

    report = conform(values, "gpt2", tokens=X)

    assert report.status == 1
    assert "0.5 is added to every number" in report.answer[0]


@pytest.mark.parametrize(
    ("table", "options", "status", "says"),
    [
        ({"x.{l}": "10.5[l]"}, ["--tokens-as", "rows"], 0, '"tokens": ['),
        ({"x.{l}": "10.55[l]"}, [], 2, "10.55[l=1] is no value of this run. Nearest: 10.5[l=1]"),
    ],
)
def test_on_the_command_line(table, options, status, says, tmp_path, capsys):
    """Renamed dumps with tokens as rows; a renaming table that names no value ends with status 2."""
    np.savez(tmp_path / "theirs.npz", **{"x.0": values_of("gpt2", "10.5[l=1]")["10.5[l=1]"].T})
    (tmp_path / "rename.json").write_text(json.dumps(table))
    dumps, rename, ids = str(tmp_path / "theirs.npz"), str(tmp_path / "rename.json"), ",".join(map(str, X))

    found = main(["conform", dumps, "--against", "gpt2", "--tokens", ids, "--rename", rename, "--json", *options])

    assert found == status
    assert says in "".join(capsys.readouterr())


@pytest.mark.parametrize(("text", "says"), [
    ('{"x": 3}', "the renaming table has 'x': 3; it is their name -> a path or None"),
    ('{"x": "10.5[l=1]", "x": null}', "x occurs twice"),
    ('\ufeff{"x": "10.5[l=1]", "y": ["10.3"]}', "the renaming table has 'y': ['10.3']"),
])  # fmt: skip
def test_a_renaming_table_that_is_none(text, says, tmp_path, capsys):
    """A value that is no path and a name that occurs twice are one line; a byte-order mark is read over."""
    np.savez(tmp_path / "theirs.npz", x=np.zeros(3))
    (tmp_path / "rename.json").write_text(text, encoding="utf-8")

    status = main(["conform", str(tmp_path / "theirs.npz"), "--against", "gpt2", "--rename", f"{tmp_path}/rename.json"])

    said = capsys.readouterr().err
    assert (status, said.count("\n")) == (2, 1)
    assert says in said


@pytest.mark.parametrize("tokens", ["rows", "columns"])
def test_plain_numbers_have_the_shape_of_their_line(tokens, tmp_path):
    """Raw files need no shapes, if it is said how tokens lie; a name of null needs none at all; else the error says."""
    for path, value in values_of("gpt2", "10.3", "10.8[l=2]", "10.11:logits").items():
        np.ascontiguousarray(value.T if tokens == "rows" else value).astype("<f8").tofile(
            tmp_path / f"{to_filename(path)}.f64"
        )
    np.ones(1).tofile(tmp_path / "loss.f64")
    rename = {"loss": None}

    report = conform(tmp_path, "gpt2", tokens=X, rename=rename, orientation=tokens)

    assert report.status == 0, report
    with pytest.raises(
        CandidateError, match=rf"say with --tokens-as .*, such as \{{\"10\.\S+\": \[\d+, {len(X)}\]\}}\."
    ):
        conform(tmp_path, "gpt2", tokens=X, rename=rename)


def test_a_trace_knows_its_tokens(tmp_path):
    """A folder that `trace` wrote is compared on its own ids, unless others are given."""
    ref = reference("gpt2")
    trace(ref.theta, ref.config, [3, 1, 4], tmp_path / "t")

    report = conform(tmp_path / "t", ref)

    assert (report.status, report.tokens) == (0, (3, 1, 4))
    with pytest.raises(CandidateError, match="the values are of 3 tokens, and the run has 5"):
        conform(tmp_path / "t", ref, tokens=X)


@pytest.mark.parametrize("length", [np.nan, np.inf, 4.5, -3, 1e300, [5, 5], []])
def test_a_length_that_is_no_number_of_tokens(length):
    """Line 1 is one whole number."""
    values = whole_lines() | {"10.1": np.array(length)}

    with pytest.raises(CandidateError, match=r"values: 10\.1 is .*, and must be one whole number: of the tokens"):
        conform(values, "gpt2", tokens=X)


def test_a_number_that_is_none():
    """Where one number of one line is none, and the logits are right, that is said, with its token, and no more."""
    values = values_of("gpt2", "10.8[l=1]", "10.10", "10.11")
    values["10.8[l=1]"] = np.where(np.indices((12, 5)).sum(0) == 0, np.nan, values["10.8[l=1]"])

    report = conform(values, "gpt2", tokens=X)

    assert re.fullmatch(
        r"Places: the logits of the whole run agree \(to .*\), so what is shown at 10\.8\[l=1\] is damaged: "
        r"1 of 60 numbers are not finite, in tokens 1 of 5\.",
        report.answer[0],
    )
    assert (report.status, report.faults) == (1, ())


def as_file(values, folder):
    """The values as a safetensors file."""
    save_file({path: torch.as_tensor(value).contiguous() for path, value in values.items()}, folder / "v.safetensors")
    return folder / "v.safetensors"


@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16", "float16"])
def test_an_array_is_judged_as_its_file(kind, tmp_path):
    """The type of numbers says what is allowed, of arrays as of files."""
    values = {path: torch.tensor(value).to(getattr(torch, kind)) for path, value in whole_lines().items()}

    reports = [conform(given, "gpt2", tokens=X) for given in (values, as_file(values, tmp_path))]

    assert [(report.status, report.precision) for report in reports] == [(0, kind)] * 2
    assert reports[0].rows == reports[1].rows


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_values_that_are_stored_in_more_than_they_were_computed_in(kind, tmp_path):
    """What a bfloat16 model computed, dumped as float32, agrees if that is said; else rounding is a difference."""
    ref = reference("gpt2")
    trace(ref.theta, ref.config, X, tmp_path / "t", precision=kind, format="npz")
    (tmp_path / "t" / "index.json").unlink()
    with np.load(tmp_path / "t" / "values.npz") as values:
        np.savez(tmp_path / "wide.npz", **{name: value.astype("<f4") for name, value in values.items()})
    call = ["conform", str(tmp_path / "wide.npz"), "--against", "gpt2", "--tokens", "3,1,4,1,5"]

    assert main([*call, "--precision", kind]) == 0
    assert main(call) == 1


def test_a_precision_is_said_of_values(tmp_path):
    """What code computes in is seen; and there are four precisions."""
    with pytest.raises(CandidateError, match="precision = 'float32' is said of values"):
        conform({"mlp": mlp}, "gpt2", precision="float32")
    with pytest.raises(CandidateError, match="precision = 'float8' is none of float64, float32, bfloat16, float16"):
        conform(whole_lines(), "gpt2", tokens=X, precision="float8")


def test_a_dump_of_much_more_than_a_run_is_not_read(tmp_path):
    """A file that would take more memory than any value of the run is refused by its size."""
    np.savez_compressed(tmp_path / "v.npz", **whole_lines() | {"10.8[l=1]": np.zeros(2**21)})

    with pytest.raises(UserError, match=r"10.8\[l=1\] has 2097152 numbers, and no value of this run has more than"):
        conform(tmp_path / "v.npz", "gpt2", tokens=X)


def test_a_low_precision_is_allowed_where_it_counts():
    """What is stored in float16 allows for it at its own line, and at those that read it: not elsewhere."""
    values = values_of("gpt2", "10.3", "10.8[l=1]", "10.8[l=2]")
    values["10.3"] = values["10.3"].astype(np.float16)

    right = conform(values, "gpt2", tokens=X)
    wrong = conform(values | {"10.8[l=2]": values["10.8[l=2]"] * 1.002}, "gpt2", tokens=X)

    assert right.status == 0, right
    assert [path for fault in wrong.faults for path in fault.paths] == ["10.8[l=2]"]


@pytest.mark.parametrize("kind", [np.float64, np.float16])
def test_a_function_is_judged_in_its_own_precision(kind):
    """Beside a norm in float16 a wrong function in float64 is found as it is without one."""
    functions = {
        "layer_norm": lambda *given: layer_norm(*given).astype(kind),
        "mlp": lambda X, weights: mlp(X, weights) * (1 + 1e-6),
    }

    report = conform(functions, "gpt2", tokens=X)

    assert {row.line for row in report.rows if row.status == "differs"} == {"10.8"}


@pytest.mark.parametrize("of", ["dumps", "vectors"])
def test_names_that_count_layers_from_1(of, tmp_path):
    """A name whose {l} leads beyond the last layer is named, with what to write where names count from 1."""
    np.savez(tmp_path / "d.npz", **{f"blk_{l}": A for l in (1, 2)})
    known = {f"10.8[l={l}]": (12, 5) for l in (1, 2)}

    def compared(name):
        if of == "vectors":
            return [*read_dumps(tmp_path / "d.npz", {name: "10.8[l]"}, known)]
        return [
            row.at for row in conform(tmp_path / "d.npz", "gpt2", tokens=X, rename={name: "10.8[l]"}).rows if row.at
        ]

    with pytest.raises(DataError, match=r"d.npz: blk_2, by the table's blk_\{l\}: 10.8\[l=3\] is no value") as error:
        compared("blk_{l}")
    found = compared("blk_{l+1}")

    assert str(error.value).endswith("{l} counts from 0; where names count from 1, write {l+1}.")
    assert found

"""One report: text, Markdown, JSON, JUnit; the command's exit status; the pytest plugin; the page's example."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from transformulary import assert_conforms
from transformulary.cli import main
from transformulary.conform import conform
from transformulary.conform.diagnosis import Finding
from transformulary.conform.faults import faults_of
from transformulary.conform.mistakes import BY_KEY
from transformulary.conform.reference import PRESETS, reference
from transformulary.conform.report import Report, Row, rows_of
from transformulary.errors import CandidateError
from transformulary.oracle import record

ROOT = Path(__file__).parents[2]
GELU = [
    "Algorithm 10, line 8, every layer: the activation is the exact form of GELU.",
    "With this one change everything agrees to ",
]


def run(capsys, *args):
    status = main(["conform", *map(str, args)])
    return status, capsys.readouterr()


def test_the_answer_stands_last(capsys):
    """An ordinary GPT with one honest mistake: status 1, and the last two lines say it."""
    status, said = run(capsys, ROOT / "examples" / "ordinary_gpt.py", "--against", "gpt2")

    assert status == 1
    last = said.out.splitlines()[-2:]
    assert last[0] == GELU[0]
    assert last[1].startswith(GELU[1])


@pytest.fixture
def mine(tmp_path):
    """The attention of docs/conform.md in a file; that its diagnosis is the page's is tested with the documents."""
    page = (ROOT / "docs" / "conform.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(# my_attention.py\n.*?)```", page, re.DOTALL)[1]
    file = tmp_path / "my_attention.py"
    file.write_text(code, encoding="utf-8")
    return file


def test_from_the_page_alone(mine):
    """What a newcomer writes to have an attention diagnosed takes 20 lines at most, the attention included."""
    assert len(mine.read_text(encoding="utf-8").splitlines()) <= 20


@pytest.mark.parametrize("option", ["--markdown", "--junit"])
@pytest.mark.parametrize(("name", "says"), [
    ("/", "/ is a folder. Name a file in it."),
    (".", ". is a folder. Name a file in it."),
    (__file__ + "/x", f"{__file__}/x cannot be written: {__file__} is no folder."),
])  # fmt: skip
def test_where_no_file_can_be(capsys, option, name, says):
    """It is said before the candidate is looked at, which is not there."""
    status, said = run(capsys, "missing.py", option, name)

    assert (status, said.out, said.err) == (2, "", f"transformulary conform: {says}\n")


def test_all_forms_say_the_same(capsys, tmp_path, mine):
    """JSON, Markdown and JUnit hold the answer; what was not seen is skipped, not passed."""
    files = tmp_path / "report.md", tmp_path / "report.xml"

    status, said = run(capsys, mine, "--json", "--markdown", files[0], "--junit", files[1])

    report = json.loads(said.out)
    suite = ElementTree.parse(files[1]).getroot()
    assert (status, report["status"]) == (1, 1)
    assert [fault["key"] for fault in report["faults"]] == ["scale-no-root"]
    assert all(sentence in files[0].read_text() for sentence in report["answer"])
    assert [case.get("name") for case in suite if case.find("failure") is not None] == [
        "line 6/5.2 (attention, one head)"
    ]
    assert int(suite.get("skipped")) == sum(row["status"] == "not seen" for row in report["rows"]) > 0
    assert all(case.find("skipped").get("message") == "no value of it was seen" for case in suite.iter("testcase")
               if case.find("skipped") is not None)  # fmt: skip
    assert suite.find("system-out").text.splitlines()[-1] == report["answer"][-1]


def test_every_way_of_decoding_is_a_test_of_its_own():
    """The names of JUnit's tests are all different, and a skipped one says why."""
    file = ROOT / "examples" / "ordinary_gpt.py"

    suite = ElementTree.fromstring(conform(file, "gpt2").junit())

    names = [case.get("name") for case in suite.iter("testcase")]
    assert len(set(names)) == len(names)
    assert {"decoding, with a cache", "decoding, in a batch"} <= set(names)
    assert "a function decode(model, pieces) says how" in suite.find(".//skipped").get("message")


def test_lines_that_nothing_was_seen_of(mine):
    """They are a sentence of the answer, not rows of the table."""
    report = conform(mine, "gpt2")

    assert report.answer[-1] == "Not seen by themselves: lines 2, 3, 5, 6, 7, 8, 10, 11 of Algorithm 10."
    assert [line.split("  ")[1] for line in str(report).splitlines() if line.startswith("  ")] == [
        "masks", "line 6/5.2 (attention, one head)"
    ]  # fmt: skip


def test_what_hides_in_rounding_stands_above_the_answer():
    """A list, one mistake a line, of which the answer is the number."""
    invisible = ("eps is missing", "eps is 1e-06 (layers 2, 3)")
    report = Report("mine", "gpt2", "bfloat16", 4, (Row("10.5", "agrees", 1, 0.01, 0.1),), invisible=invisible)

    lines = str(report).splitlines()

    assert lines[-6:-3] == ["What cannot be told from rounding in bfloat16:", *(f"  {says}" for says in invisible)]
    assert lines[-1] == (
        "Not seen: 2 known mistakes, which in bfloat16 cannot be told from rounding. "
        "Compute in float64 to see them (a PyTorch model: model.double())."
    )
    assert all(f"- {says}" in report.markdown() for says in invisible)


def test_agreement_is_status_0(capsys):
    """Our own model agrees with its reference."""
    assert run(capsys, "ours", "--against", "gpt2")[0] == 0


@pytest.mark.parametrize(("args", "says"), [
    (["nowhere.py"], "there is no nowhere.py"),
    (["ours", "--against", "nowhere"], "nowhere"),
    (["ours", "--against", "gtp2"], ". Without a checkpoint, take one of paper, gpt2, llama, transformer,"),
    (["ours", "--tokens", "a"], "'a' is no list of token ids; write them like 15496,11,995"),
    (["ours", "--tokens", "1,,2"], "'1,,2' is no list of token ids"),
    (["ours", "--tokens", "1_0"], "'1_0' is no list of token ids"),
    (["ours", "--tokens", "+1"], "'+1' is no list of token ids"),
    (["ours", "--tokens", "\u0663"], "'\u0663' is no list of token ids"),
    (["ours", "--tokens", "1 2"], "'1 2' is no list of token ids"),
    (["ours", "--text", "hi"], "has no tokenizer"),
    (["ours", "--tokens", "99"], "99"),
])  # fmt: skip
def test_no_comparison_is_status_2(capsys, args, says):
    """What cannot be compared is one sentence."""
    status, said = run(capsys, *args)

    assert status == 2
    assert says in said.err
    assert len(said.err.splitlines()) == 1


def test_a_model_that_fails_says_where(capsys, tmp_path):
    """An exception of the candidate's own code names its file and line."""
    (tmp_path / "mine.py").write_text("def load(folder):\n    return 1 / 0\n")

    status, said = run(capsys, tmp_path / "mine.py")

    assert status == 2
    assert "load(folder) failed: ZeroDivisionError: division by zero" in said.err
    assert "mine.py, line 2" in said.err
    assert "the folder holds the checkpoint of gpt2: --against says which" in said.err


def test_a_draft_of_no_file(capsys, tmp_path):
    """A file that is not there is one sentence for --propose too."""
    status, said = run(capsys, tmp_path / "mine.py", "--propose")

    assert status == 2
    assert said.err.startswith("transformulary conform: there is no Python file ")


def test_a_draft_is_what_places_takes(capsys, tmp_path):
    """What --propose prints, saved as it is, is a table for --places."""
    model, places = ROOT / "examples" / "ordinary_gpt.py", tmp_path / "places.toml"

    status, said = run(capsys, model, "--against", "gpt2", "--propose")
    places.write_text(said.out, encoding="utf-8")
    assert status == 0
    assert "--places places.toml" in said.err

    status, said = run(capsys, model, "--against", "gpt2", "--places", places)

    assert status == 1
    assert GELU[0] in said.out


def test_dumps(capsys, tmp_path):
    """Values written by any program, under its own names."""
    import numpy as np

    ref = reference("gpt2")
    values = record("DTransformer", [1, 2, 3], ref.theta, ref.config)
    np.savez(tmp_path / "mine.npz", out=values["10.11"], block=values["10.8[l=1]"])
    (tmp_path / "names.json").write_text(json.dumps({"out": "10.11", "block": "10.8[l=1]"}))

    status, said = run(capsys, tmp_path / "mine.npz", "--tokens", "1,2,3", "--rename", tmp_path / "names.json")

    assert status == 0, said
    assert "Not seen by themselves: lines 2, 3, 5, 6, 7, 10 of Algorithm 10." in said.out


def test_what_a_library_says_while_it_loads(capsys):
    """Loading a model of `transformers` writes nothing."""
    status, said = run(capsys, "transformers", "--against", "gpt2", "--no-decoding")

    assert (status, said.err) == (0, "")


def test_the_plugin():
    """`assert_conforms` passes what agrees and fails with the report's answer otherwise."""
    assert assert_conforms("ours", "gpt2", decoding=False).agrees

    with pytest.raises(AssertionError) as error:
        assert_conforms(ROOT / "examples" / "ordinary_gpt.py", "gpt2")
    assert str(error.value).splitlines()[0] == GELU[0]
    assert str(error.value).count(GELU[0]) == 1


def test_what_cannot_be_compared_is_no_trace_of_ours():
    """Of a candidate that cannot be compared a test shows the sentence, and nothing of the code that found it."""
    with pytest.raises(CandidateError) as error:
        assert_conforms(torch.nn.Linear(2, 2), "gpt2")

    assert [Path(str(entry.path)).name for entry in error.traceback] == ["test_report.py", "asserted.py"]
    assert error.value.__suppress_context__


def test_the_report_is_data():
    """In Python: faults, rows and the error that is left."""
    report = conform(ROOT / "examples" / "ordinary_gpt.py", "gpt2")

    assert [(f.key, f.line, f.where) for f in report.faults] == [("act-GELU", "Algorithm 10, line 8", "every layer")]
    assert report.agreement < 1e-14
    assert report.unseen == ()


def test_what_rounding_may_change_altogether_is_not_seen():
    """A line whose rounding may be as large as its value is not passed; one that differs by more still differs."""
    rows = rows_of([("10.8[l=1]", 0.9, 1.1), ("10.10", 0.9, 0.99), ("10.11", 2.0, 1.1)], ["7"])

    assert [(row.line, row.status) for row in rows] == [
        ("10.7", "not seen"), ("10.8", "not seen"), ("10.10", "agrees"), ("10.11", "differs"),
    ]  # fmt: skip


def test_heads_are_named():
    """What no known mistake explains is one sentence for all heads in which it looks the same, and names them."""
    ref = reference("gpt2")
    seen = {path: value for path, value in record("DTransformer", [1, 2, 3], ref.theta, ref.config).items()
            if re.fullmatch(r"10\.6\[l=1\]/5\.2\[h=\d\]", path)}  # fmt: skip
    cubed = {path: value**3 for path, value in seen.items()}
    of_one = seen | {path: value for path, value in cubed.items() if "h=2" in path}

    both, second = (conform(values, ref, tokens=[1, 2, 3]) for values in (cubed, of_one))

    assert [(fault.line, fault.where) for fault in both.faults] == [("Algorithm 5, line 2", "layer 1, heads 1, 2")]
    assert [(fault.line, fault.where) for fault in second.faults] == [("Algorithm 5, line 2", "layer 1, head 2")]


@pytest.mark.parametrize(("key", "paths", "allowed", "where"), [
    ("sample-variance", ["10.5[l=1]", "10.10"], 4e-2, "at least in line 5, layer 1, and line 10 of Algorithm 10"),
    ("sample-variance", ["10.5[l=1]", "10.10"], 1e-12, "in line 5, layer 1, and line 10 of Algorithm 10"),
    ("sample-variance", ["10.7[l=2]"], 4e-2, "at least in line 7 of Algorithm 10, layer 2"),
    ("sample-variance", ["10.7[l=2]"], 4e-4, "in line 7 of Algorithm 10, layer 2"),
    ("no-b_mlp2", ["10.8[l=2]"], 4e-2, "at least in layer 2"),
    ("sample-variance", ["10.5[l=1]", "10.5[l=2]", "10.10"], 4e-2, "in lines 5 and 10 of Algorithm 10, every layer"),
])  # fmt: skip
def test_where_a_mistake_is(key, paths, allowed, where):
    """What was seen hardly above rounding may be elsewhere as well; a line that is in no layer stands apart."""
    findings = [Finding(path, 5e-2, allowed, ((BY_KEY[key], 0),), 1e-2) for path in paths]

    (fault,) = faults_of(findings, PRESETS["gpt2"])

    assert fault.where == where


@pytest.mark.parametrize(("since", "says"), [
    (("5", "6"), "; the fault may be in lines 5, 6 as well, which were not seen"),
    (("3",), "; the fault may be in line 3 as well, which was not seen"),
    ((), "it differs"),
])  # fmt: skip
def test_lines_in_which_a_fault_may_be(since, says):
    """One line, or several, that were not seen before a value that nothing explains."""
    (fault,) = faults_of([Finding("10.8[l=1]", 1.0, 1e-12, about="it differs", since=since)], PRESETS["gpt2"])

    assert fault.says.endswith(says)

"""Golden vectors on the command line: what agrees, what differs, what is not there, what cannot be compared."""

import json
import shutil

import numpy as np
import pytest

from conform.test_vectors import dumped
from transformulary.cli import main
from transformulary.conform import cases as making
from transformulary.conform import compare_vectors, conform
from transformulary.conform.vectors import read_vectors
from transformulary.errors import DataError


def against(vectors, *args):
    """The exit status of `conform ... --against VECTORS`."""
    return main(["conform", *map(str, args), "--against", str(vectors)])


def test_the_command_agrees(vectors, tmp_path, capsys):
    """Dumps that are all right: status 0; the cases that were not dumped are counted."""
    dumped(read_vectors(vectors)["5-paper"], tmp_path / "dumps" / "5-paper")

    status = against(vectors, tmp_path / "dumps")

    values = len(read_vectors(vectors)["5-paper"].paths)
    assert status == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"Everything that was seen agrees: {values} values.", f"Not seen: {len(making.CASES) - 1} other cases."
    ]  # fmt: skip


def test_the_command_names_the_path(vectors, tmp_path, capsys):
    """One value wrong: status 1, and text, Markdown, JUnit and JSON name its path; the others agree."""
    dumped(read_vectors(vectors)["5-paper"], tmp_path / "dumps" / "5-paper")
    wrong = tmp_path / "dumps" / "5-paper" / "5.3.npy"
    np.save(wrong, np.load(wrong) + 1e-3)
    forms = [tmp_path / "r.md", tmp_path / "r.xml"]

    status = against(vectors, tmp_path / "dumps", "--markdown", forms[0], "--junit", forms[1])
    text = capsys.readouterr().out
    again = against(vectors, tmp_path / "dumps", "--json")
    report = json.loads(capsys.readouterr().out)

    assert (status, again, report["status"]) == (1, 1, 1)
    assert "5-paper: the first value that differs is 5.3 (error" in text.splitlines()[-2]
    assert all(report["answer"][0] in form.read_text(encoding="utf-8") for form in forms)
    assert [row["at"] for row in report["rows"] if row["status"] == "differs"] == ["5.3"]


def test_the_command_does_not_pass_what_is_missing(vectors, tmp_path, capsys):
    """A file that is not there is not seen, and neither passed nor wrong."""
    dumped(read_vectors(vectors)["5-paper"], tmp_path / "dumps" / "5-paper", skip={"5.3"})

    status = against(vectors, tmp_path / "dumps")

    out = capsys.readouterr().out
    assert status == 0
    assert any(line.split() == ["5-paper", "not", "seen", "1", "value:", "5.3"] for line in out.splitlines())
    assert "Not seen: 1 value of these cases." in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["mine.py"],
            "mine.py is no folder. What is compared with vectors is one that holds, by case, what was dumped.",
        ),
        (["dumps", "--text", "a"], "--text says nothing about vectors, whose inputs are in their files. Leave it out."),
    ],
)
def test_the_command_cannot_compare(args, says, vectors, tmp_path, capsys, monkeypatch):
    """No folder of dumps, or an option that says nothing here: one line, status 2."""
    monkeypatch.chdir(tmp_path)

    status = against(vectors, *args)

    assert (status, capsys.readouterr().err) == (2, f"transformulary conform: {says}\n")


def test_conform_compares_vectors_too(vectors, tmp_path):
    """In Python as on the command line, a folder of vectors may be what is right."""
    dumped(read_vectors(vectors)["5-paper"], tmp_path / "5-paper")

    report = conform(tmp_path, vectors)

    assert report.status == 0
    assert {row.line for row in report.rows} == {"5-paper"}


def test_what_cannot_be_compared_in_python(vectors, tmp_path):
    """Arguments that mean nothing, and places where no vectors are: one line."""
    for call, says in (
        (lambda: conform(tmp_path, vectors, tokens=[1]), "tokens says nothing about vectors"),
        (lambda: conform({}, vectors), "is no folder"),
        (lambda: compare_vectors(tmp_path, vectors, precision="float8"), "precision = 'float8' is none of float64"),
        (lambda: compare_vectors(tmp_path, tmp_path), "holds no vectors"),
    ):
        with pytest.raises(DataError, match=says):
            call()


@pytest.mark.parametrize(("key", "value", "says"), [
    ("roundoffs", "many", "5-paper', 5.3 has roundoffs = 'many'"),
    ("roundoffs", float("inf"), "roundoffs = inf"),
    ("roundoffs", float("nan"), "roundoffs = nan"),
    ("roundoffs", -1, "roundoffs = -1"),
    ("roundoffs", True, "roundoffs = True"),
    ("roundoffs", 1e300, r"roundoffs = 1e\+300"),
    ("shape", [3.5], r"5.3 has shape = \[3.5\]"),
    ("shape", [3], "has no 5.3 in the shape that index.json says"),
    ("file", "../5-paper.safetensors", "5-paper' has file = '../5-paper.safetensors'"),
    ("sha256", 3, "5-paper' has sha256 = 3"),
    ("values", [], r"5-paper' has values = \[\]"),
])  # fmt: skip
def test_a_damaged_index(key, value, says, vectors, tmp_path):
    """An index that is no longer what was written is said, in one line: above all what it allows is no other number."""
    folder = shutil.copytree(vectors, tmp_path / "vectors")
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    case = next(case for case in index["cases"] if case["name"] == "5-paper")
    (case if key in case else case["values"]["5.3"])[key] = value
    (folder / "index.json").write_text(json.dumps(index).replace("Infinity", "1e400"), encoding="utf-8")
    dumped(read_vectors(vectors)["5-paper"], tmp_path / "dumps" / "5-paper")

    with pytest.raises(DataError, match=says):
        conform(tmp_path / "dumps", folder)

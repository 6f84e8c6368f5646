"""transformulary fill, classify and embed."""

import io
import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from encode.models import saved
from transformulary import classify, embed, fill, load
from transformulary.cli import main
from transformulary.encode import cosines

VERBS = {"fill": fill, "classify": classify, "embed": embed}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Models by what they are asked for; classes have names."""
    about = {"classify": {"id2label": {"0": "joy", "1": "anger", "2": "fear"}}}
    return {
        verb: str(saved(tmp_path_factory.mktemp(verb), verb, torch.float32, **about.get(verb, {}))) for verb in VERBS
    }


@pytest.fixture
def said(capsys):
    """What a command prints, which must succeed."""

    def run(*words):
        assert main([*map(str, words)]) == 0
        return capsys.readouterr().out

    return run


@pytest.fixture
def typed(monkeypatch):
    """Give a text to standard input."""

    def give(text):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    return give


def objects(lines):
    return [json.loads(line) for line in lines.splitlines()]


TEXTS = ["the cat sat [MASK]", "a [MASK]", "[MASK] mat and dog"]


@pytest.mark.parametrize("verb", VERBS)
def test_arguments_files_and_standard_input_are_read_alike(folders, said, typed, tmp_path, verb):
    """Each text is answered, in order, wherever it comes from; what ends the lines does not matter."""
    file, more = tmp_path / "a.txt", tmp_path / "b.txt"
    file.write_bytes(f"\ufeff{TEXTS[0]}\r\n{TEXTS[1]}\r\n".encode())
    more.write_text(TEXTS[2])
    typed("\n".join(TEXTS) + "\n")
    model = [verb, folders[verb], "--json", "--batch", "2"]

    given = said(*model, *TEXTS)

    assert [one["text"] for one in objects(given)] == TEXTS
    assert given == said(*model, "--file", file, "--file", more) == said(*model)


def test_masks_are_filled(folders, said):
    """One object for each text, with what the function says; for people, one line for each mask."""
    (filled,) = fill(load(folders["fill"]), TEXTS[0], k=2)

    (told,) = objects(said("fill", folders["fill"], TEXTS[0], "--k", "2", "--json"))
    text, line = said("fill", folders["fill"], TEXTS[0], "--k", "2").splitlines()

    (masked,) = filled.masked
    assert (told["tokens"], told["masked"][0]["t"], told["recovered"]) == (filled.tokens, masked.t, None)
    assert told["masked"][0]["choices"] == [{"id": c.id, "name": c.name, "p": c.p} for c in masked.choices]
    assert (text, line) == (TEXTS[0], "  t = 5  " + "  ".join(f"{c.name!r} {c.p:.3f}" for c in masked.choices))


def test_each_token_is_told_whether_it_is_recovered(folders, said):
    """--each: a line for each token, and how many are recovered."""
    (filled,) = fill(load(folders["fill"]), "the cat sat", each=True)

    lines = said("fill", folders["fill"], "the cat sat", "--each").splitlines()

    assert ["  t = 2  'the'", "  t = 3  'cat'", "  t = 4  'sat'"] == [line[:14] for line in lines[1:4]]
    assert lines[4] == f"  {filled.recovered} of 3 tokens recovered"


def test_classes_are_told_by_name(folders, said):
    """The most probable first."""
    (classes,) = classify(load(folders["classify"]), "the cat")

    assert (
        said("classify", folders["classify"], "the cat", "--k", "2")
        == "the cat\n  " + "  ".join(f"{c.name} {c.p:.3f}" for c in classes[:2]) + "\n"
    )


def test_vectors_are_told_to_the_last_digit(folders, said):
    """What is printed, for machines or not, is the very number."""
    e = embed(load(folders["embed"]), TEXTS).numpy()

    plain = said("embed", folders["embed"], *TEXTS)
    told = objects(said("embed", folders["embed"], *TEXTS, "--json"))

    assert np.array_equal(e, np.array([line.split() for line in plain.splitlines()], np.float32))
    assert np.array_equal(e, np.array([one["vector"] for one in told], np.float32))


def test_vectors_in_a_file(folders, said, tmp_path):
    """One row for each text, in NumPy's format or in safetensors."""
    e = embed(load(folders["embed"]), TEXTS).numpy()
    npy, safetensors = tmp_path / "new" / "e.npy", tmp_path / "e.safetensors"

    told = said("embed", folders["embed"], *TEXTS, "--out", npy)
    (machine,) = objects(said("embed", folders["embed"], *TEXTS, "--out", safetensors, "--json"))

    assert told == f"{npy}: 3 x 8, float32\n"
    assert machine == {"file": str(safetensors), "shape": [3, 8], "dtype": "float32"}
    assert np.array_equal(e, np.load(npy))
    assert np.array_equal(e, load_file(safetensors)["vectors"])


def test_a_file_of_bfloat16(tmp_path, said):
    """NumPy has no bfloat16: its numbers are written as float32, unchanged; safetensors has it."""
    folder = saved(tmp_path / "model", "embed", torch.bfloat16)
    e = embed(load(folder), TEXTS)

    said("embed", folder, *TEXTS, "--out", tmp_path / "e.npy")

    assert np.array_equal(e.float().numpy(), np.load(tmp_path / "e.npy"))


def test_cosines(folders, said):
    """Of every two texts, in order."""
    c = cosines(embed(load(folders["embed"]), TEXTS))

    lines = said("embed", folders["embed"], "--cosines", *TEXTS).splitlines()
    told = objects(said("embed", folders["embed"], "--cosines", *TEXTS, "--json"))

    pairs = [(0, 1), (0, 2), (1, 2)]
    assert lines == [f"{c[i, j]:6.3f}  {TEXTS[i]}  {TEXTS[j]}" for i, j in pairs]
    assert told == [{"texts": [TEXTS[i], TEXTS[j]], "cosine": float(c[i, j])} for i, j in pairs]


def test_pairs(folders, said, typed):
    """Two arguments are a pair, and so are the halves of a line."""
    typed("the cat\ta dog\n")
    words = ["classify", folders["classify"], "--pairs", "--json"]

    given = said(*words, "the cat", "a dog")

    assert given == said(*words)
    (told,) = objects(given)
    (classes,) = classify(load(folders["classify"]), ("the cat", "a dog"))
    assert (told["text"], told["classes"][0]["p"]) == (["the cat", "a dog"], classes[0].p)


def test_the_name_of_a_file_is_a_text(folders, capsys, monkeypatch, tmp_path):
    """It is read as it stands, but a line on stderr says how to read the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("the cat")

    assert 0 == main(["embed", folders["embed"], "a"])
    out, err = capsys.readouterr()
    assert 0 == main(["embed", folders["embed"], "--file", "a"])
    content = capsys.readouterr()

    assert "note: a is a file, and read as a text here; --file a reads its lines.\n" == err
    assert "" == content.err
    assert content.out != out


def test_ids(folders, said):
    """--tokens are the ids of a text, each time it is given."""
    told = objects(said("embed", folders["embed"], "--tokens", "2,5,6,3", "--tokens", "2,3", "--json"))

    (whole,) = objects(said("embed", folders["embed"], "the cat", "--json"))
    assert [whole["vector"], [2, 3]] == [told[0]["vector"], told[1]["text"]]


@pytest.mark.parametrize(
    ("verb", "words", "message"),
    [
        ("fill", ["a"], "text 1 has no mask: write [MASK] where a token is to be guessed"),
        ("fill", [""], "the arguments: text 1 of 1 is empty"),
        ("fill", [], "standard input: there is no text"),
        ("fill", ["[MASK]", "--k", "-2"], "k = -2"),
        ("fill", ["--tokens", "2,77"], "text 1 has the token id 77, outside the vocabulary [0, N_V) = [0, 16)"),
        ("fill", ["--tokens", "2,x"], "'2,x' is no list of token ids"),
        ("fill", ["--tokens", "2", "a"], "--tokens are ids instead of texts"),
        ("classify", ["a " * 11], "text 1 has 13 tokens, and the model has learned positions for ell_max = 12 only"),
        ("classify", ["a", "--pairs"], "--pairs: 1 texts are not made of pairs"),
        ("classify", ["a", "--batch", "0"], "batch = 0"),
        ("classify", ["a", "--device", "abacus"], "device = 'abacus' cannot be used here"),
        ("embed", ["a", "--device", "meta"], "device = 'meta' cannot be used here"),
        ("embed", ["a", "--file", "x"], "give one or the other"),
        ("embed", ["--file", "absent.txt"], "No such file or directory: absent.txt"),
        ("embed", ["a", "--out", "e.csv"], "e.csv ends in '.csv', and vectors are written as .npy or .safetensors"),
        ("embed", ["a", "--out", "."], "ends in 'nothing'"),
        ("embed", ["a", "--cosines"], "of two texts or more"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(folders, capsys, typed, monkeypatch, tmp_path, verb, words, message):
    """One line on stderr with the numbers, exit status 2, nothing on stdout, nothing written."""
    typed("")
    monkeypatch.chdir(tmp_path)

    status = main([verb, folders[verb], *words])

    out, err = capsys.readouterr()
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("content", "message"),
    [("one line\n", "text 1 is no pair"), ("a\tb\tc\n", "text 1 is no pair"), ("a\tb\n\n", "text 2 of 2 is empty")],
)
def test_lines_that_are_no_pairs(folders, capsys, typed, content, message):
    """A line is a text, a tab, and a text."""
    typed(content)

    status = main(["classify", folders["classify"], "--pairs"])

    assert (2, True) == (status, message in capsys.readouterr().err)


@pytest.mark.parametrize("verb", VERBS)
def test_unknown_tokens_are_counted(folders, capsys, verb):
    """A note on stderr says how many of the texts' own tokens the vocabulary lacks; of known ones there is none."""
    assert 0 == main([verb, folders[verb], "the zebra [MASK]" if verb == "fill" else "the zebra"])
    assert "note: 1 of 2 tokens are unknown to the vocabulary.\n" == capsys.readouterr().err
    assert 0 == main([verb, folders[verb], "the [MASK]" if verb == "fill" else "the cat"])
    assert "" == capsys.readouterr().err

"""Dumps of somebody else's program: every kind of file, any names, and one clear line for what is wrong."""

import json
import os
import pickle
import random
import tracemalloc
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from transformulary.conform.dumps import precision_of, read_dumps
from transformulary.errors import UserError

A = np.arange(6.0).reshape(2, 3)
PATH, FILE = "10.6[l=1]/5.3", "10.6[l=1]+5.3"


def npz(folder):
    np.savez(folder / "all.npz", **{PATH: A})


def npz_compressed(folder):
    np.savez_compressed(folder / "all.npz", **{FILE: A})


def npy(folder):
    np.save(folder / f"{FILE}.npy", A)


def big_endian(folder):
    np.save(folder / f"{FILE}.npy", A.astype(">f4"))


def fortran(folder):
    np.save(folder / f"{FILE}.npy", np.asfortranarray(A))


def safetensors(folder):
    save_file({PATH: torch.tensor(A)}, folder / "all.safetensors")


def bfloat16(folder):
    save_file({PATH: torch.tensor(A).bfloat16(), "10.1": torch.tensor(7)}, folder / "all.safetensors")


def raw(folder):
    A.astype("<f4").tofile(folder / f"{FILE}.f32")
    (folder / "shapes.json").write_text(json.dumps({FILE: [2, 3]}))


def raw_double(folder):
    A.astype("<f8").tofile(folder / f"{FILE}.f64")
    (folder / "shapes.json").write_text(json.dumps({FILE: [2, 3]}))


@pytest.mark.parametrize(
    "write", [npz, npz_compressed, npy, big_endian, fortran, safetensors, bfloat16, raw, raw_double]
)
def test_every_kind_of_file(write, tmp_path):
    """Numbers and shape arrive as they were dumped, under the path."""
    write(tmp_path)

    found = read_dumps(tmp_path)[PATH]

    np.testing.assert_array_equal(found, A)


def test_one_file(tmp_path):
    """A dump may be a single file."""
    npz(tmp_path)

    assert list(read_dumps(tmp_path / "all.npz")) == [PATH]


def test_half_precision_keeps_its_type(tmp_path):
    """The precision of a dump is known: float16 stays float16."""
    np.save(tmp_path / "10.3.npy", A.astype(np.float16))

    assert read_dumps(tmp_path)["10.3"].dtype == np.float16


@pytest.mark.parametrize(
    ("theirs", "ours", "name", "path"),
    [
        ("h.{l}.ln_1", "10.5[l]", "h.0.ln_1", "10.5[l=1]"),
        ("layer{l+1}/z", "10.8[l]", "layer2/z", "10.8[l=2]"),
        ("h.{l}.attn.{h}.q", "10.6[l]/5.2[h]/4.1", "h.10.attn.1.q", "10.6[l=11]/5.2[h=2]/4.1"),
        ("logits", "10.11:logits", "logits", "10.11:logits"),
    ],
)
def test_renaming(theirs, ours, name, path, tmp_path):
    """A table says what their names mean; {l} counts from 0, {l+1} from 1."""
    np.savez(tmp_path / "all.npz", **{name: A})

    assert list(read_dumps(tmp_path, {theirs: ours})) == [path]


def test_names_that_are_not_wanted(tmp_path):
    """None in the table leaves a name out, on purpose."""
    np.savez(tmp_path / "all.npz", **{"10.3": A, "h.3.debug": A})

    assert list(read_dumps(tmp_path, {"h.{l}.debug": None})) == ["10.3"]


def test_a_name_that_the_table_forgets(tmp_path):
    """Where there is a table, it is the table that does not know a name."""
    np.savez(tmp_path / "all.npz", logits=A, attn=A)

    with pytest.raises(UserError, match=r"attn is no path such as .*, and the renaming table does not say what it is"):
        read_dumps(tmp_path, {"logits": "10.11:logits"})


def test_rows_are_turned(tmp_path):
    """With tokens as rows every matrix is transposed; vectors, and a batch of one, lose nothing."""
    np.savez(tmp_path / "all.npz", **{"10.3": A.T[None], "7.1": np.arange(4.0)})

    found = read_dumps(tmp_path, known={"10.3": (2, 3), "7.1": (4,)}, tokens="rows")

    np.testing.assert_array_equal(found["10.3"], A)
    np.testing.assert_array_equal(found["7.1"], np.arange(4.0))


KNOWN = {"10.3": (2, 3), "10.10": (2, 3), "10.11": (5, 3), "10.1": ()}


def saved(**arrays):
    return lambda folder: np.savez(folder / "all.npz", **{name.replace("_", "."): a for name, a in arrays.items()})


def truncated(write, file):
    def make(folder):
        write(folder)
        data = (folder / file).read_bytes()
        (folder / file).write_bytes(data[: len(data) - 9])

    return make


class Hostile:
    """Unpickling this would run code."""

    def __reduce__(self):
        return (print, ("unpickled!",))


def hostile(folder):
    np.savez(folder / "all.npz", **{"10.3": np.array([Hostile()], dtype=object)})


def pickled(folder):
    (folder / "10.3.npy").write_bytes(pickle.dumps(Hostile()))


def raw_of_no_known_size(folder):
    A[:, :2].tofile(folder / "10.3.f64")


def raw_of_another_size(folder):
    raw_double(folder)
    (folder / "shapes.json").write_text(json.dumps({FILE: [2, 4]}))


def raw_with_strange_shape(folder):
    raw_double(folder)
    (folder / "shapes.json").write_text(json.dumps({FILE: [2, -3]}))


def huge(folder):
    with (folder / "10.3.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 2**20)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(A.tobytes())


def bomb(folder):
    """Sixteen million bytes in a file of sixteen thousand."""
    with ZipFile(folder / "all.npz", "w", ZIP_DEFLATED) as archive, archive.open("10.3.npy", "w") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (2**21,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(2**24))


def header_bomb(folder):
    """The same, with a header that speaks of six numbers."""
    with ZipFile(folder / "all.npz", "w", ZIP_DEFLATED) as archive, archive.open("10.3.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (6,)})
        file.write(bytes(2**24))


def pipe(folder):
    os.mkfifo(folder / f"{FILE}.npy")


def twice(folder):
    np.save(folder / "10.3.npy", A)
    np.savez(folder / "all.npz", **{"10.3": A})


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (saved(hidden=A), "hidden is no path such as .*, and no renaming table says what it is. To leave a name out"),
        (saved(a=A, b=A), r"a, b are no paths such as .* they are. .* write null for its path: \{\"a\": null\}\.$"),
        (pipe, r"npy is no file: a folder, a pipe or a device holds no values"),
        (saved(**dict.fromkeys("abcdefgh", A)), "a, b, c, d, e and 3 more are no paths"),
        (saved(**{"10_30": A}), "10.30 is no value of this run. Nearest: 10.3"),
        (saved(**{"10_3": A.T}), r"10.3 has the shape \(3, 2\), and \(2, 3\) is right. It is transposed"),
        (saved(**{"10_3": A[:, :2]}), r"10.3 has the shape \(2, 2\), .* it comes from a run of another size"),
        (saved(**{"10_3": A.astype(str)}), "10.3 holds <U32, and values are real numbers"),
        (saved(**{"10_3": A + 1j}), "10.3 holds complex128, and values are real numbers"),
        (truncated(npz, "all.npz"), "all.npz cannot be read"),
        (truncated(npy, f"{FILE}.npy"), "cannot be read"),
        (truncated(safetensors, "all.safetensors"), "truncated"),
        (truncated(raw_double, f"{FILE}.f64"), "has 39 bytes, which is no whole number of f64: truncated"),
        (hostile, "cannot be read: it holds Python objects, and these are never read"),
        (pickled, "cannot be read"),
        (huge, "cannot be read"),
        (bomb, "10.3 has 2097152 numbers, and no value of this run has more than 15: it was not read"),
        (header_bomb, r"cannot be read: it has 16777\d+ bytes, and numbers of the shape \(6,\) need others: truncated"),
        (raw_of_no_known_size, r"10.3 has the shape \(4,\), and \(2, 3\) is right"),
        (raw_of_another_size, r"has 6 numbers, and the shape \[2, 4\] needs 8"),
        (raw_with_strange_shape, "and must be a list of whole numbers"),
        (twice, "10.3 is 10.3, which another name means too"),
        (lambda folder: (folder / "10.3.bin").write_bytes(b"x"), "10.3.bin is none of .npz, .npy, .safetensors"),
        (lambda folder: (folder / "10.3.npy").write_bytes(b""), "cannot be read"),
        (lambda folder: (folder / "10.3.npz").write_bytes(b"x" * 100), "cannot be read: File is not a zip file"),
    ],
)
def test_what_is_wrong_is_said(write, message, tmp_path, capsys):
    """One line names the file and what is wrong with it; nothing in a file is ever run."""
    write(tmp_path)

    with pytest.raises(UserError, match=message) as raised:
        read_dumps(tmp_path, known=KNOWN | {PATH: (2, 3)})

    assert "\n" not in str(raised.value)
    assert "unpickled" not in capsys.readouterr().out


@pytest.mark.parametrize("write", [bomb, header_bomb])
def test_a_bomb_takes_no_memory(write, tmp_path):
    """What is too large is refused before it is unpacked; what is left out may be as large as it likes."""
    write(tmp_path)

    tracemalloc.start()
    with pytest.raises(UserError):
        read_dumps(tmp_path, known=KNOWN)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert taken < 2**22
    assert write is header_bomb or read_dumps(tmp_path, {"10.3": None}, KNOWN) == {}


@pytest.mark.parametrize("write", [npz, npz_compressed, npy, safetensors])
def test_damaged_bytes(write, tmp_path):
    """Whatever bytes a file holds, it is read or refused in one line."""
    write(tmp_path)
    (file,) = tmp_path.iterdir()
    good, chance, refused = file.read_bytes(), random.Random(0), 0
    for _ in range(300):
        damaged = bytearray(good)
        for _ in range(chance.choice([1, 2, 5])):
            damaged[chance.randrange(len(good))] = chance.randrange(256)
        file.write_bytes(damaged[: chance.choice([len(good), chance.randrange(len(good))])])
        try:
            read_dumps(tmp_path)
        except UserError as error:
            refused += "\n" not in str(error)

    assert refused > 150


@pytest.mark.parametrize("tokens", ["columns", "rows"])
def test_plain_numbers_in_a_known_shape(tokens, tmp_path):
    """Where the shape is known, plain numbers need no shapes.json; in the order of rows where tokens are rows."""
    (A if tokens == "columns" else A.T).astype("<f4").tofile(tmp_path / "10.3.f32")

    found = read_dumps(tmp_path, known={"10.3": (2, 3)}, tokens=tokens)["10.3"]

    np.testing.assert_array_equal(found, A)


def test_plain_numbers_of_unknown_shape(tmp_path):
    """Without a known shape they are one row, also beside others whose shape stands in shapes.json."""
    A.tofile(tmp_path / "10.3.f64")
    A.tofile(tmp_path / "10.10.f64")
    (tmp_path / "shapes.json").write_text(json.dumps({"10.10": [2, 3]}))

    found = read_dumps(tmp_path)

    np.testing.assert_array_equal(found["10.3"], A.ravel())
    np.testing.assert_array_equal(found["10.10"], A)


def test_rows_for_columns(tmp_path):
    """What was declared the wrong way round is said to be so."""
    np.save(tmp_path / "10.3.npy", A)

    with pytest.raises(UserError, match=r"It is transposed: tokens were expected as rows \(tokens = 'columns' if"):
        read_dumps(tmp_path, known={"10.3": (2, 3)}, tokens="rows")


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        ("h.{l}.{l}", "10.5[l]", "counts one thing twice"),
        ("h.{l}", "10,5[l]", "'10,5.l=1.' is not the path of a value"),
    ],
)
def test_a_renaming_table_that_is_wrong(theirs, ours, message, tmp_path):
    """A table's mistakes are said before any value is compared."""
    np.savez(tmp_path / "all.npz", **{"h.0": A})

    with pytest.raises(UserError, match=message):
        read_dumps(tmp_path, {theirs: ours})


def test_no_such_dump(tmp_path):
    """A place where nothing is."""
    with pytest.raises(UserError, match="nowhere does not exist"):
        read_dumps(tmp_path / "nowhere")


def test_an_unknown_orientation(tmp_path):
    """Tokens are rows or columns."""
    with pytest.raises(UserError, match="tokens = 'row' must be 'columns' or 'rows'"):
        read_dumps(tmp_path, tokens="row")


@pytest.mark.parametrize("order", "<>=")
@pytest.mark.parametrize(("size", "precision"), [(2, "float16"), (4, "float32"), (8, "float64")])
def test_precision_in_either_order_of_bytes(order, size, precision):
    """The order of its bytes does not change what an array's numbers are precise to."""
    assert precision == precision_of(A.astype(f"{order}f{size}"))

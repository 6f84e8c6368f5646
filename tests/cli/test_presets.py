"""`transformulary presets` and `transformulary symbols`: tables of what there is."""

import json

import pytest

from transformulary.cli import main
from transformulary.paper import DTransformerConfig, preset
from transformulary.paper.presets import families, presets
from transformulary.paper.symbols import SYMBOLS
from transformulary.tables import size, table


def printed(capsys, *argv):
    """(exit status, stdout, stderr) of a command."""
    status = main(list(argv))
    return status, *capsys.readouterr()


def test_the_table_names_every_preset(capsys):
    """Every family and each of its sizes has a line, in order."""
    status, out, err = printed(capsys, "presets")

    first = [line.split()[0] for line in out.splitlines()[1:]]
    names = [name for family in families().values() for name in [family.name, *(s.name for s in family.presets())]]
    assert (0, "", names) == (status, err, first)
    assert "gpt2-small              124,439,808       117M" in out


def test_presets_as_json(capsys):
    """JSON has the whole config, from which the same model can be made."""
    _, out, _ = printed(capsys, "presets", "--json")

    found = {one["name"]: one for one in json.loads(out)}
    assert list(presets()) == list(found)
    assert preset("gpt3-13b").config == DTransformerConfig.from_dict(found["gpt3-13b"]["config"])
    assert 124_439_808 == found["gpt2-small"]["parameters"]


def test_all_symbols(capsys):
    """Without a name, every symbol has a line, and its meaning stands in one column."""
    status, out, _ = printed(capsys, "symbols")

    assert (0, list(SYMBOLS)) == (status, [line.split()[0] for line in out.splitlines()])


def test_a_symbol(capsys):
    """Meaning, LaTeX, shape, and what others call it."""
    _, out, _ = printed(capsys, "symbols", "W_mlp1")

    assert out.startswith("W_mlp1: first matrix of an MLP (in Algorithm 8: the encoder's)\n")
    assert ["LaTeX", r"\boldsymbol{W}_{\mathrm{mlp1}}"] == out.splitlines()[1].split()
    assert "  Llama       mlp.gate_proj.weight\n" in out


def test_a_symbol_by_another_name(capsys):
    """A name that several libraries use for different things gives each of these."""
    _, out, _ = printed(capsys, "symbols", "num_layers")

    assert ["L: layers", "L_enc: layers of the encoder"] == [
        line for line in out.splitlines() if line and line[0] != " "
    ]


def test_a_symbol_as_json(capsys):
    """JSON has the same."""
    _, out, _ = printed(capsys, "symbols", "ell_max", "--json")

    (found,) = json.loads(out)
    assert ("ℓ_max", r"\ell_{\max}", "n_positions") == (found["unicode"], found["latex"], found["others"]["GPT-2"])


def test_no_such_symbol(capsys):
    """One line names the nearest name, and the exit status is 2."""
    status, out, err = printed(capsys, "symbols", "hiden_size")

    message = "no symbol is called 'hiden_size', in the paper or elsewhere. Did you mean hidden_size?"
    assert (2, "", f"transformulary symbols: {message}\n") == (status, out, err)


@pytest.mark.parametrize(
    ("n", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (99_949, "99.9 kB"),
        (99_950, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (2_793_668_149_248, "2.79 TB"),
        (10**16, "10,000 TB"),
    ],
)
def test_sizes(n, shown):
    """Three digits, whatever the unit."""
    assert shown == size(n)


def test_columns():
    """Numbers stand to the right with their commas; an accent takes no column."""
    assert "ṽ   1,000\nab     10" == table([("ṽ", 1000), ("ab", 10)], right=[1])

"""`transformulary show`: pages on the command line, at once."""

import re

import pytest

from transformulary.cli import main
from transformulary.pseudocode import numbers, render


@pytest.mark.parametrize("number", ["10", "4r"])
def test_shows_one_page(number, capsys):
    """One number prints one page, and nothing else."""
    status = main(["show", number])

    assert (0, (render(number) + "\n", "")) == (status, capsys.readouterr())


def test_shows_several_in_the_order_asked_for(capsys):
    """Several numbers print several pages with an empty line between them."""
    main(["show", "6", "4", "10"])

    assert render([6, 4, 10]) + "\n" == capsys.readouterr().out


def test_shows_all(capsys):
    """--all prints every algorithm."""
    main(["show", "--all"])

    assert render(numbers()) + "\n" == capsys.readouterr().out


@pytest.mark.parametrize(
    ("number", "names"),
    [
        ("10", {"softmax", "GELU", "Φ"}),
        ("8", {"softmax", "ReLU"}),
        ("13c", {"uniform"}),
        ("13u", {"matrices", "embeddings"}),
        ("6", set()),
    ],
)
def test_shows_what_functions_are(number, names, capsys):
    """Below its lines a page defines the functions that they name."""
    main(["show", number])

    where = capsys.readouterr().out.partition("\nwhere\n")[2].partition("\n\n")[0]
    assert names == set(re.findall(r"^    (\w+)\(", where, re.MULTILINE))


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ["13e", "--choose", "schedule=linear", "--choose", "N_warmup=0"],
            ["3  a ← η_floor + (1 − η_floor) (1 − min(1, a))"],
        ),
        (["13e", "--choose", "T_total=2.5"], ["2  a ← max(a, clock[i]/T_total)"]),
        (["13u", "--choose", "optimiser=sgd"], ["2  g ← g + decay matrices(θ)"]),
        (["13b", "--choose", "chunks=false"], ["3      w ← x"]),
        (["14", "--choose", "stop=1,2"], ["6a      if y ∈ stop then return x[ℓ+1:ℓ+i]"]),
    ],
)
def test_shows_another_form(words, lines, capsys):
    """A page of practice says what its form depends on, and --choose shows another."""
    assert 0 == main(["show", words[0]])
    before = capsys.readouterr().out
    assert 0 == main(["show", *words])
    after = capsys.readouterr().out

    choice = words[-1].partition("=")[0]
    assert words[0] == "14" or f"`{choice}`" in before
    for line in lines:
        assert line in after and line not in before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["13e", "--choose", "N_warmup"], "--choose N_warmup: a choice is NAME=VALUE, schedule=linear for example."),
        (["13e", "--choose", "N_warmup=x"], "--choose N_warmup=x: 'x' is not a whole number."),
        (["13b", "--choose", "chunks=1"], "--choose chunks=1: '1' is not true or false."),
        (["13e", "--choose", "schedule=x"], "schedule = 'x' is none of constant, cosine, linear."),
        (
            ["13b", "--choose", "schedule=linear"],
            "no line of Algorithm 13b depends on a choice 'schedule'; there, what can be chosen is chunks, shuffle.",
        ),
        (
            ["4", "--choose", "nothing=1"],
            "no line of Algorithm 4 depends on a choice 'nothing'; there, there is nothing to choose.",
        ),
    ],
)
def test_a_choice_that_there_is_not(words, message, capsys):
    """A choice without a value, of the wrong kind, or on which nothing depends is one line and exit status 2."""
    assert (2, ("", f"transformulary show: {message}\n")) == (main(["show", *words]), capsys.readouterr())


LETTERED = "Published models add 2h, 2s, 2t, 2v, 4d, 4r, 6r, 8a, 9c, 13a, 13b, 13c, 13d, 13e, 13m, 13r, 13u."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([""], f"the paper has no Algorithm ''; it has 1 to 15. {LETTERED}"),
        (["16"], f"the paper has no Algorithm 16; it has 1 to 15. {LETTERED}"),
        (
            ["10", "4x"],
            f"the paper has no Algorithm 4x; it has 1 to 15. {LETTERED}",
        ),
        ([], "say which algorithm, `show 10` for example, or `show --all`."),
    ],
)
def test_what_there_is_not(words, message, capsys):
    """A number that no algorithm has is one line and exit status 2; nothing is printed."""
    status = main(["show", *words])

    assert (2, ("", f"transformulary show: {message}\n")) == (status, capsys.readouterr())

"""`transformulary show`: pages on the command line, at once."""

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


LETTERED = "Published models add 2h, 2s, 2t, 2v, 4d, 4r, 6r, 8a, 9c, 13a, 13b, 13c, 13d, 13e, 13m, 13r, 13u."


@pytest.mark.parametrize(
    ("words", "message"),
    [
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

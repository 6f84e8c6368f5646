"""What takes long says so."""

from time import sleep

from transformulary.cli._patience import patience


def test_a_line_now_and_then(capsys):
    """Every so many seconds a line on stderr says what is done, and for how long; none after."""
    with patience("comparing", silence=0.02):
        sleep(0.2)
    said = capsys.readouterr()
    sleep(0.1)

    assert said.err.startswith("comparing (0 s)\ncomparing (0 s)\n")
    assert (said.out, capsys.readouterr().err) == ("", "")


def test_what_is_quick_says_nothing(capsys):
    """A block that ends before."""
    with patience("comparing"):
        pass

    assert capsys.readouterr().err == ""

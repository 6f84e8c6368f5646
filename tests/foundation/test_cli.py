"""The command line itself, with verbs made up for the tests."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from needs import NO_HARDWARE
from transformulary import __version__, cli
from transformulary.errors import ConfigError

PROGRAM = [sys.executable, "-m", "transformulary"]


@pytest.fixture
def verb(monkeypatch):
    """Register a verb `probe` that does what the test says."""

    def register(run, arguments=lambda parser: None):
        module = SimpleNamespace(__doc__="transformulary probe: try.", arguments=arguments, run=run)
        monkeypatch.setitem(sys.modules, "transformulary.cli.probe", module)
        monkeypatch.setitem(cli.VERBS, "Tests", ("probe",))

    return register


def raises(error):
    """A verb that does nothing but raise."""

    def run(args):
        raise error

    return run


def options(parser):
    """A few options, and a verb below the verb."""
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("text")
    below = parser.add_subparsers(required=True, metavar="what").add_parser("train")
    below.add_argument("--prompt")


def test_help_names_every_verb_in_its_group(capsys):
    """`--help`, and no argument at all, show each verb once, under what people come for."""
    assert cli.main(["--help"]) == 0
    asked = capsys.readouterr().out
    assert cli.main([]) == 0

    assert capsys.readouterr().out == asked
    for group, verbs in cli.VERBS.items():
        block = asked.partition(f"\n{group}\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in block.splitlines()] == list(verbs)


@pytest.mark.parametrize("name", cli.all_verbs())
def test_every_verb_says_what_it_does(name):
    """A registered verb has its module, and the first line of that is its help."""
    assert len(cli._first_line(name)) > 10


def test_version(capsys):
    """`--version` is one line: the program and its version."""
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"transformulary {__version__}\n"


def test_what_a_verb_returns_is_the_exit_status(verb):
    """A verb may report its own failure."""
    verb(lambda args: 7)

    assert cli.main(["probe"]) == 7


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("H = 10 does not divide d_e = 768."), "H = 10 does not divide d_e = 768."),
        (ConfigError("two\nlines, \x1b[31mred\x1b[0m, \udc80"), r"two lines, \x1b[31mred\x1b[0m, \udc80"),
        (FileNotFoundError(2, "No such file or directory", "a.txt"), "No such file or directory: a.txt"),
        (OSError("no room left"), "no room left"),
    ],
)
def test_what_the_user_can_mend_is_one_line(verb, capsys, error, line):
    """A UserError, or an OSError about a file, is one printable line on stderr and exit status 2."""
    verb(raises(error))

    assert cli.main(["probe"]) == 2
    assert capsys.readouterr() == ("", f"transformulary probe: {line}\n")


def test_a_bug_keeps_its_traceback(verb):
    """Any other exception is ours to mend: it is not hidden."""
    verb(raises(ZeroDivisionError()))

    with pytest.raises(ZeroDivisionError):
        cli.main(["probe"])


def test_interrupted(verb, capsys):
    """Ctrl-C ends a verb quietly with the customary status."""
    verb(raises(KeyboardInterrupt()))

    assert cli.main(["probe"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["trian"], "transformulary: there is no verb 'trian'. Nearest: train, trace. See `transformulary --help`."),
        (["--hepl"], "transformulary: there is no option '--hepl'. See `transformulary --help`."),
        (["probe", "a", "--setps", "3"], "there is no option '--setps'. Nearest: --steps."),
        (["probe", "--setps=3"], "there is no option '--setps'. Nearest: --steps."),
        (["probe", "--step", "3", "a", "train"], "there is no option '--step'. Nearest: --steps."),
        (["probe", "a", "train", "--pormpt", "b"], "there is no option '--pormpt'. Nearest: --prompt."),
        (["probe", "a", "train", "--steps", "x"], "there is no option '--steps'."),
        (["probe", "--steps", "x"], "argument --steps: invalid int value: 'x'."),
        (["probe"], "the following arguments are required: text, what."),
    ],
)
def test_a_mistyped_command_is_one_line(verb, capsys, argv, line):
    """What is unknown is named, with the nearest names; nothing is guessed from an abbreviation."""
    verb(lambda args: 0, options)

    assert cli.main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert line in err


def test_an_argument_may_look_like_an_option(verb):
    """A text that begins with dashes can be given: joined by =, or after --, or with a blank inside."""
    seen = []
    verb(lambda args: seen.append(args.text) or 0, lambda parser: parser.add_argument("text"))

    for words in (["--", "--steps"], ["-- I said"]):
        assert cli.main(["probe", *words]) == 0

    assert seen == ["--steps", "-- I said"]


def test_help_of_a_verb(verb, capsys):
    """`VERB --help` shows the module's text and its options."""
    verb(lambda args: 0, options)

    assert cli.main(["probe", "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("usage: transformulary probe")
    assert "transformulary probe: try." in out


def test_a_reader_that_leaves_is_no_error():
    """`| head -1` ends the program without a word."""
    read, write = os.pipe()
    os.close(read)

    done = subprocess.run([*PROGRAM, "--help"], stdout=write, stderr=subprocess.PIPE)

    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason=NO_HARDWARE)
def test_a_full_disk_is_one_line():
    """Output that cannot be written is said, and is not exit status 0."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([*PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)

    assert (done.returncode, done.stderr) == (2, "transformulary: No space left on device: standard output\n")


def test_output_is_utf8_in_any_locale():
    """Formulas and half characters are written as UTF-8 even where the locale is ASCII."""
    code = "from transformulary.cli import _speak_utf8 as f; f(); print('\\u2113 \\udc80')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=True
    )

    assert done.stdout.decode() == "\u2113 \\udc80\n"


def test_the_module_is_the_command():
    """`python -m transformulary` answers as the console command does."""
    done = subprocess.run([*PROGRAM, "nothing"], capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.skipif(os.name == "nt", reason=f"{NO_HARDWARE}: a shell that closes a stream")
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("words", "status"), [(["--help"], 0), (["show", "10"], 0), (["dance"], 2)])
def test_closed_streams(closed, words, status):
    """A command whose output nobody wants does its work: no traceback, and errors do not turn up on stdout."""
    run = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *PROGRAM, *words], capture_output=True, text=True)

    assert run.returncode == status
    assert ("Traceback" in run.stderr, "dance" in run.stdout) == (False, False)

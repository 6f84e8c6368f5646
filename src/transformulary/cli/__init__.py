"""The command line: `transformulary VERB ...`, or `tfy` for short.

The verb `x` is the module `transformulary.cli.x`, imported when it is called.  It has

- a docstring; its first line, up to the first `: ` left out, is the verb's line in `transformulary --help`
- `arguments(parser)`, which declares the options
- `run(args)`, which does the work and returns the exit status

Exit status: 0 done; 1 a bug of ours, with its traceback; 2 something the user can mend, said in one line;
130 interrupted; 141 the reader of our output went away.
"""

import argparse
import errno
import gc
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from transformulary import __version__
from transformulary.errors import DataError, UserError
from transformulary.tables import printable

#: What people come for, and the verbs that serve it.
VERBS = {
    "Start here": ("demo",),
    "Read the algorithms": ("show", "describe", "diff", "symbols", "presets"),
    "Train and run a model": ("train", "generate", "translate", "evaluate", "tokens", "convert"),
    "Ask an encoder": ("fill", "classify", "embed"),
    "Look inside": ("attention", "trace"),
    "Find what is wrong": ("conform", "vectors"),
}
#: What is done in a moment, without NumPy and PyTorch.
READING = VERBS["Read the algorithms"]
#: Characters of the longest complaint: a value that the user's file gives may be of any length.
MOST = 1000
#: What only writing can meet: all that we write to files names the file, what is printed names none.
FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EBADF}

#: What a verb that runs a model takes for one: all that `formats.open_source` finds.
MODEL_HELP = "a model: a folder, a file (GGUF too), a name in the Hugging Face cache, or hf://org/name to download it"

FORMAT_HELP = (
    "how it is stored: a model_type, or your_format.py with tables of your own (default: what config.json says)"
)

HEAD = """\
usage: transformulary VERB ...      (`tfy` for short)

The executable edition of "Formal Algorithms for Transformers".
"""

FOOT = """
`transformulary VERB --help` says what a verb does and every option it takes.
`transformulary --version` says which version this is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (default: the one in sys.argv) and return its exit status; raises only what is a bug."""
    threads = set(threading.enumerate())
    status = _main((sys.argv[1:] if argv is None else argv) or ["--help"])
    if any(not thread.daemon for thread in set(threading.enumerate()) - threads):
        sys.stderr.flush()
        os._exit(status)  # Python would wait for threads that code of the user's has left, perhaps for ever
    return status


def _main(words: Sequence[str]) -> int:
    verb, *rest = words
    name = f"transformulary {verb}" if verb in all_verbs() else "transformulary"
    _open_closed_streams()
    _speak_utf8()
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # PyTorch's threads spin shortly while they wait, then yield
    try:
        status = _run(verb, rest)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _discard_output()
        return 141
    except UserError as error:
        return _complain(name, str(error))
    except OSError as error:
        return _complain(name, _describe(error))


def _run(verb: str, rest: list[str]) -> int:
    if verb in ("-h", "--help"):
        print(_help())
    elif verb == "--version":
        print(f"transformulary {__version__}")
    elif verb in all_verbs():
        return _run_verb(verb, rest)
    else:
        kind = "option" if verb.startswith("-") else "verb"
        raise UserError(f"there is no {kind} {verb!r}. {_nearest(verb, all_verbs())}See `transformulary --help`.")
    return 0


def _run_verb(verb: str, rest: list[str]) -> int:
    with _no_collector() if verb in READING else nullcontext():
        return _run_module(verb, rest)


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without Python's search for garbage: it would go through our trees of small objects again and again."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _run_module(verb: str, rest: list[str]) -> int:
    module = import_module(f"transformulary.cli.{_file_name(verb)}")
    parser = Parser(
        prog=f"transformulary {verb}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.arguments(parser)
    try:
        args = parser.parse_args(rest)
    except SystemExit:  # --help was asked for, and answered
        return 0
    return int(module.run(args))


class Parser(argparse.ArgumentParser):
    """argparse, with every complaint a UserError of one line, and no guessing at abbreviations."""

    def __init__(self, **settings: object):
        super().__init__(**{**settings, "allow_abbrev": False})  # type: ignore[arg-type]

    mixing = False

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """As argparse does, but options may stand anywhere, and an unknown one is named before what follows from it."""
        known, words = set(_options(self)), sys.argv[1:] if args is None else args
        for word in _before("--", words):
            option = word.partition("=")[0]
            if option.startswith("--") and " " not in option and option not in known:
                self.error(f"there is no option {option!r}. {_nearest(option, known)}".strip())
        if self.mixing or self._subparsers or "--" in words:
            return super().parse_known_args(args, namespace)
        self.mixing = True  # in some versions of Python the next call comes back here
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self.mixing = False

    def error(self, message: str) -> NoReturn:
        """Raise UserError: what is wrong, and where to read what is right."""
        raise UserError(f"{message.rstrip('.')}. See `{self.prog} --help`.")


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Every option of a parser and of the parsers below it."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _options(below)


def _before(end: str, words: Iterable[str]) -> Iterator[str]:
    """The words up to `end`, which is left out."""
    for word in words:
        if word == end:
            return
        yield word


def _nearest(word: str, choices: Iterable[str]) -> str:
    """A hint that names the choices spelt almost like `word`, dashes aside; empty if there is none."""
    from difflib import get_close_matches

    names = {choice.lstrip("-"): choice for choice in choices}
    near = get_close_matches(word.lstrip("-"), names)
    return f"Nearest: {', '.join(names[name] for name in near)}. " if near else ""


def all_verbs() -> list[str]:
    """Every verb, in the order of the help."""
    return [verb for verbs in VERBS.values() for verb in verbs]


def _file_name(verb: str) -> str:
    return verb.replace("-", "_")


def _help() -> str:
    """All verbs, by what people come for; each line is read from its module's source, which is not imported."""
    blocks = [
        "\n".join([f"\n{group}", *(f"  {verb:12}{_first_line(verb)}" for verb in verbs)])
        for group, verbs in VERBS.items()
    ]
    return "\n".join([HEAD.rstrip(), *blocks, FOOT])


def _first_line(verb: str) -> str:
    source = Path(__file__).with_name(f"{_file_name(verb)}.py")
    if not source.exists():
        return ""
    with source.open(encoding="utf-8") as lines:
        line = lines.readline().strip().strip('"')
    return (line.partition(": ")[2] or line).rstrip(".")


def _complain(name: str, message: str) -> int:
    """One line on stderr, of bounded length, whatever the message holds; returns the exit status 2."""
    line = " ".join(message.splitlines())
    line = line if len(line) <= MOST else f"{line[: MOST // 2]} ... {line[-MOST // 2 :]}"
    print(f"{name}: {printable(line)}", file=sys.stderr)
    _discard_output()
    return 2


def _describe(error: OSError) -> str:
    file = error.filename or ("standard output" if error.errno in FULL else "")
    return f"{error.strerror}: {file}" if file and error.strerror else str(error)


def standard_input(instead: str) -> bytes:
    """All of standard input.  Raises DataError if it is closed; `instead` says how else to give what is needed."""
    if sys.stdin is None:
        raise DataError(f"standard input is closed, and what is needed is read from there. {instead}")
    return sys.stdin.buffer.read()


def _open_closed_streams() -> None:
    """Let what is written to a closed stdout or stderr (`>&-`) go nowhere, and no file of ours take its place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the program


def _speak_utf8() -> None:
    """Write UTF-8 whatever the locale, and never fail on a character (a lone surrogate is escaped)."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def _discard_output() -> None:
    """Let what cannot be written to stdout go nowhere, so that Python's own flush at exit stays quiet."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def token_ids(text: str) -> list[int]:
    """What --tokens says, as argparse's `type`: plain digits, so that nothing else is read as a number by chance."""
    words = [word.strip() for word in text.split(",")]
    if not all(re.fullmatch("-?[0-9]+", word) for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of token ids; write them like 15496,11,995")
    return [int(word) for word in words]


def at_least_one(text: str) -> int:
    """How many of something, as argparse's `type`."""
    if not re.fullmatch("0*[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens; one is the least")
    return int(text)

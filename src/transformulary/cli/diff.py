"""transformulary diff A B: the lines in which two models differ

What is compared are the lines that each executes; where these are the same, the sizes. "paper" beside a model is the
paper's algorithm of its architecture. In colour in a terminal, unless
NO_COLOR is set. Exit status: 0, whatever differs; 2 if there is no such model.
"""

import argparse
import os
import sys

from transformulary.cli import FORMAT_HELP
from transformulary.cli.describe import MODEL
from transformulary.errors import ConfigError
from transformulary.pseudocode import FORMATS

#: How a line of a diff begins -> its colour in a terminal.
COLOURS = {"+": "32", "-": "31", "@": "36"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("a", metavar="A", help=MODEL)
    parser.add_argument("b", metavar="B", help="the same")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of what is printed (default: text)")
    parser.add_argument(
        "--stored",
        metavar="FORMAT",
        action="append",
        help=f"{FORMAT_HELP}; given twice it is A's and B's, else that of each that is no preset",
    )


def run(args: argparse.Namespace) -> int:
    """Print what differs.  Raises ConfigError or CheckpointError: there is no such model."""
    from transformulary.pages import diff

    page = diff(args.a, args.b, args.format, _stored(args))
    print(coloured(page) if args.format == "text" and _in_colour() else page)
    return 0


def _stored(args: argparse.Namespace) -> str | tuple[str, str] | None:
    match args.stored:
        case None:
            return None
        case [one]:
            return str(one)
        case [one, other]:
            return str(one), str(other)
    raise ConfigError(f"--stored is given {len(args.stored)} times, for two models.")


def coloured(text: str) -> str:
    """A unified diff with the colours that terminals know."""
    lines = ((line, COLOURS.get(line[:1])) for line in text.splitlines())
    return "\n".join(f"\x1b[{colour}m{line}\x1b[0m" if colour else line for line, colour in lines)


def _in_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

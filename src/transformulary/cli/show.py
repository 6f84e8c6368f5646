"""transformulary show 10: the numbered pseudocode of the paper's algorithms, rendered from the oracle's source.

Algorithms 1 to 15 are the paper's.  Letters mark what published models add: 4r is the rotation of Llama's
queries and keys, 6r its RMSnorm; and what practice adds: 13d is Adam, 13e the schedule of the learning rate.
"""

import argparse
from typing import Any

from transformulary.errors import AlgorithmError, ConfigError
from transformulary.pseudocode import FORMATS, numbers, render


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("number", nargs="*", help="an algorithm, 1 to 15, or one with a letter such as 4r")
    parser.add_argument("--all", action="store_true", help="every algorithm, the lettered ones too (default: no)")
    parser.add_argument(
        "--choose",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="how training or inference is practised, schedule=linear or N_warmup=0 for example; repeat the option for "
        "several choices (default: the paper's, and of a lettered algorithm one form)",
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="of what is printed (default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the algorithms in the order asked for.

    Raises AlgorithmError for a number that none has, ConfigError for a choice that there is not.
    """
    if not args.number and not args.all:
        raise AlgorithmError("say which algorithm, `show 10` for example, or `show --all`.")
    choose = dict(map(_choice, args.choose))
    print(render(numbers() if args.all else args.number, format=args.format, choose=choose))
    return 0


def _choice(words: str) -> tuple[str, Any]:
    """NAME=VALUE, the value being of the kind that the choice is; whether there is such a choice is seen later."""
    from transformulary.pseudocode.notes import CHOICES

    name, equals, value = words.partition("=")
    if not equals:
        raise ConfigError(f"--choose {words}: a choice is NAME=VALUE, schedule=linear for example.")
    kind = type(CHOICES[name].default) if name in CHOICES else str
    try:
        return name, READ.get(kind, kind)(value)
    except (ValueError, KeyError):
        raise ConfigError(f"--choose {words}: {value!r} is not {NAMED[kind]}.") from None


#: How a value of each kind is read, and what the kind is called.
READ: dict[type, Any] = {
    bool: {"true": True, "false": False}.__getitem__,
    tuple: lambda value: tuple(map(int, filter(None, value.split(",")))),
}
NAMED = {bool: "true or false", tuple: "a list of ids such as 0,5", int: "a whole number", float: "a number"}

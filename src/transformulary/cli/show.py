"""transformulary show 10: the numbered pseudocode of the paper's algorithms, rendered from the oracle's source.

Algorithms 1 to 15 are the paper's.  Letters mark what published models add: 4r is the rotation of Llama's
queries and keys, 6r its RMSnorm.
"""

import argparse

from transformulary.errors import AlgorithmError
from transformulary.pseudocode import FORMATS, numbers, render


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("number", nargs="*", help="an algorithm, 1 to 15, or one with a letter such as 4r")
    parser.add_argument("--all", action="store_true", help="every algorithm, the lettered ones too (default: no)")
    parser.add_argument("--format", choices=FORMATS, default="text", help="of what is printed (default: text)")


def run(args: argparse.Namespace) -> int:
    """Print the algorithms in the order asked for.  Raises AlgorithmError for a number that none has."""
    if not args.number and not args.all:
        raise AlgorithmError("say which algorithm, `show 10` for example, or `show --all`.")
    print(render(numbers() if args.all else args.number, format=args.format))
    return 0

"""transformulary symbols [NAME]: what a symbol means, its shape, and what others call it

NAME may also be theirs: `symbols hidden_size` says that it is d_e.
"""

import argparse
import json
from dataclasses import asdict
from typing import Any

from transformulary.paper.meanings import MEANINGS
from transformulary.paper.symbols import SYMBOLS, Symbol, called, symbol


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="ours, LaTeX's or another library's (default: all)")
    parser.add_argument("--json", action="store_true", help="as JSON (default: text)")


def run(args: argparse.Namespace) -> int:
    """Print one symbol, or a table of all.  Raises ConfigError for a name that nobody uses."""
    from transformulary.tables import table

    found = list(SYMBOLS.values()) if args.name is None else list(called(args.name)) or [symbol(args.name)]
    if args.json:
        print(json.dumps([_object(one) for one in found], indent=1, ensure_ascii=False))
    elif args.name is None:
        print(table([one.name, one.unicode, one.space, one.meaning] for one in found))
    else:
        print("\n\n".join(map(_page, found)))
    return 0


def _object(one: Symbol) -> dict[str, Any]:
    return {**asdict(one), "others": one.others}


def _page(one: Symbol) -> str:
    from transformulary.tables import table

    said = [("LaTeX", one.latex), ("element of", one.space), *one.others.items()]
    said += [(f"in Algorithm {number}", meaning) for (number, name), meaning in MEANINGS.items() if name == one.name]
    spelled = one.name if one.unicode == one.name else f"{one.name} ({one.unicode})"
    return f"{spelled}: {one.meaning}\n" + table((f"  {who}", what) for who, what in said if what)

"""transformulary describe MODEL: the pseudocode of any model, and what it costs

Only the lines that this model executes remain, with its numbers filled in. Nothing but a config is read: no weights.
With --run, MODEL is a folder of `transformulary train`, and what a paper's appendix should say of it is printed: the
training algorithm with its data, order, batches, optimiser, schedule, steps and seeds, and the inference algorithm.
"""

import argparse
import json
from collections.abc import Callable
from typing import Any

from transformulary.pseudocode import FORMATS


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    from transformulary.cli._models import HELP

    parser.add_argument("model", metavar="MODEL", help=HELP)
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the pseudocode (default: text)")
    parser.add_argument(
        "--sizes",
        choices=("symbols", "numbers"),
        help="what the lines show (default: numbers, but symbols for an architecture)",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="of a model trained here: how it was trained, and how it generates, with all numbers (default: no)",
    )
    parser.add_argument("--json", action="store_true", help="config, counts and pseudocode as JSON (default: text)")


def run(args: argparse.Namespace) -> int:
    """Print one model.  Raises ConfigError or CheckpointError: there is none, or its config is not understood."""
    if args.run:
        return _print_run(args)
    from transformulary import __version__
    from transformulary.cli._counts import counts
    from transformulary.cli._models import named, numbers
    from transformulary.pseudocode import describe

    model = named(args.model)
    page = describe(model.config, numbers(model, args.sizes), args.format)
    costs = counts(model.config) if model.sized else {}
    if not args.json:
        print(f"{HEADS[args.format](_head(model, costs))}\n\n{page}")
        return 0
    config = {"kind": type(model.config).__name__, "config": model.config.to_dict()} if model.sized else {}
    printed = {**model.facts, **config, **costs, "pseudocode": page, "version": __version__}
    print(json.dumps(printed, indent=1, ensure_ascii=False))
    return 0


def _print_run(args: argparse.Namespace) -> int:
    """Print the run of a folder.  Raises CheckpointError or ConfigError: none is recorded, or symbols are asked for."""
    from transformulary import __version__
    from transformulary.cli._runs import run_of
    from transformulary.errors import ConfigError
    from transformulary.pseudocode import run

    if args.sizes == "symbols":
        raise ConfigError("--run prints the numbers of one run; leave --sizes symbols out.")
    found = run_of(args.model)
    page = run(found.config, found.practice, args.format)
    if args.json:
        printed = {"name": args.model, **found.facts(), "pseudocode": page, "version": __version__}
        print(json.dumps(printed, indent=1, ensure_ascii=False))
    else:
        head = f"{args.model}, as it was trained\n{found.as_text()}"
        print(f"{HEADS[args.format](head)}\n\n{page}")
    return 0


def _head(model: Any, costs: dict[str, Any]) -> str:
    """Name, source, notes and counts."""
    from textwrap import fill

    from transformulary.cli._counts import as_text

    facts = model.facts
    said = [f"{facts['title']} ({facts['name']})" if "title" in facts else facts["name"]]
    said += [fill(facts[key], 100) for key in ("source", "note") if facts.get(key)]
    said += [f"Sizes: {', '.join(facts['sizes'])}"] if "sizes" in facts else []
    said += [as_text(costs, model.preset.published if model.preset else "")] if costs else []
    return "\n".join(said)


def _commented(head: str) -> str:
    return "\n".join(f"% {line}" for line in head.splitlines())


#: Format -> how the head stands there.
HEADS: dict[str, Callable[[str], str]] = {
    "text": str,
    "markdown": lambda head: f"```text\n{head}\n```",
    "latex": _commented,
    "html": lambda head: f"<!--\n{head.replace('--', '- -')}\n-->",
}

"""transformulary describe MODEL: the pseudocode of any model, and what it costs

Only the lines that this model executes remain, with its numbers filled in. Nothing but a config is read: no weights,
but of an encoder the names of its tensors, where config.json does not say what stands on top of its layers.
With --run, MODEL is a folder of `transformulary train`, and what a paper's appendix should say of it is printed: the
training algorithm with its data, order, batches, optimiser, schedule, steps and seeds, and the inference algorithm.
"""

import argparse
import json

from transformulary.cli import FORMAT_HELP
from transformulary.pseudocode import FORMATS

#: What MODEL may be.
MODEL = """a preset or an architecture that `transformulary presets` lists, a folder, a config.json, a name in the
Hugging Face cache (org/name), or hf://org/name on its hub"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--format", choices=FORMATS, default="text", help="of the pseudocode (default: text)")
    parser.add_argument("--stored", metavar="FORMAT", help=FORMAT_HELP)
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
    from transformulary.pages import named, page
    from transformulary.pseudocode.heads import counts

    model = named(args.model, args.stored)
    shown = page(model, {"numbers": True, "symbols": False}.get(args.sizes), args.format)
    if not args.json:
        print(shown)
        return 0
    costs = counts(model.config, model.top) if model.sized else {}
    config = {"kind": type(model.config).__name__, "config": model.config.to_dict()} if model.sized else {}
    printed = {**model.facts, **config, **costs, "pseudocode": shown, "version": __version__}
    print(json.dumps(printed, indent=1, ensure_ascii=False))
    return 0


def _print_run(args: argparse.Namespace) -> int:
    """Print the run of a folder.  Raises CheckpointError or ConfigError: none is recorded, or symbols are asked for."""
    from transformulary import __version__
    from transformulary.cli._runs import run_of
    from transformulary.errors import ConfigError
    from transformulary.pseudocode import run
    from transformulary.pseudocode.nodes import Head

    if args.sizes == "symbols":
        raise ConfigError("--run prints the numbers of one run; leave --sizes symbols out.")
    found = run_of(args.model)
    page = run(found.config, found.practice, args.format, Head(f"{args.model}, as it was trained", found.said()))
    if args.json:
        printed = {"name": args.model, **found.facts(), "pseudocode": page, "version": __version__}
        print(json.dumps(printed, indent=1, ensure_ascii=False))
    else:
        print(page)
    return 0

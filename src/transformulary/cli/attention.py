"""transformulary attention MODEL --prompt TEXT --out FILE: what every head looks at, as one HTML page or one PNG

The page needs no network and no other file: choose a layer and a head, point at a weight. Rows are
queries (the token that asks), columns are keys (the token that is asked).
"""

import argparse
import json
from pathlib import Path

from transformulary.cli import MODEL_HELP
from transformulary.errors import CheckpointError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument("--prompt", metavar="TEXT", required=True, help="what the model reads, at most ell_max tokens")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("attention.html"), help="FILE.html or FILE.png (%(default)s)"
    )
    parser.add_argument("--layer", metavar="l", type=int, help="one layer only, counted from 1 (default: all)")
    parser.add_argument("--head", metavar="h", type=int, help="one head only, counted from 1 (default: all)")
    parser.add_argument(
        "--bos",
        action=argparse.BooleanOptionalAction,
        help="begin the prompt with bos_token (default: if the vocabulary has one that is not its eos_token too)",
    )
    parser.add_argument("--json", action="store_true", help="say what was written as JSON (default: its name)")


def run(args: argparse.Namespace) -> int:
    """Write the file and print its name."""
    from transformulary.view import attention, suffix

    suffix(args.out)  # a wrong name is told before the model is loaded
    from transformulary.models import decoder, load
    from transformulary.tokens import why_none

    loaded = load(args.model)
    if loaded.tokenizer is None:
        raise CheckpointError(why_none(loaded.described))
    view = attention(decoder(loaded), loaded.tokenizer, args.prompt, args.bos).only(args.layer, args.head)
    view.save(args.out)
    told = {"file": str(args.out), "tokens": view.tokens, "layers": list(view.layers), "heads": list(view.heads)}
    print(json.dumps(told) if args.json else args.out)
    return 0

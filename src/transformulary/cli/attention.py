"""transformulary attention MODEL --prompt TEXT --out FILE: what every head looks at, as one HTML page or one PNG

The page needs no network and no other file: choose a layer and a head, point at a weight. Rows are
queries (the token that asks), columns are keys (the token that is asked).  Of a decoder and an encoder there is one
kind of attention; of an encoder-decoder three, and two texts: --context is what it reads, --prompt what it answers.
"""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from transformulary.cli import FORMAT_HELP, MODEL_HELP

if TYPE_CHECKING:
    from transformulary.view import Attention, Stack


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    parser.add_argument(
        "--prompt",
        metavar="TEXT",
        required=True,
        help="what the model reads, at most ell_max tokens; of an encoder-decoder, what it has answered so far",
    )
    parser.add_argument(
        "--context", metavar="TEXT", help="of an encoder-decoder, the text that it answers (default: none)"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("attention.html"), help="FILE.html or FILE.png (%(default)s)"
    )
    parser.add_argument("--layer", metavar="l", type=int, help="one layer only, counted from 1 (default: all)")
    parser.add_argument("--head", metavar="h", type=int, help="one head only, counted from 1 (default: all)")
    parser.add_argument(
        "--kind",
        choices=("encoder", "decoder", "cross"),
        help="of an encoder-decoder, one kind of attention only (default: all three)",
    )
    parser.add_argument(
        "--bos",
        action=argparse.BooleanOptionalAction,
        help="begin the prompt with bos_token (default: if the vocabulary has one that is not its eos_token too)",
    )
    parser.add_argument("--format", metavar="FORMAT", help=FORMAT_HELP)
    parser.add_argument("--json", action="store_true", help="say what was written as JSON (default: its name)")


def run(args: argparse.Namespace) -> int:
    """Write the file and print its name."""
    from transformulary.view import attention, suffix

    suffix(args.out)  # a wrong name is told before the model is loaded
    from transformulary.models import load

    seen = attention(load(args.model, args.format), args.prompt, args.bos, args.context)
    seen = seen.only(args.layer, args.head, args.kind)
    seen.save(args.out)
    print(json.dumps(_told(seen, args.out)) if args.json else args.out)
    return 0


def _told(seen: "Attention", file: Path) -> dict[str, object]:
    """What is seen; of a model with several kinds of attention, for each of them."""
    told = [_told_of(stack) for stack in seen.stacks]
    return {"file": str(file)} | (told[0] if len(told) == 1 else {"attention": told})


def _told_of(stack: "Stack") -> dict[str, object]:
    keys = {} if stack.keys is stack.queries else {"keys": stack.keys}
    return {
        "kind": stack.kind,
        "tokens": stack.queries,
        **keys,
        "layers": list(stack.layers),
        "heads": list(stack.heads),
    }

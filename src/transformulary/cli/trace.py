"""transformulary trace MODEL --tokens 1,2,3 --out DIR: what every line of a model computes, as files with an index

MODEL is run by the oracle, in float64 and one layer at a time. DIR/index.json says of every value where it is, its
shape and axes, the line that computes it, and what transformers, TransformerLens and llama.cpp call it.

A PATH names values: 10.8[l=2]:GELU is what GELU gives in line 8 of Algorithm 10, layer 2; * stands for any index or
name, ** for everything below: --at '10.6[l=*]/5.2[h=1]/4.6:softmax' --at '10.6[l=3]/**'
"""

import argparse
import json
from typing import TYPE_CHECKING, Any

from transformulary.cli import MODEL_HELP
from transformulary.cli._reading import given_by, reading

if TYPE_CHECKING:
    from transformulary.formats import Described


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help=MODEL_HELP)
    reading(parser)
    add("--out", metavar="DIR", required=True, help="the folder to write, which must not exist, or be empty")
    add(
        "--at",
        metavar="PATH",
        action="append",
        default=[],
        help="only these values; may be repeated (default: every line, without the steps within each token's column)",
    )
    add("--all", action="store_true", help="every value there is, the steps within columns as well (default: no)")
    add(
        "--precision",
        choices=("float64", "float32", "bfloat16", "float16"),
        default="float64",
        help="round the result of every operation to this (default: float64)",
    )
    add(
        "--format",
        choices=("npz", "safetensors", "f32"),
        default="npz",
        help="values.npz, values.safetensors, or one raw file of float32 for every value (default: npz)",
    )
    add(
        "--bos",
        action=argparse.BooleanOptionalAction,
        help="begin the text with bos_token (default: if the vocabulary has one that is not its eos_token too)",
    )
    add("--json", action="store_true", help="the index on stdout (default: a summary)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 written."""
    from transformulary import oracle
    from transformulary.formats import describe, theta_stored
    from transformulary.tokens import Reader, load_tokenizer, start_token
    from transformulary.trace import trace

    described = describe(args.model)
    texts = {name: text for name in ("text", "context") if (text := getattr(args, name)) is not None}
    tokenizer = load_tokenizer(described) if texts else None
    start = start_token(described)
    given = Reader(described.config, tokenizer, start, described.source.path).read(given_by(args))
    index = trace(
        oracle.lazy_theta(described.config, theta_stored(described), gives=described.gives),
        described.config,
        given,
        args.out,
        at=["**"] if args.all else args.at,
        precision=args.precision,
        format=args.format,
        about={"model": args.model, "model_type": described.format.model_type, **_architecture(described), **texts},
    )
    print(json.dumps(index, ensure_ascii=False) if args.json else _summary(index, args.out))
    return 0


def _architecture(described: "Described") -> dict[str, str]:
    """What its config.json calls the class of a model in `transformers`, if it does."""
    named = described.source.config.get("architectures")
    return {"architecture": named[0]} if isinstance(named, list) and named and isinstance(named[0], str) else {}


def _summary(index: dict[str, Any], out: str) -> str:
    files = len({value["file"] for value in index["values"]})
    of = " and ".join(
        f"{n} token{'s' * (n != 1)}" for n in (len(index[x]) for x in ("context", "tokens") if x in index)
    )
    return f"{out}: {len(index['values'])} values of {of} in {files} {'file' if files == 1 else 'files'}"

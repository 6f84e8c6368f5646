"""transformulary vectors write OUT: golden vectors, from which a program in any language learns whether it is right

OUT becomes a folder with index.json and one safetensors file for every case of Algorithms 1-10, 14 and 15: inputs,
parameters, every value of every line, and the error that rounding allows.  docs/porting.md says how to use them.
"""

import argparse
import json
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the action and its options."""
    actions = parser.add_subparsers(required=True, metavar="write")
    write = actions.add_parser("write", help="write them")
    write.add_argument("out", metavar="OUT", help="the folder to make; it must not exist")
    write.add_argument("--json", action="store_true", help="say what was written as JSON (default: one line)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 written."""
    from transformulary.conform.vectors import read_vectors, write_vectors

    write_vectors(args.out)
    cases = read_vectors(args.out)
    values = sum(len(case.paths) for case in cases.values())
    size = sum(file.stat().st_size for file in Path(args.out).iterdir())
    if args.json:
        print(json.dumps({"folder": str(args.out), "cases": list(cases), "values": values, "bytes": size}))
    else:
        print(f"{args.out}: {len(cases)} cases, {values} values, {size / 1e6:.1f} MB")
    return 0

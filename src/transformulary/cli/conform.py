"""transformulary conform CANDIDATE --against MODEL: which line of an implementation is wrong, and how

CANDIDATE is one of
  FILE.py       functions by the names of the paper (attention, layer_norm, mha, mlp, model...), or load(folder),
                which returns a PyTorch model; docs/conform.md shows both
  a folder of dumps, or one .npz or .safetensors file: values by path, from a program in any language
  a folder with a checkpoint, or a GGUF file
  transformers, ours   what that library computes from the MODEL of --against
Against golden vectors it is a folder of dumps, one folder or file for a case; docs/porting.md shows it.

The answer stands in the last lines. Exit status: 0 everything seen agrees, 1 something differs, 2 no comparison.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from transformulary.cli import MODEL_HELP
from transformulary.cli._patience import patience
from transformulary.cli._reading import reading

if TYPE_CHECKING:
    from transformulary.conform.report import Report


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("candidate", metavar="CANDIDATE", help="what is compared (see above)")
    parser.add_argument(
        "--against", metavar="MODEL", default="gpt2",
        help=f"what is right, {MODEL_HELP}; or paper, gpt2, llama, transformer, bert, marian, t5: a tiny one with "
        "random parameters; "
        "or the folder that `vectors write` wrote (default: %(default)s)",
    )  # fmt: skip
    reading(parser, "those of a trace, or a few")
    parser.add_argument(
        "--places",
        metavar="FILE.toml",
        help="where a PyTorch model shows its lines (default: by class); [lower], of dumps too: what is in float32",
    )
    parser.add_argument(
        "--rename",
        metavar="FILE.json",
        type=Path,
        help="names of dumps: {theirs: path; null: leave it out}; {l} in theirs counts layers from 0, {l+1} from 1 "
        "(default: paths)",
    )
    parser.add_argument(
        "--tokens-as", choices=("columns", "rows"), help="what tokens are in dumps (default: as the shapes say)"
    )
    parser.add_argument(
        "--precision", choices=("float64", "float32", "bfloat16", "float16"),
        help="what dumps were computed in, if they are stored in more (default: as they are stored)",
    )  # fmt: skip
    parser.add_argument(
        "--no-decoding", action="store_true", help="leave out cache, batches and padding (default: all)"
    )
    parser.add_argument("--propose", action="store_true", help="only draft the table of places (default: compare)")
    parser.add_argument("--json", action="store_true", help="print the report as JSON (default: text)")
    parser.add_argument("--markdown", metavar="FILE", type=Path, help="write it as Markdown too (default: no)")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write it as JUnit's XML too (default: no)")


def run(args: argparse.Namespace) -> int:
    """Print the report; the exit status is its verdict."""
    from transformulary.conform.vectors import has_vectors
    from transformulary.files import check_file, write_atomically

    if args.propose:
        return _propose(args)
    for file in filter(None, (args.markdown, args.junit)):
        check_file(file)
    with patience("still comparing, and looking for what explains the differences"):
        report = _of_vectors(args) if has_vectors(args.against) else _of_model(args)
    if args.markdown:
        write_atomically(args.markdown, report.markdown())
    if args.junit:
        write_atomically(args.junit, report.junit())
    print(json.dumps(report.to_dict(), indent=2) if args.json else report.text())
    return report.status


def _of_model(args: argparse.Namespace) -> "Report":
    from transformulary.conform.candidates.places import read_table
    from transformulary.conform.run import conform
    from transformulary.formats.strict import read_json

    return conform(
        args.candidate,
        args.against,
        tokens=args.tokens,
        text=args.text or "",
        context=args.context or "",
        context_tokens=args.context_tokens,
        segments=args.segments,
        table=read_table(args.places) if args.places else None,
        rename=read_json(args.rename) if args.rename else None,
        orientation=args.tokens_as,
        precision=args.precision,
        decoding=not args.no_decoding,
    )


def _of_vectors(args: argparse.Namespace) -> "Report":
    from transformulary.conform.ported import check_said, conform_vectors
    from transformulary.formats.strict import read_json

    options = ("text", "tokens", "context", "context_tokens", "segments", "places")
    check_said({f"--{option.replace('_', '-')}": bool(getattr(args, option)) for option in options})
    rename = read_json(args.rename) if args.rename else None
    return conform_vectors(args.candidate, args.against, rename, args.tokens_as or "columns", args.precision)


def _propose(args: argparse.Namespace) -> int:
    from transformulary.conform.candidates.propose import propose

    draft = propose(args.candidate, args.against)
    print(draft)
    print("Save this as places.toml, correct it, and give it to --places places.toml.", file=sys.stderr)
    return 0

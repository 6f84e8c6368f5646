"""transformulary evaluate MODEL FILE...: nats, perplexity, accuracy, BLEU and chrF on texts of yours.

  transformulary evaluate MODEL text.txt                             a decoder or an encoder: each file is a text
  transformulary evaluate MODEL --sources a.txt --targets b.txt      an encoder-decoder: line n of b answers line n of a
  transformulary evaluate MODEL texts.txt --labels labels.txt        a classifier: a text and a label per line

Of a decoder, every token is predicted from those before it in its window; of an encoder, every token is hidden in turn
and predicted from all others; of an encoder-decoder, every token of the target from those before it and the source.
Its own translations, made as `translate` makes them, are compared with the targets by BLEU and chrF.
"""

import argparse
import json
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING

from transformulary.cli import FORMAT_HELP, MODEL_HELP, standard_input
from transformulary.cli._texts import lines, loaded_model
from transformulary.errors import DataError, require
from transformulary.files import read_text, to_text
from transformulary.tables import table

if TYPE_CHECKING:
    from transformulary.measure import Measured, Score
    from transformulary.models import Loaded


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("model", metavar="MODEL", help=MODEL_HELP)
    add(
        "file",
        nargs="*",
        metavar="FILE",
        help="a text, or with --labels texts, one per line; folders: their *.txt (default: standard input)",
    )
    add("--labels", metavar="FILE", help="the class of each text, its name or number, one per line (default: none)")
    add("--sources", metavar="FILE", help="texts to be answered, one per line (default: none)")
    add("--targets", metavar="FILE", help="the right answers, one per line (default: none)")
    add("--context", type=int, metavar="N", help="tokens that are read at once (default: the model's ell_max)")
    add("--stride", type=int, metavar="N", help="tokens from one window to the next (default: --context, no overlap)")
    add("--no-translate", action="store_true", help="no BLEU and chrF, which take most of the time (default: both)")
    add("--batch", type=int, default=4, metavar="N", help="windows or texts that are computed together (default: 4)")
    add("--device", default="auto", help="cpu, cuda, mps, ... (default: auto, an accelerator if there is one)")
    add("--format", metavar="FORMAT", help=FORMAT_HELP)
    add(
        "--json",
        action="store_true",
        help="one JSON object instead of a table, null for what is infinite (default: no)",
    )


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "evaluating a model")
    from transformulary.measure import evaluate

    texts, answers = _read(args)
    translating = args.targets and not args.no_translate
    if translating:
        require("sacrebleu", "eval", "BLEU and chrF (or say --no-translate)")
    loaded = loaded_model(args)
    measured = evaluate(loaded, texts, answers, context=args.context, stride=args.stride, batch=args.batch)
    scores = _scores(loaded, texts, answers, args.batch) if translating else []
    print(_json(measured, scores) if args.json else _table(measured, scores))
    return 0


def _read(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """The texts, and what answers them."""
    from transformulary.data import read_texts

    if bool(args.sources) != bool(args.targets):
        raise DataError("--sources and --targets belong together: line n of one answers line n of the other.")
    if args.sources and (args.file or args.labels):
        raise DataError("give files of texts, or --sources and --targets, one or the other.")
    if args.sources:
        return lines(read_text(args.sources)), lines(read_text(args.targets))
    texts = read_texts(args.file) if args.file else [_typed()]
    if args.labels:
        return [line for text in texts for line in lines(text)], lines(read_text(args.labels))
    return texts, []


def _typed() -> str:
    """The text on standard input.  Raises DataError where there is none."""
    text = to_text(standard_input("Name a file."), "standard input")
    if not text.strip():
        raise DataError("standard input is empty: there is no text to evaluate.")
    return text


def _scores(loaded: "Loaded", texts: list[str], answers: list[str], batch: int) -> "list[Score]":
    from transformulary.generate import translate
    from transformulary.measure import similarity

    return similarity(translate(loaded, texts, seed=0, batch=batch), answers)


def _json(measured: "Measured", scores: "list[Score]") -> str:
    names = ("nats_each", "nats_per_byte", "perplexity", "accuracy")
    told = asdict(measured) | {"bytes": measured.bytes or None} | {name: getattr(measured, name) for name in names}
    numbers = {name: None if one == inf else one for name, one in told.items()}  # JSON has no infinity
    return json.dumps(numbers | {"scores": [*map(asdict, scores)]})


def _table(measured: "Measured", scores: "list[Score]") -> str:
    rows: list[tuple[object, ...]] = [
        (measured.what, measured.n, ""),
        (f"nats per {measured.what[:-1]}", f"{measured.nats_each:.4f}", ""),
        ("perplexity", f"{measured.perplexity:.4g}", ""),
        ("accuracy", f"{measured.accuracy:.4f}", ""),
    ]
    if measured.nats_per_byte is not None:
        rows.insert(2, ("nats per byte", f"{measured.nats_per_byte:.4f}", ""))
    return table([*rows, *((one.name, f"{one.score:.2f}", one.signature) for one in scores)], right=(1,))

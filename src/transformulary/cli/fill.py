"""transformulary fill MODEL [TEXT...]: what a masked language model takes masked tokens for, with probabilities.

Algorithm 9.  A text has the mask token of the vocabulary, [MASK] say, where a token is to be guessed; --each masks
every token in turn instead, and counts how many are recovered.

  transformulary fill MODEL "The capital of France is [MASK]."
  transformulary fill MODEL --each --file texts.txt
"""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from transformulary.cli._texts import inputs_arguments, loaded_model, noted, read_inputs, shown, texts_arguments
from transformulary.errors import require
from transformulary.tables import table

if TYPE_CHECKING:
    from transformulary.encode import Choice, Filled, Masked


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    texts_arguments(parser, "a text with masks")
    inputs_arguments(parser)
    parser.add_argument("--each", action="store_true", help="mask each token in turn (default: ask for the masks)")
    parser.add_argument("--k", type=int, default=5, metavar="K", help="tell the K most probable; 0 = all (default: 5)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "guessing masked tokens")
    from transformulary.encode import filled

    texts = read_inputs(args)
    loaded = noted(loaded_model(args), texts, special=True)
    for text, one in zip(texts, filled(loaded, texts, args.k, args.each, args.batch), strict=True):
        if args.json:
            recovered = {"recovered": one.recovered if args.each else None}
            print(json.dumps({"text": text} | asdict(one) | recovered, ensure_ascii=False))
        else:
            print("\n".join([shown(text), *_told(one, args.each)]))
    return 0


def _told(filled: "Filled", each: bool) -> list[str]:
    told = [table([_row(masked) for masked in filled.masked])]
    return [*told, f"  {filled.recovered} of {len(filled.masked)} tokens recovered"] if each else told


def _row(masked: "Masked") -> tuple[str, ...]:
    was = () if masked.was is None else (_one(masked.was), "is recovered:" if masked.recovered else "is taken for:")
    return f"  t = {masked.t}", *was, "  ".join(map(_one, masked.choices))


def _one(choice: "Choice") -> str:
    return f"{choice.name!r} {choice.p:.3f}"

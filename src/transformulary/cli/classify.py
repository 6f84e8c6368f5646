"""transformulary classify MODEL [TEXT...]: the classes of texts, the most probable first, with probabilities.

Algorithm 9 up to line 9, then 9c.  Classes are called what the model's config.json calls them (id2label).

  transformulary classify MODEL "I had a wonderful time."
  transformulary classify MODEL --pairs < lines_of_two_texts_with_a_tab.txt
"""

import argparse
import json
from dataclasses import asdict

from transformulary.cli._texts import inputs_arguments, loaded_model, noted, read_inputs, shown, texts_arguments
from transformulary.errors import require
from transformulary.tables import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    texts_arguments(parser, "a text to be classified")
    inputs_arguments(parser)
    parser.add_argument("--k", type=int, default=5, metavar="K", help="tell the K most probable; 0 = all (default: 5)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "classifying texts")
    from transformulary.encode import classified

    texts = read_inputs(args)
    loaded = noted(loaded_model(args), texts)
    for text, classes in zip(texts, classified(loaded, texts, args.k, args.batch), strict=True):
        if args.json:
            print(json.dumps({"text": text, "classes": [*map(asdict, classes)]}, ensure_ascii=False))
        else:
            told = "  ".join(f"{printable(one.name)} {one.p:.3f}" for one in classes)
            print(f"{shown(text)}\n  {told}")
    return 0

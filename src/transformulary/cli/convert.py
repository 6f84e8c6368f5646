"""transformulary convert IN OUT: write a model anew: in one file, in another format or precision.

OUT gets config.json, model.safetensors, generation_config.json and the files of the vocabulary, as the `transformers`
library reads them: the same numbers under the names of the format that IN has, or of --to where that can say the same.
IN is read as everywhere: shards, pickles, GGUF (dequantised), nanoGPT's ckpt.pt.  OUT appears whole or not at all.
"""

import argparse
import json

from transformulary.cli import FORMAT_HELP, MODEL_HELP
from transformulary.errors import require


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("model", metavar="IN", help=MODEL_HELP)
    add("out", metavar="OUT", help="a new folder")
    add("--format", metavar="FORMAT", help=FORMAT_HELP)
    add("--to", metavar="FORMAT", help="the model_type to be written (default: that of IN, if it is written at all)")
    add(
        "--dtype",
        metavar="DTYPE",
        help="float64, float32, float16 or bfloat16; a number that it cannot hold is an error (default: that of IN)",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace the model that OUT holds: its config, vocabulary and files of parameters (default: no)",
    )
    add("--json", action="store_true", help="one JSON object instead of a line of text (default: no)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "writing a model")
    from transformulary.models import convert
    from transformulary.paper import number_of_parameters

    written = convert(args.model, args.out, args.to, args.dtype, args.overwrite, args.format)
    form, dtype, count = written.format.model_type, written.dtype, number_of_parameters(written.config, written.top)
    if args.json:
        print(json.dumps({"out": args.out, "format": form, "dtype": dtype, "parameters": count}))
    else:
        print(f"{args.out}: {form}, {count:,} parameters, {dtype}")
    return 0

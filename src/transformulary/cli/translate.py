"""transformulary translate MODEL [TEXT...]: what an encoder-decoder answers to texts, one line each.

Algorithm 15: translations, summaries, products of reactions, whatever the model was trained for.

  transformulary translate MODEL "Where is the station?"
  transformulary translate MODEL --beam 4 --file sentences.txt > translated.txt
  transformulary translate MODEL --temperature 0 < sentences.txt

Beam search takes the place of line 6.  The score of an answer of n tokens, the one that ends it among them, is the sum
of the logarithms of their probabilities, divided by n^alpha.

What you do not give is taken from the model's generation_config.json, or, if it has none, from its config.json:
num_beams, length_penalty (alpha), early_stopping (--until), do_sample (--sample), temperature, top_k, top_p,
max_new_tokens or max_length.  The defaults below are for what these do not say.  Which tokens begin and end an answer,
and which it must not have, is said there as well; what is not understood is refused.
"""

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from transformulary.cli import at_least_one
from transformulary.cli._texts import inputs_arguments, loaded_model, noted, read_inputs, texts_arguments
from transformulary.errors import ConfigError, require
from transformulary.paper.practice import MOST_BEAMS, UNTIL

if TYPE_CHECKING:
    from transformulary.formats import AnswerDefaults
    from transformulary.generate import Beam, Sampling


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    texts_arguments(parser, "a text to be answered")
    inputs_arguments(parser)
    add = parser.add_argument
    add(
        "--beam",
        type=int,
        metavar="N",
        help=f"beam search with N beginnings, {MOST_BEAMS} at most; 1 = greedy (default: 1)",
    )
    add("--alpha", type=float, metavar="A", help="of beam search: the power of the length (default: 1)")
    add("--until", choices=UNTIL, help="of beam search: when it ends (default: likely; see docs/translate.md)")
    add("--sample", action="store_true", help="draw each token, as the paper does (default: no)")
    add("--temperature", type=float, metavar="TAU", help="of --sample, which this implies; 0 = greedy (default: 1)")
    add(
        "--top-k",
        type=int,
        metavar="K",
        help="of --sample, which this implies: only the K most probable tokens; 0 = all (default: 0)",
    )
    add(
        "--top-p",
        type=float,
        metavar="P",
        help="of --sample, which this implies: only the most probable tokens that together have probability P "
        "(default: 1, all)",
    )
    add("--seed", type=int, metavar="N", help="makes --sample repeatable (default: different every time)")
    add("--max", type=at_least_one, metavar="N", help="how many tokens an answer has at most (default: 200)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "translating texts")
    from transformulary.generate.translation import answer_defaults, encoder_decoder, translated

    texts, loaded = read_inputs(args), loaded_model(args)
    encoder_decoder(noted(loaded, texts), "translate")
    how = _way(args, answer_defaults(loaded))
    found = translated(loaded, texts, how, args.max, args.seed, args.batch)
    for text, one in zip(texts, found, strict=True):
        if args.json:
            print(json.dumps({"source": text, **asdict(one)}, ensure_ascii=False), flush=True)
        else:
            print(" ".join(one.text.splitlines()), flush=True)
    return 0


def _way(args: argparse.Namespace, defaults: "AnswerDefaults") -> "Sampling | Beam | None":
    """How to answer, from what is asked for and what the model's files say."""
    from transformulary.generate import Sampling

    filters = _given(tau=args.temperature, top_k=args.top_k, top_p=args.top_p)
    searching = _given(N_beam=args.beam, alpha=args.alpha, until=args.until)
    draws = args.sample or bool(filters)
    if draws and searching:
        raise ConfigError(
            "--beam searches for an answer; --sample, --temperature, --top-k and --top-p draw one: say one of the two."
        )
    if draws:
        return Sampling(**vars(defaults.filters) | filters)
    beam = replace(defaults.beam, **searching)
    return None if not searching else beam if beam.N_beam > 1 else Sampling(tau=0)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}

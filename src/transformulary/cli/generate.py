"""transformulary generate FOLDER --prompt TEXT: continue a text with a trained model.

Algorithm 14.  The text is written while it is generated; it ends after --tokens tokens, at the end of a text,
or before the first stop string.  Filters apply in this order: temperature, top-k, top-p.
"""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from transformulary.errors import CheckpointError, require

if TYPE_CHECKING:
    from transformulary.generate import Continuation
    from transformulary.models import Loaded


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="a model with its tokenizer, as `transformulary train` writes it")
    add("--prompt", default="", metavar="TEXT", help="the text to continue (default: '', the beginning of a text)")
    add("--tokens", type=int, default=200, metavar="N", help="how many tokens to generate at most (default: 200)")
    add(
        "--temperature",
        type=float,
        default=1.0,
        metavar="TAU",
        help="0 = always the most probable token, 1 = the model's own distribution, inf = any token (default: 1)",
    )
    add("--top-k", type=int, default=0, metavar="K", help="only the K most probable tokens; 0 = all (default: 0)")
    add(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="only the most probable tokens that together have probability P (default: 1, all)",
    )
    add("--seed", type=int, metavar="N", help="makes the text repeatable (default: different every time)")
    add("--stop", action="append", default=[], metavar="S", help="end before this text; up to 4 times (default: none)")
    add(
        "--bos",
        action=argparse.BooleanOptionalAction,
        help="begin the prompt with bos_token (default: if the vocabulary has one that is not its eos_token too)",
    )
    add(
        "--crop",
        action="store_true",
        help="go on beyond ell_max, seeing the last ell_max tokens, computed anew for each (default: stop there)",
    )
    add("--json", action="store_true", help="one JSON object when it is done, instead of the text (default: no)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    require("torch", "torch", "generating text")
    from transformulary import models

    continuation = _continuation(models.load(args.folder), args)
    pieces = []
    for piece in continuation:
        pieces.append(piece)
        if not args.json:
            print(piece, end="", flush=True)
    print(_summary(continuation, args.prompt, "".join(pieces)) if args.json else "")
    return 0


def _continuation(loaded: "Loaded", args: argparse.Namespace) -> "Continuation":
    from transformulary.generate import Continuation, Sampling

    if loaded.tokenizer is None:
        raise CheckpointError(
            f"{args.folder} has no tokenizer.json, so a text has no token ids. Put it beside the model."
        )
    sampling = Sampling(tau=args.temperature, top_k=args.top_k, top_p=args.top_p)
    continuation = Continuation(
        loaded.model,
        loaded.tokenizer,
        args.prompt,
        args.tokens,
        sampling,
        seed=args.seed,
        eos=_eos(loaded),
        stop=args.stop,
        bos=args.bos,
        crop=args.crop,
    )
    _note(loaded, len(continuation.prompt) + args.tokens)
    return continuation


def _eos(loaded: "Loaded") -> list[int] | None:
    """The ids that generation_config.json says end a text; None if it does not say."""
    eos = loaded.generation.get("eos_token_id")
    return [eos] if isinstance(eos, int) else eos


def _note(loaded: "Loaded", ell: int) -> None:
    ell_max = loaded.model.config.ell_max
    if loaded.model.longest > ell_max and ell > ell_max:
        print(f"note: up to {ell} tokens, and the model was made for ell_max = {ell_max}.", file=sys.stderr)


def _summary(continuation: "Continuation", prompt: str, text: str) -> str:
    return json.dumps(
        {
            "prompt": prompt,
            "text": text,
            "prompt_tokens": continuation.prompt,
            "tokens": continuation.tokens,
            "finish_reason": continuation.finish_reason,
        },
        ensure_ascii=False,
    )

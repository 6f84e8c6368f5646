"""transformulary generate MODEL --prompt TEXT: continue a text with a trained model.

Algorithm 14.  What continues the prompt is written while it is generated, without the prompt; it ends after --max
tokens, at the end of a text, or before the first stop string.  Filters apply in this order: temperature, top-k, top-p.

What you do not give is taken from the model's generation_config.json: temperature, top_k, top_p, do_sample (false is
temperature 0), max_new_tokens, eos_token_id.  The defaults below are for what it does not say.  A key there that
changes the text in another way (num_beams, repetition_penalty, ...) is refused.
"""

import argparse
import json
import sys
from typing import TYPE_CHECKING

from transformulary.cli import FORMAT_HELP, MODEL_HELP
from transformulary.errors import CheckpointError, ConfigError, require

if TYPE_CHECKING:
    from transformulary.generate import Continuation
    from transformulary.models import Loaded
    from transformulary.tokens import Tokenizer

#: How many tokens are generated at most where nobody says.
TOKENS = 200


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("model", metavar="MODEL", help=MODEL_HELP)
    add("--prompt", default="", metavar="TEXT", help="the text to continue (default: '', the beginning of a text)")
    add(
        "--chat",
        action="store_true",
        help="the prompt is a message: the model's chat template is put around it (default: no)",
    )
    add("--system", metavar="TEXT", help="with --chat: a message of the role system before it (default: none)")
    add("--max", "--tokens", type=int, metavar="N", help=f"how many tokens to generate at most (default: {TOKENS})")
    add(
        "--temperature",
        type=float,
        metavar="TAU",
        help="0 = always the most probable token, 1 = the model's own distribution, inf = any token (default: 1)",
    )
    add("--top-k", type=int, metavar="K", help="only the K most probable tokens; 0 = all (default: 0)")
    add(
        "--top-p",
        type=float,
        metavar="P",
        help="only the most probable tokens that together have probability P (default: 1, all)",
    )
    add("--format", metavar="FORMAT", help=FORMAT_HELP)
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

    continuation = _continuation(models.load(args.model, args.format), args)
    pieces = []
    for piece in continuation:
        pieces.append(piece)
        if not args.json:
            print(piece, end="", flush=True)
    print(_summary(continuation, args.prompt, "".join(pieces)) if args.json else "")
    return 0


def _continuation(loaded: "Loaded", args: argparse.Namespace) -> "Continuation":
    from transformulary import models
    from transformulary.formats import Defaults
    from transformulary.generate import Continuation, Sampling
    from transformulary.tokens import why_none

    if args.system is not None and not args.chat:
        raise ConfigError("--system is a message; say --chat as well.")
    model = models.decoder(loaded)
    if loaded.tokenizer is None:
        raise CheckpointError(why_none(loaded.described))
    N_V, where = model.config.N_V, f"{args.model}/generation_config.json"
    defaults = Defaults.read(loaded.generation, N_V, where)
    ell_gen = TOKENS if defaults.ell_gen is None else defaults.ell_gen
    ell_gen = ell_gen if args.max is None else args.max
    given = {"tau": args.temperature, "top_k": args.top_k, "top_p": args.top_p}
    sampling = Sampling(**vars(defaults.filters) | {name: value for name, value in given.items() if value is not None})
    continuation = Continuation(
        model,
        loaded.tokenizer,
        _conversation(loaded.tokenizer, args) if args.chat else args.prompt,
        ell_gen,
        sampling,
        seed=args.seed,
        eos=defaults.eos,
        stop=args.stop,
        bos=args.bos,
        crop=args.crop,
    )
    _note(loaded, len(continuation.prompt) + ell_gen)
    return continuation


def _conversation(tokenizer: "Tokenizer", args: argparse.Namespace) -> list[int]:
    from transformulary.tokens import chat

    if args.bos is not None:
        raise ConfigError("--bos and --no-bos say how a text begins; with --chat the model's chat template says it.")
    messages = [("system", args.system)] if args.system is not None else []
    return chat(tokenizer, [{"role": role, "content": text} for role, text in [*messages, ("user", args.prompt)]])


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

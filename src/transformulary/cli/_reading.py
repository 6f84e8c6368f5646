"""The options that say what a model reads: one text, two, or ids in their place."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from transformulary.cli import token_ids

if TYPE_CHECKING:
    from transformulary.tokens import Given


def reading(parser: argparse.ArgumentParser, default: str = "none") -> None:
    """The options; `default`: what is read without them."""
    x, z = parser.add_mutually_exclusive_group(), parser.add_mutually_exclusive_group()
    x.add_argument("--text", metavar="TEXT", help=f"what the model reads, by its own tokenizer (default: {default})")
    x.add_argument("--tokens", metavar="IDS", type=token_ids, help=f"ids instead, from 0: 1,2,3 (default: {default})")
    z.add_argument("--context", metavar="TEXT", help=f"what an encoder-decoder reads first (default: {default})")
    z.add_argument("--context-tokens", metavar="IDS", type=token_ids, help=f"its ids instead (default: {default})")
    says = "the segment of each token, of an encoder (default: as framed)"
    parser.add_argument("--segments", metavar="IDS", type=token_ids, help=says)


def given_by(args: argparse.Namespace) -> Given:
    """What these options say."""
    from transformulary.tokens import Given

    return Given(args.text, args.tokens, args.context, args.context_tokens, args.segments, getattr(args, "bos", None))

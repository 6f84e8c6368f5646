"""transformulary tokens train|encode|decode: text to token ids and back.

  transformulary tokens train TEXT... --out FOLDER     learn a vocabulary; writes FOLDER/tokenizer.json
  transformulary tokens encode FOLDER < text           the ids of a text, which `decode` turns into the same text
  transformulary tokens decode FOLDER 15496 995        the text of ids

FOLDER holds a tokenizer.json, or GPT-2's vocab.json and merges.txt.  Text is UTF-8.
"""

import argparse
import json
import sys

from transformulary.cli import standard_input
from transformulary.errors import TokenError
from transformulary.files import read_text, to_text

#: Digits of an id: more than any vocabulary needs, and fewer than Python refuses to read.
LONGEST_ID = 20


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the three actions and their options."""
    actions = parser.add_subparsers(required=True, metavar="train|encode|decode")
    train = actions.add_parser("train", help="learn a vocabulary from text files")
    train.set_defaults(act=_train)
    train.add_argument("text", nargs="+", metavar="TEXT", help="text files")
    train.add_argument("--out", required=True, metavar="FOLDER", help="where tokenizer.json goes")
    train.add_argument(
        "--kind",
        default="bytepairs",
        choices=("characters", "words", "bytepairs"),
        help="what is one token (default: bytepairs)",
    )
    train.add_argument(
        "--vocabulary",
        type=int,
        metavar="N",
        help="the largest number of tokens, with 3 special ones (default: all characters that occur, or 4096)",
    )
    encode = actions.add_parser("encode", help="the ids of a text")
    encode.set_defaults(act=_encode)
    encode.add_argument("folder", metavar="FOLDER", help="where the tokenizer is")
    encode.add_argument("--text", help="the text (default: what is read from standard input)")
    encode.add_argument(
        "--special", action="store_true", help="read what spells a special token as that token (default: it is text)"
    )
    decode = actions.add_parser("decode", help="the text of ids")
    decode.set_defaults(act=_decode)
    decode.add_argument("folder", metavar="FOLDER", help="where the tokenizer is")
    decode.add_argument(
        "ids", nargs="*", default=[], metavar="ID", help="token ids (default: read from standard input)"
    )
    for action in (train, encode, decode):
        action.add_argument("--json", action="store_true", help="one JSON object (default: plain text)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done."""
    args.act(args)
    return 0


def _train(args: argparse.Namespace) -> None:
    from transformulary.tokens import Tokenizer

    tokenizer = Tokenizer.train(args.kind, map(read_text, args.text), args.vocabulary)
    tokenizer.save(args.out)
    special = {role: getattr(tokenizer, role) for role in tokenizer.special}
    if args.json:
        print(
            json.dumps({"folder": args.out, "kind": args.kind, "N_V": tokenizer.N_V, **special, "hash": tokenizer.hash})
        )
    else:
        print(f"{args.out}/tokenizer.json: {tokenizer.N_V} tokens ({args.kind}), of which special:", end=" ")
        print(", ".join(f"{role} {i}" for role, i in special.items()))


def _encode(args: argparse.Namespace) -> None:
    from transformulary.tokens import Tokenizer

    text = _standard_input("Give it with --text.") if args.text is None else args.text
    ids = Tokenizer.load(args.folder).encode(text, special=args.special)
    print(json.dumps({"ids": ids}) if args.json else " ".join(map(str, ids)))


def _decode(args: argparse.Namespace) -> None:
    from transformulary.tokens import Tokenizer

    ids = [_id(word) for word in args.ids or _standard_input("Give the ids after FOLDER.").split()]
    text = Tokenizer.load(args.folder).decode(ids)
    if args.json:
        print(json.dumps({"text": text}, ensure_ascii=False))
    else:
        sys.stdout.write(text)  # no newline: the text and nothing else


def _standard_input(instead: str) -> str:
    return to_text(standard_input(instead), "standard input")


def _id(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > LONGEST_ID:
        shown = word if len(word) <= LONGEST_ID else word[:LONGEST_ID] + "..."
        raise TokenError(f"{shown!r} is no token id: ids are whole numbers from 0, with white space between them.")
    return int(word)

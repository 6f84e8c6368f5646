"""The texts that a verb is given: as arguments, in files or on standard input, there one text per line."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from os.path import isfile
from typing import TYPE_CHECKING

from transformulary.cli import FORMAT_HELP, MODEL_HELP, standard_input, token_ids
from transformulary.errors import DataError
from transformulary.files import read_text, to_text
from transformulary.ragged import BATCH
from transformulary.tables import printable

if TYPE_CHECKING:
    from transformulary.encode import Text
    from transformulary.models import Loaded


def texts_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare MODEL, its texts and how they are read; `what` says what becomes of one."""
    add = parser.add_argument
    add("model", metavar="MODEL", help=MODEL_HELP)
    add("text", nargs="*", metavar="TEXT", help=f"{what} (default: the lines of --file, or of standard input)")
    add(
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="a file with one text per line; may be repeated (default: none)",
    )
    add("--batch", type=int, default=BATCH, metavar="N", help=f"texts that are computed together (default: {BATCH})")
    add(
        "--device",
        default="auto",
        metavar="DEVICE",
        help="cpu, cuda, mps, ... (default: auto, an accelerator if there is one)",
    )
    add("--format", metavar="FORMAT", help=FORMAT_HELP)
    add("--json", action="store_true", help="one JSON object for each text, a line each (default: no)")


def inputs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what else an encoder reads: pairs of texts, and ids."""
    parser.add_argument(
        "--pairs",
        action="store_true",
        help="each text is two, which the model reads as a pair: two arguments, or a line with a tab in between "
        "(default: no)",
    )
    parser.add_argument(
        "--tokens",
        action="append",
        type=token_ids,
        metavar="IDS",
        help="token ids instead of a text, special tokens as well, from 0: 101,7592,102; may be repeated",
    )


def read_texts(args: argparse.Namespace) -> list[str]:
    """The texts, in the order in which they were given.

    Raises DataError: there is none, one is empty, or a file is not UTF-8.
    """
    if args.text and args.file:
        raise DataError("texts are given as arguments and in --file: give one or the other.")
    return list(_named(args))


def read_inputs(args: argparse.Namespace) -> list["Text"]:
    """The texts, pairs of them, or ids.  Raises DataError as `read_texts` does, or where what is given is no pair."""
    if args.tokens:
        if args.text or args.file or args.pairs:
            raise DataError("--tokens are ids instead of texts: give one or the other.")
        return [*args.tokens]
    texts = read_texts(args)
    if not args.pairs:
        return [*texts]
    if args.text:
        if len(texts) % 2:
            raise DataError(f"--pairs: {len(texts)} texts are not made of pairs.")
        return [*zip(texts[::2], texts[1::2], strict=True)]
    return [_halves(n, text) for n, text in enumerate(texts, 1)]


def _halves(n: int, line: str) -> tuple[str, str]:
    halves = line.split("\t")
    if len(halves) != 2 or not all(half.strip() for half in halves):
        raise DataError(f"text {n} is no pair: with --pairs a line is a text, a tab, and a text.")
    return halves[0], halves[1]


def _named(args: argparse.Namespace) -> Iterator[str]:
    if args.text:
        if len(args.text) == 1 and isfile(args.text[0]):
            name = printable(args.text[0])
            print(f"note: {name} is a file, and read as a text here; --file {name} reads its lines.", file=sys.stderr)
        yield from _checked("the arguments", args.text)
    elif args.file:
        for file in args.file:
            yield from _checked(file, lines(read_text(file)))
    else:
        content = standard_input("Give the texts as arguments, or in a --file.")
        yield from _checked("standard input", lines(to_text(content, "standard input")))


def lines(text: str) -> list[str]:
    """The lines of a text, without what ends them."""
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []


def _checked(name: str, texts: Sequence[str]) -> Sequence[str]:
    if not texts:
        raise DataError(f"{name}: there is no text. Write one per line.")
    for n, text in enumerate(texts, 1):
        if not text.strip():
            raise DataError(f"{name}: text {n} of {len(texts)} is empty. Each line is a text; take empty ones out.")
    return texts


def shown(text: "Text") -> str:
    """A text, a pair or ids on one line, for people."""
    if isinstance(text, list):
        return " ".join(map(str, text))
    return printable(text if isinstance(text, str) else " | ".join(text))


def loaded_model(args: argparse.Namespace) -> "Loaded":
    """The model of --format, on --device.  Raises CheckpointError or ConfigError: there is none."""
    from transformulary.models import load
    from transformulary.ragged import device_of

    device = device_of(args.device)
    loaded = load(args.model, args.format)
    loaded.model.to(device)
    return loaded


def noted(loaded: "Loaded", texts: Sequence["Text"], special: bool = False) -> "Loaded":
    """The model; a note on stderr says how many tokens of the texts its vocabulary does not know.

    special: what spells a special token is read as that token.

    Raises as `encode.reading.read` does.
    """
    from transformulary.encode.reading import read

    tokenizer = loaded.tokenizer
    if tokenizer and tokenizer.unk_token is not None:
        rows = read(loaded, [text for text in texts if not isinstance(text, list)], special)
        ids = [i for row in rows for i in row.ids if i == tokenizer.unk_token or i not in tokenizer.control]
        if unknown := ids.count(tokenizer.unk_token):
            print(f"note: {unknown} of {len(ids)} tokens are unknown to the vocabulary.", file=sys.stderr)
    return loaded

"""How a text becomes tokens, in the paper's three ways, as pipelines of the `tokenizers` library.

A pipeline cuts a text into pieces, spells every piece in the model's vocabulary, and has a decoder that loses nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tokenizers import Regex
from tokenizers import Tokenizer as Pipeline
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import Fuse
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split
from tokenizers.trainers import BpeTrainer

from transformulary.errors import ConfigError

#: One printable character for each of the 256 bytes, as GPT-2 spells them, in the order of their token ids.
BYTES = sorted(ByteLevel.alphabet())

CHARACTER = Split(Regex(r"[\s\S]"), "isolated")
#: A word keeps the white space that follows it; only a text's first piece may be white space alone.
WORD = Sequence([Split(Regex(r"\S+\s*|\s+"), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])
#: GPT-2's pieces: contractions; letters, digits, signs, each with at most one space before them; other white space.
GPT2_PIECE = ByteLevel(add_prefix_space=False, use_regex=True)
#: The library's trainer takes time quadratic in the length of a piece, so training cuts what is longer than this.
TRAINED_PIECE = Split(Regex(r"[\s\S]{1,256}"), "isolated")

#: Where a text of any length may be cut without changing its pieces: there a piece ends whatever stands around it.
CUTS = (
    (CHARACTER, re.compile(r"(?=[\s\S])")),
    (WORD, re.compile(r"(?<=[ \n])(?=[!-~])")),
    (GPT2_PIECE, re.compile(r"(?<=[!-~])(?=[ \n])")),
)
BLOCK = 1 << 14


def blocks(pieces: PreTokenizer | None, text: str) -> Iterator[str]:
    """The text in blocks of about `BLOCK` characters, cut where `pieces` cuts anyway; one block if that is unknown."""
    cut = next((cut for known, cut in CUTS if pieces and known.__getstate__() == pieces.__getstate__()), None)
    start = 0
    while cut and (found := cut.search(text, start + BLOCK)):
        yield text[start : found.start()]
        start = found.start()
    yield text[start:]


def characters(texts: Iterable[str], N: int | None, special: tuple[str, ...]) -> Pipeline:
    """One token for each character (code point) that occurs, in the order of Unicode; at most N, if that is given."""
    found = sorted(set().union(*texts))
    if N is not None and len(found) > N:
        raise ConfigError(
            f"the text has {len(found)} different characters, each is a token, and {len(special)} tokens are special: "
            f"N_V = {N + len(special)} is too small. Leave it out, or take words or bytepairs."
        )
    pipeline = Pipeline(WordLevel({c: i for i, c in enumerate(found)}, unk_token=""))
    pipeline.pre_tokenizer, pipeline.decoder = CHARACTER, Fuse()
    return pipeline


def words(texts: Iterable[str], N: int | None, special: tuple[str, ...]) -> Pipeline:
    """The 256 bytes, then the most frequent words ('My ', 'grandma '); other words are spelled in bytes.

    Among equally frequent words the one that is smaller, byte by byte in GPT-2's spelling, is first.
    """
    count = Counter(
        piece for text in texts for block in blocks(WORD, text) for piece, _ in WORD.pre_tokenize_str(block)
    )
    for taken in (*BYTES, *special):
        del count[taken]
    ranked = sorted(count, key=lambda word: (-count[word], word))
    vocabulary = BYTES + ranked[: bytes_and_more(N, special) - len(BYTES)]
    # Byte pairs without merges: a piece is a token if the vocabulary has it, else it stays in bytes.
    return byte_level(BPE({word: i for i, word in enumerate(vocabulary)}, [], ignore_merges=True), WORD)


def bytepairs(texts: Iterable[str], N: int | None, special: tuple[str, ...]) -> Pipeline:
    """The 256 bytes, then the merges of byte-pair encoding inside GPT-2's pieces, the most frequent pair first.

    Pairs are counted where they overlap ('aaa' has two 'aa').  Among equally frequent pairs the one with the smaller
    ids (of the left token, then of the right one) is first.  A pair that occurs only once is not merged.
    """
    pipeline = byte_level(BPE(), Sequence([GPT2_PIECE, TRAINED_PIECE]))
    size = bytes_and_more(N, special)
    trainer = BpeTrainer(vocab_size=size, min_frequency=2, initial_alphabet=BYTES, show_progress=False)
    pipeline.train_from_iterator((block for text in texts for block in blocks(GPT2_PIECE, text)), trainer)
    pipeline.pre_tokenizer = GPT2_PIECE
    return pipeline


def byte_level(model: BPE, pieces: PreTokenizer) -> Pipeline:
    """A pipeline that spells every text: what the model does not merge stays in bytes."""
    pipeline = Pipeline(model)
    pipeline.pre_tokenizer, pipeline.decoder = pieces, ByteLevelDecoder()
    return pipeline


def bytes_and_more(N: int | None, special: tuple[str, ...]) -> int:
    """The number of ordinary tokens: 4,096 with the special ones unless given, and at least the 256 bytes."""
    N = 4096 - len(special) if N is None else N
    if len(BYTES) > N:
        raise ConfigError(
            f"N_V = {N + len(special)} is too small: the {len(BYTES)} bytes, which spell any text, and {len(special)} "
            f"special tokens are {len(BYTES) + len(special)}."
        )
    return N


#: kind -> train(texts, N, special): a pipeline with at most N ordinary tokens, none spelled like a special one.
KINDS: dict[str, Callable[[Iterable[str], int | None, tuple[str, ...]], Pipeline]] = {
    "characters": characters,
    "words": words,
    "bytepairs": bytepairs,
}

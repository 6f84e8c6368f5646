"""The vocabulary in a GGUF file, where the file says enough for the very ids that the model was trained with."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

from transformulary.errors import TokenError
from transformulary.tokens.kinds import BYTES, GPT2_PIECE, byte_level
from transformulary.tokens.library import library
from transformulary.tokens.pieces import SentencePieces
from transformulary.tokens.tokenizer import Tokenizer

#: Llama 3's pieces: contractions; letters with one sign before them; up to three digits; signs; white space.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PIECE = Sequence([Split(Regex(LLAMA3), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])
#: What the file calls the pieces -> the pieces, and whether a piece that is a token is taken whole, merges or not.
PIECES = {"gpt-2": (GPT2_PIECE, False)} | dict.fromkeys(("llama-bpe", "llama-v3", "llama3"), (LLAMA3_PIECE, True))
#: Kinds of tokens, as the file counts them.
CONTROL, USER_DEFINED, UNUSED, BYTE = 3, 4, 5, 6
#: SentencePiece's number for a vocabulary of byte pairs.
BYTE_PAIRS = 2
#: Where the chat template stands.
TEMPLATE = "tokenizer.chat_template"


def read(meta: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer that the file's `tokenizer.ggml.*` describes, with the chat template beside them.

    Raises:
        TokenError: another kind of vocabulary than byte pairs and SentencePiece's, unknown pieces, or a damaged one.
        MissingExtra: it needs the sentencepiece package.
    """
    kinds = {"gpt2": _byte_pairs, "llama": _sentencepiece}
    if meta.get("model") not in kinds:
        raise _refused(f"is of the kind {meta.get('model')!r}, and only {', '.join(map(repr, kinds))} are read exactly")
    tokens = _texts(meta.get("tokens"))
    types = meta.get("token_type", [1] * len(tokens))
    if len(set(tokens)) != len(types):
        raise _refused("has tokens twice, or without a type")
    ends = {role: meta.get(f"{role}_id") for role in ("bos_token", "eos_token")}
    special = {role: tokens[i] for role, i in ends.items() if type(i) is int and 0 <= i < len(tokens)}
    return kinds[meta["model"]](meta, tokens, types, special)


def _byte_pairs(meta: Mapping[str, Any], tokens: list[str], types: list[int], special: dict[str, str]) -> Tokenizer:
    pre, merges = meta.get("pre"), _texts(meta.get("merges"))
    if pre not in PIECES:
        raise _refused(f"cuts text by the rule {pre!r}, and only {', '.join(PIECES)} are known exactly")
    if set(BYTES) - set(tokens):
        raise _refused("lacks some of the 256 bytes")
    vocabulary = {token: i for i, token in enumerate(tokens) if types[i] != UNUSED}
    pieces, whole = PIECES[pre]
    with library(lambda why: _refused(f"is damaged ({why})")):
        model = BPE(vocabulary, [(a, b) for a, _, b in (merge.partition(" ") for merge in merges)], ignore_merges=whole)
        pipeline = byte_level(model, pieces)
        pipeline.add_special_tokens([_added(token) for token, i in vocabulary.items() if types[i] == CONTROL])
        pipeline.add_tokens([_added(token) for token, i in vocabulary.items() if types[i] == USER_DEFINED])
    return Tokenizer(pipeline, special, meta.get(TEMPLATE))


def _sentencepiece(meta: Mapping[str, Any], tokens: list[str], types: list[int], special: dict[str, str]) -> Tokenizer:
    """SentencePiece's byte pairs: the same tokens, scores and types, put back into the package's own kind of file.

    As llama.cpp does, text is cut as it is, a space put before it unless the file says otherwise.
    """
    scores = meta.get("scores")
    if not isinstance(scores, list) or len(scores) != len(tokens):
        raise _refused("has no score for every token")
    pieces = [
        message(1, message(1, token.encode()) + number(2, float(score)) + number(3, kind))
        for token, score, kind in zip(tokens, scores, types, strict=True)
    ]
    ids = {40: meta.get("unknown_token_id", 0), 41: meta.get("bos_token_id", -1), 42: meta.get("eos_token_id", -1)}
    trainer = [number(3, BYTE_PAIRS), number(35, BYTE in types)]
    trainer += [number(field, i if type(i) is int else -1) for field, i in {**ids, 43: -1}.items()]
    space, shortened = meta.get("add_space_prefix", True), meta.get("remove_extra_whitespaces", False)
    normalizer = [message(1, b"identity"), number(3, bool(space)), number(4, bool(shortened)), number(5, True)]
    model = b"".join([*pieces, message(2, b"".join(trainer)), message(3, b"".join(normalizer))])
    about = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": meta.get("add_bos_token", True), **special}
    about |= {"chat_template": meta[TEMPLATE]} if meta.get(TEMPLATE) else {}
    return SentencePieces({"tokenizer.model": model}, about)


def message(field: int, content: bytes) -> bytes:
    """One field of a protocol buffer that holds text or other fields."""
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def number(field: int, value: float) -> bytes:
    """One field that holds a number: a float in four bytes, a whole one in as few as it takes."""
    if isinstance(value, float):
        return _varint(field << 3 | 5) + struct.pack("<f", value)
    return _varint(field << 3) + _varint(value & (2**64 - 1))


def _varint(n: int) -> bytes:
    content = bytearray()
    while n > 127:
        content.append(n & 127 | 128)
        n >>= 7
    return bytes([*content, n])


def _added(token: str) -> AddedToken:
    return AddedToken(token, normalized=False)


def _texts(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise _refused("is no list of texts")
    return given


def _refused(why: str) -> TokenError:
    return TokenError(f"the vocabulary in the GGUF file {why}. Give the ids themselves, --tokens 1,2,3.")

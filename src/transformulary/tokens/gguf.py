"""The vocabulary in a GGUF file, where the file says enough for the very ids that the model was trained with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizers import AddedToken, Regex
from tokenizers import Tokenizer as Pipeline
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

from transformulary.errors import TokenError
from transformulary.tokens.kinds import BYTES, GPT2_PIECE, byte_level
from transformulary.tokens.library import library

#: Llama 3's pieces: contractions; letters with one sign before them; up to three digits; signs; white space.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3_PIECE = Sequence([Split(Regex(LLAMA3), "isolated"), ByteLevel(add_prefix_space=False, use_regex=False)])
#: What the file calls the pieces -> the pieces, and whether a piece that is a token is taken whole, merges or not.
PIECES = {"gpt-2": (GPT2_PIECE, False)} | dict.fromkeys(("llama-bpe", "llama-v3", "llama3"), (LLAMA3_PIECE, True))
#: Kinds of tokens, as the file counts them.
CONTROL, USER_DEFINED, UNUSED = 3, 4, 5


def read(meta: Mapping[str, Any]) -> tuple[Pipeline, dict[str, str]]:
    """The pipeline, and how its special tokens are spelled, from the file's `tokenizer.ggml.*`.

    Raises TokenError: another kind of vocabulary than byte pairs, pieces that are not known here, or a damaged one.
    """
    kind, pre = meta.get("model"), meta.get("pre")
    if kind != "gpt2":
        raise _refused(f"is of the kind {kind!r}, and only byte pairs, 'gpt2', are read exactly")
    if pre not in PIECES:
        raise _refused(f"cuts text by the rule {pre!r}, and only {', '.join(PIECES)} are known exactly")
    tokens, merges = (_texts(meta.get(name)) for name in ("tokens", "merges"))
    types = meta.get("token_type", [1] * len(tokens))
    if len(set(tokens)) != len(types) or set(BYTES) - set(tokens):
        raise _refused("has tokens twice, or without a type, or lacks some of the 256 bytes")
    vocabulary = {token: i for i, token in enumerate(tokens) if types[i] != UNUSED}
    pieces, whole = PIECES[pre]
    with library(lambda why: _refused(f"is damaged ({why})")):
        model = BPE(vocabulary, [(a, b) for a, _, b in (merge.partition(" ") for merge in merges)], ignore_merges=whole)
        pipeline = byte_level(model, pieces)
        pipeline.add_special_tokens([_added(token) for token, i in vocabulary.items() if types[i] == CONTROL])
        pipeline.add_tokens([_added(token) for token, i in vocabulary.items() if types[i] == USER_DEFINED])
    ends = {role: meta.get(f"{role}_id") for role in ("bos_token", "eos_token")}
    return pipeline, {role: tokens[i] for role, i in ends.items() if type(i) is int and 0 <= i < len(tokens)}


def _added(token: str) -> AddedToken:
    return AddedToken(token, normalized=False)


def _texts(given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        raise _refused("is no list of texts")
    return given


def _refused(why: str) -> TokenError:
    return TokenError(f"the vocabulary in the GGUF file {why}. Give the ids themselves, --tokens 1,2,3.")

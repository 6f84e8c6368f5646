"""SentencePiece vocabularies, through the `sentencepiece` package: Llama's, T5's, Marian's."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from transformulary.errors import TokenError, require
from transformulary.tokens.published import Config, named, table, template
from transformulary.tokens.tokenizer import SPACE, Encoding, Tokenizer, unicode

#: Marian's token for what it cannot spell.
UNKNOWN = "<unk>"


def read_llama(files: list[Path], config: Config) -> Tokenizer:
    """A tokenizer.model: bos_token comes before a text, nothing after it, unless the config says otherwise."""
    return _read(files, {"add_bos_token": True, **config})


def read_t5(files: list[Path], config: Config) -> Tokenizer:
    """A spiece.model, after whose tokens come a hundred more, <extra_id_99> first; eos_token ends a text."""
    size, n = _processor(files[0].read_bytes()).get_piece_size(), config.get("extra_ids", 100)
    extra = {str(size + i): {"content": f"<extra_id_{n - 1 - i}>"} for i in range(n)}
    return _read(
        files, {**config, "add_eos_token": True, "added_tokens_decoder": extra | config["added_tokens_decoder"]}
    )


def read_marian(files: list[Path], config: Config) -> Tokenizer:
    """source.spm, target.spm and vocab.json, which says the ids of both languages; eos_token ends a text."""
    vocabulary = table(files[2])
    if not all(type(i) is int for i in vocabulary.values()):
        raise TokenError(f"{files[2]} is no table of tokens and ids.")
    if UNKNOWN not in vocabulary:
        raise TokenError(f"{files[2]} has no {UNKNOWN}, which stands for what it cannot spell.")
    content = {file.name: file.read_bytes() for file in files}
    return Marian(content, {**config, "add_eos_token": True}, vocabulary)


def _read(files: list[Path], config: Config) -> Tokenizer:
    return SentencePieces({files[0].name: files[0].read_bytes()}, config)


def _processor(model: bytes) -> Any:
    """The package's object for a model.  Raises TokenError where the bytes are none."""
    require("sentencepiece", "sentencepiece", "a SentencePiece vocabulary")
    from sentencepiece import SentencePieceProcessor

    if not model:
        raise TokenError("this is no SentencePiece model: it is empty.")
    try:
        return SentencePieceProcessor(model_proto=model)
    except (RuntimeError, ValueError, OSError) as error:
        raise TokenError(f"this is no SentencePiece model ({error}).") from None


class SentencePieces(Tokenizer):
    """A vocabulary whose ids the `sentencepiece` package finds, with the tokens that were added after its own.

    SentencePiece changes a text before it cuts it (Unicode forms, white space): `decode(encode(text))` is what it has
    made of the text.
    """

    def __init__(
        self, content: Mapping[str, bytes], config: Config, vocabulary: Mapping[str, int] | None = None
    ) -> None:
        """`content` is that of its files by their names, the model first; `config` is `published.settings`.

        vocabulary: the ids, where they are not those of the model.
        """
        self.content, self.config = dict(content), dict(config)
        self.model = _processor(next(iter(content.values())))
        own = {self.model.id_to_piece(i): i for i in range(self.model.get_piece_size())}
        added = {str(t["content"]): int(i) for i, t in config.get("added_tokens_decoder", {}).items()}
        self.vocabulary: dict[str, int] = dict(vocabulary or own) | added
        ends = {"bos_token": self.model.bos_id(), "eos_token": self.model.eos_id(), "unk_token": self.model.unk_id()}
        roles = {role: self.model.id_to_piece(i) for role, i in ends.items() if i >= 0}
        self._set(named(config, roles, self.vocabulary.get), self.vocabulary, template(config))
        apart = (
            {token for token, i in own.items() if self.model.is_control(i)} | set(added) | set(self.special.values())
        )
        apart -= {self.special.get("unk_token")}
        #: What is spelled out by `decode`, and read by `encode` only where it is asked to; the rest are pieces.
        self.apart = {i: token for token, i in self.vocabulary.items() if token in apart}

    @cached_property
    def control(self) -> frozenset[int]:
        """See `Tokenizer.control`."""
        return frozenset(self.apart)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what this tokenizer computes."""
        content = [sorted(self.vocabulary.items()), self.special]
        return hashlib.sha256(b"".join(self.content.values()) + json.dumps(content).encode()).hexdigest()

    def files(self) -> dict[str, str | bytes]:
        """The content of its files, and of `tokenizer_config.json`."""
        return {**self.content, "tokenizer_config.json": json.dumps(self.config | self.special, indent=2) + "\n"}

    def encode(self, text: str, special: bool = False) -> list[int]:
        """The token ids of a text; see `Tokenizer.encode`."""
        unicode(text)
        if not special:
            return self._ids(text)
        parts = re.split(f"({'|'.join(map(re.escape, sorted(self.apart.values(), key=len, reverse=True)))})", text)
        return [
            i
            for k, part in enumerate(parts)
            for i in ([self.vocabulary[part]] if k % 2 else self._ids(part) if part else [])
        ]

    def _ids(self, text: str) -> list[int]:
        return list(self.model.encode(text))

    @property
    def pairs(self) -> bool:
        """See `Tokenizer.pairs`."""
        return True

    def framed(self, text: str, pair: str | None = None, special: bool = False) -> Encoding:
        """See `Tokenizer.framed`."""
        begin = [self.bos_token] if self.config.get("add_bos_token") else []
        end = [self.eos_token] if self.config.get("add_eos_token") else []
        texts = [text] if pair is None else [text, pair]
        framed = [*begin, *(i for one in texts for i in [*self.encode(one, special), *end])]
        ids: list[int] = [i for i in framed if i is not None]
        return Encoding(ids, [0] * len(ids))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; see `Tokenizer.decode`."""
        text = ""
        for apart, group in groupby(self._checked(ids), self.apart.__contains__):
            run = list(group)
            text += "".join(self.apart[i] for i in run) if apart else self._text(run, first=not text)
        return text

    def _text(self, ids: list[int], first: bool) -> str:
        """The text of pieces; a space before the very first is the package's own."""
        if first:
            return str(self.model.decode(ids))
        before = self._ids("a")
        return str(self.model.decode(before + ids)).removeprefix(self.model.decode(before))

    @cached_property
    def pieces(self) -> Mapping[int, str]:
        """See `Tokenizer.pieces`."""
        return {i: piece for piece, i in self.vocabulary.items()}

    @cached_property
    def unk_token(self) -> int | None:
        """See `Tokenizer.unk_token`."""
        return self.vocabulary.get(self.special.get("unk_token", UNKNOWN))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: N_V = {self.N_V}>"


class Marian(SentencePieces):
    """Marian's: the source's pieces where a text is read, the target's in an answer, the ids of both by one table."""

    @cached_property
    def _answering(self) -> Any:
        return _processor(self.content["target.spm"])

    def answer(self, text: str) -> list[int]:
        """See `Tokenizer.answer`."""
        pieces: list[str] = self._answering.encode(unicode(text), out_type=str)
        unknown = self.vocabulary[UNKNOWN]
        end = [] if self.eos_token is None else [self.eos_token]
        return [*(self.vocabulary.get(piece, unknown) for piece in pieces), *end]

    def _ids(self, text: str) -> list[int]:
        code, end, rest = text.partition("<<") if text.startswith(">>") else ("", "", text)
        pieces: list[str] = [code + end, *self._cut(rest)] if end else self._cut(text)
        unknown = self.vocabulary[UNKNOWN]
        return [self.vocabulary.get(piece, unknown) for piece in pieces]

    def _cut(self, text: str) -> list[str]:
        return list(self.model.encode(text, out_type=str))

    def _text(self, ids: list[int], first: bool) -> str:
        text = "".join(self.pieces[i] for i in ids).replace(SPACE, " ")
        return text.removeprefix(" ") if first else text

"""A vocabulary: text to token ids and back, with nothing lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import index
from pathlib import Path
from typing import Any, Self

from tokenizers import AddedToken
from tokenizers import Tokenizer as Pipeline

from transformulary.errors import ConfigError, DataError, TokenError
from transformulary.files import write_atomically
from transformulary.tokens.kinds import KINDS, blocks
from transformulary.tokens.library import library

#: How the special tokens of a vocabulary that is trained here are spelled, in the paper's order.
SPECIAL = {"mask_token": "<|mask_token|>", "bos_token": "<|bos_token|>", "eos_token": "<|eos_token|>"}
#: How SentencePiece writes a space.
SPACE = "\u2581"


@dataclass(frozen=True)
class Encoding:
    """A text as a model was trained to see it.

    ids       with the special tokens around it
    segments  the number of the text, from 0, to which each of them belongs
    """

    ids: list[int]
    segments: list[int]

    def __len__(self) -> int:
        return len(self.ids)


class Tokenizer:
    """Text to token ids (from 0) and back: `decode(encode(text)) == text`.

    N_V         size of the vocabulary: all ids are below it
    ids         the ids that there are; published vocabularies can have gaps
    mask_token  id of the token that hides another, N_V - 3 if the vocabulary was trained here; None if there is none
    bos_token   id of the token that begins a text, N_V - 2; None if there is none
    eos_token   id of the token that ends a text, N_V - 1; None if there is none
    special     how the special tokens are spelled, by their roles: these three, and others' (cls_token...)
    chat_template  the Jinja program that makes a text of messages; None if there is none

    Source: arXiv:2207.09238, the section on tokenization, which counts ids from 1 (special: N_V - 2, N_V - 1, N_V).
    """

    def __init__(self, pipeline: Pipeline, special: dict[str, str], chat_template: str | None = None) -> None:
        """`pipeline` is an object of the `tokenizers` library; `special` says how its mask_token, ... are spelled."""
        pipeline.no_padding()
        pipeline.no_truncation()
        pipeline.encode_special_tokens = True  # the library's name for: text that spells one stays text
        self.pipeline = pipeline
        self._set(special, pipeline.get_vocab(), chat_template)

    def _set(self, special: dict[str, str], vocabulary: Mapping[str, int], chat_template: str | None) -> None:
        self.special, self.chat_template = special, chat_template
        self.mask_token, self.bos_token, self.eos_token = (
            vocabulary[special[role]] if role in special else None for role in SPECIAL
        )
        self.ids = frozenset(vocabulary.values())
        self.N_V = max(self.ids, default=-1) + 1

    @classmethod
    def train(cls, kind: str, texts: Iterable[str], N_V: int | None = None) -> Self:
        """A tokenizer learned from texts.  The same texts in any order give the same tokenizer, on any machine.

        Args:
            kind: 'characters', 'words' or 'bytepairs'.
            texts: what to learn from.
            N_V: the largest number of tokens, with the special ones; None is 4,096 for words and
                byte pairs, and all that occur for characters.

        Returns:
            A tokenizer whose last three ids are mask_token, bos_token and eos_token.

        Raises:
            ConfigError: there is no such kind, or N_V is too small for it.
            DataError: the texts are empty.
            TokenError: a text has a lone surrogate.
        """
        if kind not in KINDS:
            raise ConfigError(f"there are no tokens of kind {kind!r}; there are {', '.join(KINDS)}.")
        texts = [unicode(text) for text in texts if text]
        if not texts:
            raise DataError("a tokenizer is learned from text, and there is none: every text is empty.")
        special = tuple(SPECIAL.values())
        pipeline = KINDS[kind](texts, None if N_V is None else N_V - len(special), special)
        pipeline.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
        return cls(pipeline, SPECIAL)

    @staticmethod
    def load(path: str | Path) -> Tokenizer:
        """The tokenizer in a folder, or in a `tokenizer.json`.

        A folder has `tokenizer.json`; or GPT-2's or RoBERTa's `vocab.json` and `merges.txt`; or BERT's `vocab.txt`; or
        a SentencePiece model: `tokenizer.model` (Llama), `spiece.model` (T5), `source.spm`, `target.spm` and
        `vocab.json` (Marian).  The special tokens are those that `tokenizer_config.json` beside it names; where it
        names none, those that such a vocabulary has.

        Raises:
            TokenError: there is no such file, or it is not what its name says.
            MissingExtra: it needs the sentencepiece package.
        """
        from transformulary.tokens import published

        return published.load(Path(path))

    @staticmethod
    def from_gguf(meta: Mapping[str, Any]) -> Tokenizer:
        """The tokenizer that a GGUF file describes: `Source.vocabulary`.

        Raises TokenError, which says why, where the file does not say enough for the very ids of the model.
        """
        from transformulary.tokens import gguf

        return gguf.read(meta)

    def files(self) -> dict[str, str | bytes]:
        """The content of `tokenizer.json` and `tokenizer_config.json`, as the `transformers` library reads them."""
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False, **self.special}
        config |= {"chat_template": self.chat_template} if self.chat_template else {}
        return {
            "tokenizer.json": self.pipeline.to_str(pretty=True) + "\n",
            "tokenizer_config.json": json.dumps(config, indent=2) + "\n",
        }

    def save(self, folder: str | Path) -> None:
        """Write `files` to a folder."""
        for name, content in self.files().items():
            write_atomically(Path(folder) / name, content)

    @cached_property
    def hash(self) -> str:
        """SHA-256 of what this tokenizer computes: equal after `save` and `load`, different for another vocabulary."""
        pipeline = json.loads(self.pipeline.to_str())
        pipeline.pop("post_processor", None)  # adds special tokens, which `encode` never does
        content = [pipeline, self.special]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @cached_property
    def control(self) -> frozenset[int]:
        """The ids that no text has unless it is asked for: those of special tokens."""
        return frozenset(i for i, token in self.pipeline.get_added_tokens_decoder().items() if token.special)

    @cached_property
    def _reading_special_tokens(self) -> Pipeline:
        return Pipeline.from_str(self.pipeline.to_str())

    def encode(self, text: str, special: bool = False) -> list[int]:
        """The token ids of a text; no special token is added.

        Args:
            text: any text; '' has no tokens.
            special: read what spells a special token as that token.  Not for text of unknown origin: whoever wrote it
                could end a document or forge a role.

        Raises:
            TokenError: the text has a lone surrogate, or characters that the vocabulary cannot spell.
        """
        unicode(text)
        pipeline = self._reading_special_tokens if special else self.pipeline
        parts = [text] if special else list(blocks(pipeline.pre_tokenizer, text))
        with library(lambda why: self._cannot_spell(text, why)):
            encoded = (
                encoding
                for i in range(0, len(parts), 16)
                for encoding in pipeline.encode_batch_fast(parts[i : i + 16], add_special_tokens=False)
            )
            return [i for encoding in encoded for i in encoding.ids]

    @property
    def pairs(self) -> bool:
        """Whether `framed` knows how two texts are read as one."""
        return self.pipeline.post_processor is not None

    def framed(self, text: str, pair: str | None = None, special: bool = False) -> Encoding:
        """A text, or two, with the special tokens that the model was trained to see around them.

        Args:
            text, pair: as for `encode`.
            special: as for `encode`.

        Raises TokenError as `encode` does.
        """
        pipeline = self._reading_special_tokens if special else self.pipeline
        with library(lambda why: self._cannot_spell(text + (pair or ""), why)):
            found = pipeline.encode(unicode(text), None if pair is None else unicode(pair))
        return Encoding(found.ids, found.type_ids)

    def answer(self, text: str) -> list[int]:
        """The ids of a text that an encoder-decoder is to answer with, and the special tokens around it.

        Raises TokenError as `encode` does.
        """
        return self.framed(text).ids

    def _cannot_spell(self, text: str, why: str) -> TokenError:
        missing = [c for c in sorted(set(text)) if self.pipeline.token_to_id(c) is None]
        shown = ", ".join(f"{c!r} (U+{ord(c):04X})" for c in missing[:10]) + (", ..." if missing[10:] else "")
        return TokenError(
            f"the vocabulary has no token for {len(missing)} of the text's characters: {shown}. Take them out, or "
            f"train a tokenizer on text that has them; byte pairs spell every text."
            if missing
            else f"the tokenizer cannot encode this text: {why}"
        )

    def decode(self, ids: Iterable[int]) -> str:
        """The text of token ids; special tokens are spelled out, bytes that are no character become U+FFFD.

        Raises:
            TokenError: the tokenizer does not have an id, or its decoder fails.
        """
        ids = self._checked(ids)
        with library(lambda why: TokenError(f"the tokenizer cannot decode these ids: {why}")):
            return str(self.pipeline.decode(ids, skip_special_tokens=False))

    @cached_property
    def pieces(self) -> Mapping[int, str]:
        """How every id is written in the vocabulary."""
        return {i: piece for piece, i in self.pipeline.get_vocab().items()}

    @cached_property
    def unk_token(self) -> int | None:
        """The id that stands for what the vocabulary cannot spell; None where there is none."""
        model = json.loads(self.pipeline.to_str())["model"]
        named: str | None = model.get("unk_token")
        return model.get("unk_id") if named is None else self.pipeline.token_to_id(named)

    def spelled(self, i: int) -> str:
        """What one token spells inside a text: as `decode`, with the space that a piece of SentencePiece begins with.

        Raises TokenError as `decode` does.
        """
        text, piece = self.decode([i]), self.pieces[i]
        return piece.replace(SPACE, " ") if piece.startswith(SPACE) and SPACE not in text else text

    def _checked(self, ids: Iterable[int]) -> list[int]:
        ids = [index(i) for i in ids]
        for i in ids:
            if i not in self.ids:
                gap = f"N_V = {self.N_V}" if not 0 <= i < self.N_V else "a gap in its vocabulary"
                raise TokenError(f"the tokenizer has no token {i} ({gap}), so it has no text. Ids count from 0.")
        return ids

    def __repr__(self) -> str:
        return f"<Tokenizer: {type(self.pipeline.model).__name__}, N_V = {self.N_V}>"


def unicode(text: str) -> str:
    """The text, if it is one: a lone surrogate is no character and has no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenError(
            f"the text has a lone surrogate (U+{ord(text[error.start]):04X}) at position {error.start}: that is half a "
            f"character. Read the text with the encoding that it was written in."
        ) from None
    return text


def begin(tokenizer: Tokenizer, bos: bool | None, prompt: str) -> list[int]:
    """The bos_token that comes before a prompt, or nothing.  Raises TokenError if there must be one and is none."""
    token = tokenizer.bos_token
    wanted = (not prompt or token not in (None, tokenizer.eos_token)) if bos is None else bos
    if wanted and token is None:
        raise TokenError(
            "the vocabulary has no bos_token to begin the text with"
            + ("." if prompt else ", so an empty prompt gives the model nothing to continue: begin with some text.")
        )
    return [token] if wanted and token is not None else []

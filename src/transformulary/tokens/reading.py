"""What a user gives a model to read, as ids: texts by its tokenizer, framed as its kind of model was trained with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformulary.errors import CheckpointError, TokenError
from transformulary.formats.strict import read_json
from transformulary.paper import Config, ETransformerConfig, Read, TwoStacks
from transformulary.tokens.tokenizer import Tokenizer, begin

if TYPE_CHECKING:
    from transformulary.formats import Described

Ids = Sequence[int]


@dataclass(frozen=True)
class Given:
    """What a user says that is to be read: texts, or ids from 0 in their place.

    text, tokens             x: the primary sequence
    context, context_tokens  z: the other one, of an encoder-decoder
    segments                 s: the segment of every token of x, of an encoder that has segments; all 0 unless given
    bos                      whether a decoder's text begins with bos_token; None: if it has one that is not its eos too
    """

    text: str | None = None
    tokens: Ids | None = None
    context: str | None = None
    context_tokens: Ids | None = None
    segments: Ids | None = None
    bos: bool | None = None


class Reader:
    """How one model reads.

    config     says which kind of model it is
    tokenizer  None: only ids can be read
    start      the id that begins x, of an encoder-decoder; None: nobody knows
    where      what errors call the model
    """

    def __init__(self, config: Config, tokenizer: Tokenizer | None, start: int | None, where: object) -> None:
        self.config, self.tokenizer, self.start, self.where = config, tokenizer, start, where

    def read(self, given: Given) -> Read:
        """Raises TokenError for what this model does not read, or what nobody says."""
        two, segmented = isinstance(self.config, TwoStacks), bool(getattr(self.config, "segments", 0))
        if not two and (given.context is not None or given.context_tokens is not None):
            said = "reads one sequence, and a context was given: only encoder-decoders have one."
            raise TokenError(f"{self.where} {said}")
        if not segmented and given.segments is not None:
            raise TokenError(f"{self.where} has no segments, and some were given.")
        z = self._context(given) if two else ()
        x, s = self._primary(given)
        s = list(given.segments) if given.segments is not None else s
        if segmented and len(s) != len(x):
            raise TokenError(f"{len(s)} segments were given for {len(x)} tokens: each token is in one.")
        return Read(tuple(x), tuple(z), tuple(s) if segmented else ())

    def _primary(self, given: Given) -> tuple[list[int], list[int]]:
        if given.tokens is not None:
            return list(given.tokens), [0] * len(given.tokens)
        if given.text is None:
            if self.start is None or not isinstance(self.config, TwoStacks):
                raise TokenError(f"nothing says what {self.where} is to read: give --text, or --tokens.")
            return [self.start], []
        tokenizer = self._tokenizer("--text", "--tokens")
        if isinstance(self.config, ETransformerConfig):
            found = tokenizer.framed(given.text)
            return list(found.ids), list(found.segments)
        if not isinstance(self.config, TwoStacks):
            return begin(tokenizer, given.bos, given.text) + tokenizer.encode(given.text), []
        if self.start is None:
            raise TokenError(f"nothing says with which token {self.where} begins a text: give --tokens, it included.")
        return [self.start, *tokenizer.encode(given.text)], []

    def _context(self, given: Given) -> Ids:
        if given.context_tokens is not None:
            return given.context_tokens
        if given.context is None:
            raise TokenError(f"{self.where} reads a context first: give --context, or --context-tokens.")
        return self._tokenizer("--context", "--context-tokens").framed(given.context).ids

    def _tokenizer(self, option: str, instead: str) -> Tokenizer:
        if self.tokenizer is None:
            said = f"{self.where} has no tokenizer, which {option} needs: give the ids themselves, {instead} 1,2,3."
            raise TokenError(said)
        return self.tokenizer


def start_token(described: Described) -> int | None:
    """The id that begins the primary sequence of an encoder-decoder, as its files say; None if they do not.

    Raises CheckpointError for one that is no token.
    """
    source = described.source
    generation = source.folder / "generation_config.json"
    said: dict[str, Any] = dict(source.config) | (read_json(generation) if generation.is_file() else {})
    token = next((said[key] for key in ("decoder_start_token_id", "bos_token_id") if said.get(key) is not None), None)
    if token is not None and (type(token) is not int or not 0 <= token < described.config.N_V):
        raise CheckpointError(f"{source.folder}: decoder_start_token_id = {token!r} is no token of the model.")
    return token

"""The tokenizer of a model, which must be the one that the model was made with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from transformulary.errors import CheckpointError, TokenError
from transformulary.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformulary.formats import Described

#: The files of which a vocabulary that we read is made: the one, or the other two.
VOCABULARIES = (("tokenizer.json",), ("vocab.json", "merges.txt"))


def load_tokenizer(described: Described) -> Tokenizer | None:
    """The tokenizer in a model's folder, or in its GGUF file; None if it has none, or none that can be read exactly.

    Raises CheckpointError if it is not the model's.
    """
    folder = described.source.folder
    there = any(all((folder / name).is_file() for name in names) for names in VOCABULARIES)
    tokenizer = Tokenizer.load(folder) if there else None
    if tokenizer is None and described.source.vocabulary:
        with suppress(TokenError):
            tokenizer = Tokenizer.from_gguf(described.source.vocabulary())
    ours = described.source.config.get("transformulary")
    if isinstance(ours, dict) and "tokenizer" in ours and ours["tokenizer"] != (tokenizer and tokenizer.hash):
        found = "that of another vocabulary" if tokenizer else "missing"
        raise CheckpointError(
            f"{folder / 'tokenizer.json'} is {found}, not the one that the model was saved with: "
            f"every token id would mean something else. Put the right file back."
        )
    if tokenizer and tokenizer.N_V > described.config.N_V:
        raise CheckpointError(
            f"{folder}: the tokenizer has N_V = {tokenizer.N_V} tokens, the model only N_V = {described.config.N_V}: "
            f"they do not belong together."
        )
    return tokenizer

"""The tokenizer of a model, which must be the one that the model was made with."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from transformulary.errors import CheckpointError, TokenError
from transformulary.tokens.published import Unread, family_in
from transformulary.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from transformulary.formats import Described


def load_tokenizer(described: Described) -> Tokenizer | None:
    """The tokenizer in a model's folder, or in its GGUF file; None if it has none, or none that can be read exactly.

    Raises CheckpointError if it is not the model's.
    """
    folder = described.source.folder
    tokenizer = None
    if family_in(folder):
        with suppress(Unread):
            tokenizer = Tokenizer.load(folder)
    elif described.source.vocabulary:
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


def why_none(described: Described) -> str:
    """Why a text has no token ids where `load_tokenizer` finds none, and what to do."""
    source = described.source
    known = (
        f"{source.folder} has no tokenizer that we read, so a text has no token ids, and ids have no text. "
        f"Put its tokenizer.json there."
    )
    if described.format.model_type != "nanogpt":
        return known
    return f"{known} nanoGPT's own meta.pkl is a pickle, which could run code, and is not opened."

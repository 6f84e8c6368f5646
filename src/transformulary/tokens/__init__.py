"""Characters, words, byte pairs: text to token ids and back, with nothing lost."""

from transformulary.tokens.chat import chat
from transformulary.tokens.chunks import chunks
from transformulary.tokens.kinds import KINDS
from transformulary.tokens.of_model import load_tokenizer, why_none
from transformulary.tokens.reading import Given, Reader, start_token
from transformulary.tokens.stream import Stream
from transformulary.tokens.tokenizer import SPECIAL, Encoding, Tokenizer, begin

__all__ = [
    "KINDS",
    "SPECIAL",
    "Encoding",
    "Given",
    "Reader",
    "Stream",
    "Tokenizer",
    "begin",
    "chat",
    "chunks",
    "load_tokenizer",
    "start_token",
    "why_none",
]

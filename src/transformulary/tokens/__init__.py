"""Characters, words, byte pairs: text to token ids and back, with nothing lost."""

from transformulary.tokens.chunks import chunks
from transformulary.tokens.kinds import KINDS
from transformulary.tokens.of_model import load_tokenizer
from transformulary.tokens.stream import Stream
from transformulary.tokens.tokenizer import SPECIAL, Tokenizer, begin

__all__ = ["KINDS", "SPECIAL", "Stream", "Tokenizer", "begin", "chunks", "load_tokenizer"]

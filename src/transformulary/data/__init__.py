"""Files -> texts -> token ids -> batches that can be taken up again at any point."""

from transformulary.data.batches import NO_TOKEN, Batches, Documents, Position, shift
from transformulary.data.corpus import Corpus, corpus
from transformulary.data.texts import Piece, read_texts, split, text_files

__all__ = [
    "NO_TOKEN",
    "Batches",
    "Corpus",
    "Documents",
    "Piece",
    "Position",
    "corpus",
    "read_texts",
    "shift",
    "split",
    "text_files",
]

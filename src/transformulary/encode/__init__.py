"""What encoders say of texts: their masked tokens, their classes, vectors for them."""

from transformulary.errors import require

require("torch", "torch", "transformulary.encode")

from transformulary.encode.choices import Choice  # noqa: E402
from transformulary.encode.classifying import classified, classify  # noqa: E402
from transformulary.encode.embedding import cosines, embed, embedded  # noqa: E402
from transformulary.encode.filling import Filled, Masked, fill, filled  # noqa: E402
from transformulary.encode.reading import Text, Texts  # noqa: E402

__all__ = [
    "Choice",
    "Filled",
    "Masked",
    "Text",
    "Texts",
    "classified",
    "classify",
    "cosines",
    "embed",
    "embedded",
    "fill",
    "filled",
]

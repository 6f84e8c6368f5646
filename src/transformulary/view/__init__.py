"""What a model looks at, as pictures: one HTML page, one PNG, or in a notebook."""

from transformulary.view.attention import FORMATS, Attention, attention, suffix
from transformulary.view.image import attention_png
from transformulary.view.page import attention_page

__all__ = ["FORMATS", "Attention", "attention", "attention_page", "attention_png", "suffix"]

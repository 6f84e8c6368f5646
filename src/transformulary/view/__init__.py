"""What a model looks at, as pictures: one HTML page, one PNG, or in a notebook."""

from transformulary.view.image import attention_png
from transformulary.view.page import attention_page
from transformulary.view.prompt import FORMATS, Attention, attention, suffix

__all__ = ["FORMATS", "Attention", "attention", "attention_page", "attention_png", "suffix"]

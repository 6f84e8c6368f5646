"""What a model looks at, as pictures: one HTML page, one PNG, or in a notebook."""

from transformulary.view.image import attention_png
from transformulary.view.page import attention_page
from transformulary.view.prompt import FORMATS, Attention, attention, attention_of, suffix
from transformulary.view.stack import Stack, whole

__all__ = [
    "FORMATS",
    "Attention",
    "Stack",
    "attention",
    "attention_of",
    "attention_page",
    "attention_png",
    "suffix",
    "whole",
]

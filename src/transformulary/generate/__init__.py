"""Algorithms 14 and 15 on the fast models: tokens, and text in pieces."""

from transformulary.generate.continuation import Continuation
from transformulary.generate.dinference import DInference
from transformulary.generate.edinference import EDInference, Hypothesis
from transformulary.generate.sampling import Sampling
from transformulary.generate.stopping import Stop
from transformulary.generate.translation import Translation, translate, translated
from transformulary.paper.practice import Beam, Frame

__all__ = [
    "Beam",
    "Continuation",
    "DInference",
    "EDInference",
    "Frame",
    "Hypothesis",
    "Sampling",
    "Stop",
    "Translation",
    "translate",
    "translated",
]

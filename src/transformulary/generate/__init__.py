"""Algorithm 14 on the fast model: tokens, and text in pieces."""

from transformulary.generate.continuation import Continuation
from transformulary.generate.dinference import DInference
from transformulary.generate.sampling import Sampling
from transformulary.generate.stopping import Stop

__all__ = ["Continuation", "DInference", "Sampling", "Stop"]

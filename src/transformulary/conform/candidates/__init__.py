"""Candidates: what is compared with the oracle, whatever it is, becomes values by path.

`pytorch` watches a model, `functions` calls a file of functions, `dumps` (of `conform`) reads files.
"""

from transformulary.conform.candidates.candidate import Candidate

__all__ = ["Candidate"]

"""Comparing implementations with the paper, line by line."""

from transformulary.errors import require

require("torch", "torch", "comparing a model with the oracle")

from transformulary.conform.lockstep import Line, Report, compare, lockstep, see  # noqa: E402
from transformulary.conform.run import assert_conforms, conform  # noqa: E402
from transformulary.conform.theta import theta_of  # noqa: E402

__all__ = ["Line", "Report", "assert_conforms", "compare", "conform", "lockstep", "see", "theta_of"]

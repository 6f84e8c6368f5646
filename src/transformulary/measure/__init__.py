"""How good a model is on texts that it has not learned from: nats, perplexity, accuracy, BLEU and chrF."""

from transformulary.errors import require

require("torch", "torch", "transformulary.measure")

from transformulary.measure.answers import Score, similarity  # noqa: E402
from transformulary.measure.evaluating import evaluate  # noqa: E402
from transformulary.measure.measured import Measured  # noqa: E402

__all__ = ["Measured", "Score", "evaluate", "similarity"]

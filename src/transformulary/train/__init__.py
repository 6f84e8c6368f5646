"""Algorithm 13 on real text: batches, AdamW, schedules, precision, evaluation, checkpoints."""

from transformulary.errors import require as _require

_require("torch", "torch", "transformulary.train")
_require("jaxtyping", "torch", "transformulary.train")

from transformulary.paper.settings import TrainingSettings  # noqa: E402
from transformulary.train.checkpoint import State, check_same_run, load_state  # noqa: E402
from transformulary.train.dtraining import DTraining  # noqa: E402
from transformulary.train.evaluate import evaluate  # noqa: E402
from transformulary.train.events import Evaluated, Event, Finished, Saved, Started, Stepped  # noqa: E402
from transformulary.train.initial import initial_model  # noqa: E402
from transformulary.train.loss import count, total_loss  # noqa: E402
from transformulary.train.memory import refuse_huge  # noqa: E402
from transformulary.train.run import NonFiniteError  # noqa: E402
from transformulary.train.schedule import learning_rate  # noqa: E402

__all__ = [
    "DTraining",
    "Evaluated",
    "Event",
    "Finished",
    "NonFiniteError",
    "Saved",
    "Started",
    "State",
    "Stepped",
    "TrainingSettings",
    "check_same_run",
    "count",
    "evaluate",
    "initial_model",
    "learning_rate",
    "load_state",
    "refuse_huge",
    "total_loss",
]

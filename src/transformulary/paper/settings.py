"""How to train: the numbers that Algorithm 13 leaves open, and those that today's practice adds, with defaults.

Standard library only, so that `--help` can say what they are.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Self

from transformulary.errors import ConfigError
from transformulary.paper.practice import Training

#: Value tables of the settings that are a choice.
CHOICES = {
    "schedule": ("cosine", "linear", "constant"),
    "precision": ("auto", "float32", "bfloat16", "float64"),
}
#: What others call our settings: only to help in an error message.
OTHERS_CALL_IT = {
    "lr": "eta",
    "learning_rate": "eta",
    "max_steps": "steps",
    "max_iters": "steps",
    "warmup_steps": "warmup",
    "warmup_iters": "warmup",
    "batch_size": "batch",
    "per_device_train_batch_size": "batch",
    "gradient_accumulation_steps": "accumulate",
    "grad_clip": "clip",
    "max_grad_norm": "clip",
    "eval_interval": "eval_every",
    "eval_steps": "eval_every",
    "save_steps": "save_every",
    "dtype": "precision",
    "beta1": "beta_1",
    "beta2": "beta_2",
    "adam_beta1": "beta_1",
    "adam_beta2": "beta_2",
    "adam_epsilon": "epsilon",
}


#: Whole numbers stay below: what counts steps and tokens, and what is held in memory at once.
MANY, ROWS = 2**53, 2**31


def number(default: float | None, least: float, below: float = float("inf"), *, open: bool = False) -> Any:
    """A field whose value lies in [least, below), or (least, below) if `open`."""
    return field(default=default, metadata={"least": least, "below": below, "open": open})


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Settings of `DTraining` and, for dropout, seed and init, of `initial_model`.  A *step* is one update.

    steps         updates in all; 0 = no limit but `seconds`.  Default: 1000, or 0 if `seconds` is given
    seconds       wall-clock limit in seconds; 0 = none.  It counts the steps, and measurements and checkpoints on the
                  way; not reading the text, nor the measurement and the checkpoint after the last step
    batch         sequences per pass through the model
    accumulate    passes per update; their gradients are those of the one big batch
    eta           peak learning rate, the paper's eta
    eta_embedding  rate of W_e and W_p (and W_u where it is W_e), as a multiple of that of the others
    warmup        steps in which the rate rises to its peak, over after a tenth of `seconds` at the latest.
                  Default: 100, at most a tenth of `steps`
    schedule      how the rate falls from its peak to its floor: cosine, linear, constant (not at all)
    floor         lowest rate, as a fraction of eta; kept after the last step
    beta_1        AdamW: memory of the mean of the gradient
    beta_2        AdamW: memory of the mean of its square
    epsilon       AdamW: added to the root of that mean
    weight_decay  AdamW: decoupled, of matrices only
    clip          largest norm of the gradient of one update; 0 = no limit
    init_std      standard deviation of initial matrices
    init_residual  the same for those that end a residual branch, as a multiple of init_std / sqrt(2 L);
                  0 = every layer begins as the identity
    dropout       probability that an element is dropped while training
    precision     float32, float64, bfloat16 (products only; parameters stay float32), or auto: bfloat16 if a
                  trial on this machine finds it faster than float32
    compile       compile the model first (torch.compile): slow to start, faster from then on
    seed          of initial parameters, order and dropout
    threads       processor threads; 0 = as many as PyTorch takes by itself
    eval_every    steps between measurements on the held-out text; 0 = only at the end
    eval_tokens   held-out tokens that one measurement reads, spread evenly; 0 = all
    save_every    steps between checkpoints; 0 = only at the end
    """

    steps: int = number(None, 0, MANY)
    seconds: float = number(0.0, 0)
    batch: int = number(16, 1, ROWS)
    accumulate: int = number(1, 1, ROWS)
    eta: float = number(1e-3, 0, open=True)
    eta_embedding: float = number(1.0, 0, open=True)
    warmup: int = number(None, 0, MANY)
    schedule: str = "cosine"
    floor: float = number(0.1, 0)
    beta_1: float = number(0.9, 0, 1)
    beta_2: float = number(0.95, 0, 1)
    epsilon: float = number(1e-8, 0)
    weight_decay: float = number(0.1, 0)
    clip: float = number(1.0, 0)
    init_std: float = number(0.02, 0)
    init_residual: float = number(1.0, 0)
    dropout: float = number(0.0, 0, 1)
    precision: str = "auto"
    compile: bool = False
    seed: int = number(0, 0, 2**31)
    threads: int = number(0, 0, 1025)
    eval_every: int = number(250, 0, MANY)
    eval_tokens: int = number(32768, 0, MANY)
    save_every: int = number(100, 0, MANY)

    def __post_init__(self) -> None:
        for f in fields(self):
            if f.default is not None or getattr(self, f.name) is not None:
                _check(f.name, getattr(self, f.name), str(f.type), **f.metadata)
        if self.steps is None:
            object.__setattr__(self, "steps", 0 if self.seconds else 1000)
        if self.warmup is None:
            object.__setattr__(self, "warmup", min(100, self.steps // 10) if self.steps else 100)
        if not self.steps and not self.seconds:
            raise ConfigError("steps = 0 and seconds = 0: training would never end. Give one of them.")
        if self.steps and self.warmup > self.steps:
            raise ConfigError(f"warmup = {self.warmup} is more than steps = {self.steps}: the peak is never reached.")

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Self:
        """The settings that `to_dict` describes; what is not given has its default.  An unknown key is an error."""
        known = [f.name for f in fields(cls)]
        for key in given:
            if key not in known:
                close = [OTHERS_CALL_IT[key]] if key in OTHERS_CALL_IT else get_close_matches(key, known, 1)
                hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known)}."
                raise ConfigError(f"there is no training setting {key!r}. {hint}")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Every setting, resolved."""
        return asdict(self)

    def practice(self, steps: int) -> Training:
        """What `steps` updates of `DTraining` with these settings are, in the words of Algorithm 13."""
        return Training(
            N_steps=steps,
            N_batch=self.batch,
            N_acc=self.accumulate,
            chunks=True,
            shuffle=True,
            loss="tokens",
            p_drop=self.dropout,
            optimiser="adamw",
            beta_m=self.beta_1,
            beta_v=self.beta_2,
            epsilon=self.epsilon,
            decay=self.weight_decay,
            eta_embedding=self.eta_embedding,
            g_max=self.clip,
            schedule=self.schedule,
            eta_floor=self.floor,
            N_warmup=self.warmup,
            N_total=self.steps,
            T_total=self.seconds,
        )


def _check(name: str, value: Any, kind: str, least: float = 0, below: float = float("inf"), open: bool = False) -> None:
    if name in CHOICES:
        if value not in CHOICES[name]:
            raise ConfigError(f"{name} = {value!r} is none of {', '.join(CHOICES[name])}.")
        return
    types = {"int": (int,), "float": (int, float), "bool": (bool,)}[kind]
    if type(value) not in types:
        wanted = {"int": "a whole number", "float": "a number", "bool": "true or false"}[kind]
        raise ConfigError(f"{name} = {value!r} must be {wanted}.")
    if type(value) is int and not abs(value) < sys.float_info.max:  # too long to be shown
        raise ConfigError(f"{name} has {value.bit_length()} bits, which is absurd.")
    if kind != "bool" and not (least < value < below if open else least <= value < below):
        raise ConfigError(f"{name} = {value} is outside {'(' if open else '['}{least}, {below}).")

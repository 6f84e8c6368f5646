"""One training run: everything that changes from step to step, one update of it, and its state as plain data."""

from __future__ import annotations

import math
import platform
from dataclasses import replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from transformulary import __version__
from transformulary.data import Batches, Corpus, Position, shift
from transformulary.errors import CheckpointError, ConfigError
from transformulary.formats.state import RECORD
from transformulary.nn import DTransformer
from transformulary.paper.settings import TrainingSettings
from transformulary.train.checkpoint import State, check_same_run
from transformulary.train.events import Started, Stepped
from transformulary.train.loss import count, total_loss
from transformulary.train.optimiser import adamw, clip_gradient, decays, set_rate
from transformulary.train.precision import PRECISIONS, choose
from transformulary.train.schedule import learning_rate


class NonFiniteError(ArithmeticError):
    """A loss, a gradient or a parameter is NaN or infinite.  The last checkpoint is untouched."""


class Run:
    """Model, optimiser, batches and counters.

    step     updates made
    seconds  of training in earlier sessions and this one, until `halt`
    tokens   targets learnt from
    clock    `seconds` before each update, as the rate has it, in float32; NaN where it does not follow the clock
    measured  the last measurement on the held-out text
    """

    def __init__(self, model: DTransformer, corpus: Corpus, settings: TrainingSettings, state: State | None) -> None:
        """`state` goes on from there; None starts.  Raises ConfigError, CheckpointError, DataError."""
        self.model, self.corpus = model, corpus
        refuse_unfit(model, corpus, settings)
        self.batches = Batches(corpus.training, model.config.ell_max, settings.batch, settings.seed)
        precision = state.config["training"].get("precision") if state else settings.precision
        if state and precision not in PRECISIONS:
            raise CheckpointError(
                f"the training state has precision {precision!r}: it was not written by this program."
            )
        if precision == "auto":
            precision = choose(model, self._trial())
        model.to(PRECISIONS[precision][0])
        if settings.precision == "auto":
            settings = replace(settings, precision=precision)
        self.settings = settings
        self.apply = torch.compile(model) if settings.compile else model
        self.context = PRECISIONS[precision][1]
        self.optimiser = adamw(model, settings)
        self.optimiser.zero_grad()
        self.step = self.tokens = 0
        self._began: float | None = perf_counter()
        self._before = 0.0
        torch.manual_seed(settings.seed)
        self.sessions: list[dict[str, Any]] = []
        self.clock: list[float] = []
        self.measured: dict[str, Any] | None = None
        if state:
            self.restore(state)
        self.sessions = [s for s in self.sessions if s["step"] < self.step] + [session(self.step, settings)]

    @property
    def seconds(self) -> float:
        return self._before + (0.0 if self._began is None else perf_counter() - self._began)

    def halt(self) -> None:
        """Stop the clock: what comes now is no longer training."""
        self._before, self._began = self.seconds, None

    @property
    def over(self) -> bool:
        """Whether the limit in steps or the one in seconds is reached."""
        s = self.settings
        return bool((s.steps and self.step >= s.steps) or (s.seconds and self.seconds >= s.seconds))

    def update(self) -> Stepped:
        """Lines 3-6 of Algorithm 13 for one batch.  Raises NonFiniteError before anything is changed."""
        s, began, position = self.settings, self.seconds, self.batches.position
        pairs = [shift(next(self.batches)) for _ in range(s.accumulate)]
        targets = sum(count(y) for _, y in pairs)
        loss = sum(self._backward(x, y, targets) for x, y in pairs)  # 4, 5
        norm = clip_gradient(self.model.parameters(), s.clip)
        self._refuse_non_finite(loss, norm, position)
        clock = torch.tensor(began, dtype=torch.float32).item()
        eta = learning_rate(s, self.step + 1, clock)
        set_rate(self.optimiser, eta)
        self.optimiser.step()  # 6
        self.optimiser.zero_grad()
        self.step += 1
        self.clock.append(clock if s.seconds else math.nan)
        self.tokens += targets
        now = self.seconds
        return Stepped(
            step=self.step,
            loss=loss,
            targets=targets,
            eta=eta,
            gradient_norm=norm,
            epoch=position.epoch + 1,
            seconds=now,
            tokens_per_second=targets / (now - began),
            seconds_left=self._left(now),
        )

    def _backward(self, x: Tensor, y: Tensor, targets: int) -> float:
        """This part's share of the mean loss over all `targets` of the update; adds its gradient."""
        with self.context():
            logits = self.apply(x)
        loss = total_loss(logits, y) / targets
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def _refuse_non_finite(self, loss: float, norm: float, position: Position) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self.optimiser.zero_grad()
        raise NonFiniteError(
            f"step {self.step + 1} ({position}): the loss is {loss:.6g} and the norm of its gradient {norm:.6g}; the "
            f"update would ruin the model and was not made. Try a smaller eta (now {self.settings.eta}) or float32."
        )

    def refuse_ruined(self) -> None:
        """Raise NonFiniteError if the last update left a parameter, or what AdamW remembers of it, not finite."""
        state = self.optimiser.state
        for name, p in self.model.named_parameters():
            for what, value in {"itself": p, **state[p]}.items():
                if not torch.isfinite(value).all():
                    raise NonFiniteError(
                        f"step {self.step}: its update left {name} ({what}) not finite, which is no model and is not "
                        f"saved. Try a smaller eta (now {self.settings.eta}), or clip (now {self.settings.clip})."
                    )

    def _left(self, now: float) -> float:
        s = self.settings
        by_steps = (s.steps - self.step) * now / self.step if s.steps else math.inf
        by_seconds = s.seconds - now if s.seconds else math.inf
        return max(0.0, min(by_steps, by_seconds))

    def _trial(self) -> Any:
        """The loss of one batch as a function, for timing; the order of batches is left alone."""
        first = next(Batches(self.corpus.training, self.batches.ell_max, self.batches.batch, self.batches.seed))
        x, y = shift(first)
        return lambda: total_loss(self.model(x), y)

    def started(self) -> Started:
        """What to say before the first step."""
        named = dict(self.model.named_parameters())
        return Started(
            step=self.step,
            parameters=sum(p.numel() for p in named.values()),
            decayed=tuple(name for name, p in named.items() if decays(name, p)),
            training_tokens=len(self.corpus.training),
            held_out_tokens=len(self.corpus.held_out),
            precision=self.settings.precision,
        )

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain data."""
        return {
            "model": self.model.config.to_dict(),
            "training": self.settings.to_dict(),
            "sha256 of the token ids": self.corpus.sha256,
            "sha256 of the tokenizer": self.corpus.tokenizer.hash,
        }

    def state(self) -> State:
        """Everything that the next step depends on."""
        tensors: dict[str, Tensor] = {f"theta.{name}": p for name, p in self.model.named_parameters()}
        for name, p in self.model.named_parameters():
            tensors |= {f"{key}.{name}": value for key, value in self.optimiser.state[p].items()}
        if not all(map(math.isnan, self.clock)):
            tensors["clock"] = torch.tensor(self.clock, dtype=torch.float32)
        counters = {"step": self.step, "seconds": self.seconds, "tokens": self.tokens}
        return State(
            tensors | {"random": torch.get_rng_state()},
            counters | self.batches.position.to_dict(),
            self.config(),
            self.corpus.tokenizer,
            record=self.record(),
        )

    def record(self) -> dict[str, Any]:
        """What `describe --run` says of a run beside its settings."""
        texts = {"learnt from": self.corpus.training, "held out": self.corpus.held_out}
        sizes = {what: {"sequences": len(d.bounds) - 1, "tokens": len(d)} for what, d in texts.items()}
        return {"version": RECORD, "corpus": sizes, "sessions": self.sessions, "measured": self.measured}

    def restore(self, state: State) -> None:
        """Go on from `state`.  Raises CheckpointError if it is another run's."""
        check_same_run(state.config, self.config())
        named = dict(self.model.named_parameters())
        shapes = {"random": torch.get_rng_state().shape} | {f"theta.{name}": p.shape for name, p in named.items()}
        for name, shape in shapes.items():
            if name not in state.tensors or state.tensors[name].shape != shape:
                raise CheckpointError(
                    f"the training state has no tensor {name} of shape {tuple(shape)}: "
                    f"it was not written by this program."
                )
        torch.set_rng_state(state.tensors["random"])
        for name, p in named.items():
            p.data.copy_(state.tensors[f"theta.{name}"])
            kept = {key: state.tensors.get(f"{key}.{name}") for key in KEPT}
            self.optimiser.state[p] = {key: value.clone() for key, value in kept.items() if value is not None}
        self.sessions = list(state.record.get("sessions", []))
        self.measured = state.record.get("measured")
        progress = state.progress
        self.clock = state.tensors.get("clock", torch.full((progress["step"],), math.nan)).tolist()
        if len(self.clock) != progress["step"]:
            raise CheckpointError(f"the training state has {progress['step']} steps and a clock of {len(self.clock)}.")
        if 0 < self.settings.steps < progress["step"]:
            raise ConfigError(f"steps = {self.settings.steps}, and {progress['step']} were made before. Give no fewer.")
        self.step, self.tokens, self._before = progress["step"], progress["tokens"], progress["seconds"]
        position = Position(progress["epoch"], progress["window"])
        self.batches = Batches(
            self.corpus.training, self.batches.ell_max, self.settings.batch, self.settings.seed, position
        )


def session(step: int, settings: TrainingSettings) -> dict[str, Any]:
    """One start of a run: after which step, to what limits, and on what."""
    return {
        "step": step,
        "steps": settings.steps,
        "seconds": settings.seconds,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "versions": {"transformulary": __version__, "torch": torch.__version__, "python": platform.python_version()},
    }


#: What AdamW remembers of every parameter.
KEPT = ("step", "exp_avg", "exp_avg_sq")


def refuse_unfit(model: DTransformer, corpus: Corpus, settings: TrainingSettings) -> None:
    """Raise ConfigError where model, text and settings cannot go together."""
    c = model.config
    if ahead := [mask for mask in c.mask if not mask.causal]:
        raise ConfigError(
            f"mask {ahead[0]} lets a token see later ones, which it is to predict; training needs a causal mask."
        )
    if c.N_V < corpus.tokenizer.N_V:
        raise ConfigError(f"N_V = {c.N_V} of the model is less than the tokenizer's {corpus.tokenizer.N_V} tokens.")
    if model.dropout.p != settings.dropout:
        raise ConfigError(f"the model was built with dropout = {model.dropout.p}, the settings say {settings.dropout}.")

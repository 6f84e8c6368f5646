"""A run that takes a second: a small text, a small GPT, every source of randomness on."""

from types import SimpleNamespace

import pytest

from transformulary.data import corpus
from transformulary.paper import DTransformerConfig
from transformulary.paper.settings import TrainingSettings
from transformulary.tokens import Tokenizer
from transformulary.train import DTraining, initial_model

TEXTS = ["the quick brown fox jumps over the lazy dog. " * 3, "pack my box with five dozen liquor jugs. " * 4]


class Trial:
    """Makes the same model and corpus again and again, and trains."""

    def __init__(self):
        self.tokenizer = Tokenizer.train("characters", TEXTS)
        self.corpus = corpus(TEXTS, self.tokenizer)
        self.config = DTransformerConfig(
            N_V=self.tokenizer.N_V, ell_max=10, L=2, H=2, d_e=8, d_mlp=16, eps=1e-5, activation="gelu_tanh", tied=True
        )

    def settings(self, **given):
        """Dropout, accumulation, warm-up, several epochs in 20 steps; float32 unless said otherwise."""
        usual = {"steps": 20, "batch": 4, "accumulate": 2, "dropout": 0.1, "precision": "float32"}
        usual["warmup"] = min(5, given.get("steps", 20) or 5)
        return TrainingSettings(**(usual | {"eval_every": 0, "save_every": 0, "seed": 3, "threads": 1} | given))

    def model(self, settings):
        return initial_model(self.config, settings)

    def train(self, settings, **more):
        """Train a new model; what is returned has it, and the list of events."""
        events, told = [], more.pop("on_event", lambda event: None)
        model = more.pop("model") if "model" in more else self.model(settings)

        def on_event(event):
            events.append(event)
            told(event)

        DTraining(model, self.corpus, settings, on_event=on_event, **more)
        return SimpleNamespace(model=model, events=events)


@pytest.fixture(scope="session")
def trial():
    return Trial()


@pytest.fixture
def stop_after():
    """stop_after(n) is asked after every step and says yes after n of them."""

    def make(steps):
        left = iter(range(steps - 1, -1, -1))
        return lambda: next(left) == 0

    return make

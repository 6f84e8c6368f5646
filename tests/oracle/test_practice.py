"""The practised forms of training and inference: PyTorch's optimisers, our fast trainer, BERT's masks, filters."""

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from autograd import assert_close
from transformulary import oracle, train
from transformulary.conform.theta import theta_of
from transformulary.data import Batches, Corpus, Documents
from transformulary.errors import AlgorithmError, ConfigError
from transformulary.oracle.theta import embeddings, matrices, norm
from transformulary.paper import DTransformerConfig, EDTransformerConfig, Training
from transformulary.paper.settings import TrainingSettings
from transformulary.tokens import Tokenizer
from transformulary.train.optimiser import clip_gradient

c = DTransformerConfig(N_V=6, ell_max=5, L=1, H=2, d_e=4, d_mlp=3, eps=1e-5)
x = [[4, 0, 1, 2, 5], [4, 2, 5], [4, 3, 3, 1], [1, 1, 0]]


def theta(config=c, seed=0):
    return oracle.random_theta(config, np.random.default_rng(seed), scale=0.4)


class TorchChance:
    """The random numbers of our fast trainer: of each epoch one cut per sequence, then an order."""

    def __init__(self, N_data, seed):
        self.N_data, self.seed, self.epoch, self.cuts = N_data, seed, 0, []

    def integers(self, n):
        if not self.cuts:
            self.generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % 2**32)
            self.cuts = torch.randint(n, (self.N_data,), generator=self.generator).tolist()
        return self.cuts.pop(0)

    def permutation(self, n):
        self.epoch += 1
        return torch.randperm(n, generator=self.generator).tolist()


class Given:
    """A generator whose next numbers are known."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


# optimisers

OPTIMISERS = {
    "sgd": (Training(N_steps=1), lambda p, lr: torch.optim.SGD(p, lr)),
    "sgd, decay": (Training(N_steps=1, decay=0.3), lambda p, lr: torch.optim.SGD(p, lr, weight_decay=0.3)),
    "momentum": (
        Training(N_steps=1, optimiser="momentum", beta_m=0.8),
        lambda p, lr: torch.optim.SGD(p, lr, momentum=0.8),
    ),
    "Nesterov, decay": (
        Training(N_steps=1, optimiser="momentum", beta_m=0.8, nesterov=True, decay=0.3),
        lambda p, lr: torch.optim.SGD(p, lr, momentum=0.8, nesterov=True, weight_decay=0.3),
    ),
    "RMSProp": (
        Training(N_steps=1, optimiser="rmsprop", beta_v=0.7, epsilon=1e-4, decay=0.3),
        lambda p, lr: torch.optim.RMSprop(p, lr, alpha=0.7, eps=1e-4, weight_decay=0.3),
    ),
    "AdaGrad": (
        Training(N_steps=1, optimiser="adagrad", epsilon=1e-4, decay=0.3),
        lambda p, lr: torch.optim.Adagrad(p, lr, eps=1e-4, weight_decay=0.3),
    ),
    "Adam": (
        Training(N_steps=1, optimiser="adam", beta_m=0.8, beta_v=0.95, epsilon=1e-4, decay=0.3),
        lambda p, lr: torch.optim.Adam(p, lr, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.3),
    ),
    "AdamW": (
        Training(N_steps=1, optimiser="adamw", beta_m=0.8, beta_v=0.95, epsilon=1e-4, decay=0.3),
        lambda p, lr: torch.optim.AdamW(p, lr, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.3),
    ),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_are_pytorchs(name):
    """Six steps of each optimiser, with its options and clipping, are those of PyTorch to 1e-12."""
    how, theirs = OPTIMISERS[name]
    how, rng = replace(how, g_max=1.5), np.random.default_rng(1)
    ours = oracle.Theta(W=rng.normal(size=(3, 4)), V=rng.normal(size=(2, 2)))  # matrices, so that all of it decays
    tensors = [torch.tensor(a, requires_grad=True) for a in ours.leaves()]
    optimiser, memory = theirs(tensors, 0.1), how.optimiser != "sgd"
    omega = oracle.MEMORY[how.optimiser](0) if memory else ()

    for i in range(6):
        g = ours.map(lambda a: rng.normal(size=a.shape))
        for tensor, slope in zip(tensors, g.leaves(), strict=True):
            tensor.grad = torch.tensor(slope)
        clip_gradient(tensors, 1.5)
        optimiser.step()
        made = oracle.update(ours, omega, g, i, 0.1, how, ())
        ours, omega = made if memory else (made, ())

    for array, tensor in zip(ours.leaves(), tensors, strict=True):
        np.testing.assert_allclose(array, tensor.detach().numpy(), rtol=0, atol=1e-12)


def test_clipping_is_pytorchs_without_its_millionth():
    """PyTorch divides by the norm plus 1e-6; ours by the norm, which is then exactly the largest that is allowed."""
    gradient = torch.tensor([3.0, 4.0], dtype=torch.float64)
    theirs, ours = (torch.zeros(2, dtype=torch.float64, requires_grad=True) for _ in range(2))
    theirs.grad, ours.grad = gradient.clone(), gradient.clone()

    torch.nn.utils.clip_grad_norm_([theirs], 1.0)
    clip_gradient([ours], 1.0)

    torch.testing.assert_close(ours.grad, gradient / 5, rtol=1e-15, atol=0)
    torch.testing.assert_close(theirs.grad, gradient / (5 + 1e-6), rtol=1e-15, atol=0)


def test_what_decays_and_what_is_an_embedding():
    """Matrices decay, W_p and vectors do not; W_e and W_p may have another rate."""
    parameters = theta()

    decayed = {name for name, a in matrices(parameters).items() if a.any()}
    embedded = {name for name, a in embeddings(parameters).items() if a.any()}

    assert decayed == {name for name, a in parameters.items() if a.ndim == 2 and name != "W_p"}
    assert embedded == {"W_e", "W_p"}
    assert math.isclose(norm(parameters) ** 2, sum((a**2).sum() for a in parameters.leaves()))


# rates, batches


@pytest.mark.parametrize(
    "given",
    [
        {"steps": 20, "warmup": 5},
        {"steps": 20, "warmup": 0, "schedule": "linear", "floor": 0.0},
        {"steps": 20, "warmup": 20, "schedule": "constant"},
        {"steps": 20, "warmup": 4, "floor": 0.6, "seconds": 30.0},
        {"seconds": 30.0, "warmup": 6},
        {"seconds": 30.0, "warmup": 0, "schedule": "linear"},
    ],
    ids=str,
)
def test_rates_are_the_fast_trainers(given):
    """Algorithm 13e is the schedule of the fast trainer, by steps, by the clock, or both, to rounding."""
    settings = TrainingSettings(eta=0.3, **given)
    clock = [1.7 * i for i in range(20)]

    ours = [oracle.learning_rate(i, 0.3, settings.practice(20), clock) for i in range(20)]

    assert pytest.approx([train.learning_rate(settings, i + 1, clock[i]) for i in range(20)], rel=1e-14) == ours


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear"])
@pytest.mark.parametrize("warmup", [0, 4])
def test_after_the_last_step_the_rate_stays_at_its_floor(schedule, warmup):
    """Algorithm 13e is the fast trainer's schedule beyond N_total too, where a run goes on."""
    settings = TrainingSettings(eta=0.3, steps=8, warmup=warmup, schedule=schedule, floor=0.25)

    rates = [oracle.learning_rate(i, 0.3, settings.practice(20), ()) for i in range(20)]

    assert pytest.approx([train.learning_rate(settings, i + 1) for i in range(20)], rel=1e-14) == rates
    assert pytest.approx([0.3 if schedule == "constant" else 0.075] * 12, rel=1e-14) == rates[8:]


@pytest.mark.parametrize("ell_max", [2, 3, 50])
@pytest.mark.parametrize(("batch", "accumulate"), [(1, 1), (3, 2), (100, 1)])
def test_batches_are_the_fast_trainers(ell_max, batch, accumulate):
    """With the same random numbers, three epochs of windows are cut, put in order and batched as in `data`."""
    texts = [list(range(11)), [5, 4], [3], list(range(8, 0, -1)), []]
    theirs, rows = Batches(Documents(texts), ell_max, batch, seed=7), []
    while theirs.position.epoch < 3:
        rows.append([[v for v in row if v >= 0] for row in next(theirs).tolist()])
    how = Training(N_steps=len(rows) // accumulate, N_batch=batch, N_acc=accumulate, chunks=True, shuffle=True)

    D = oracle.batches(texts, replace(c, ell_max=ell_max), how, TorchChance(len(texts), 7))

    assert rows[: accumulate * how.N_steps] == D[: accumulate * how.N_steps]


def test_batches_in_order():
    """Without shuffling, sequences are cut at multiples of ell_max, and come in the order of the data."""
    texts, small = [[0, 1, 2, 3, 4, 5], [4, 2]], replace(c, ell_max=3)

    D = oracle.batches(texts, small, Training(N_steps=2, N_batch=2, chunks=True), None)
    whole = oracle.batches(texts, small, Training(N_steps=2), None)

    assert [[[0, 1, 2, 3], [3, 4, 5]], [[4, 2]]] == D
    assert [[texts[0]], [texts[1]]] == whole


# training


class Told(list):
    """The events of a run."""

    def of(self, kind):
        return [event for event in self if isinstance(event, kind)]


@pytest.mark.parametrize("tied", [False, True])
def test_training_is_the_fast_trainers(tied):
    """Algorithm 13 as it is practised here: losses and parameters of five steps in float64, to 1e-12.

    Windows, shuffling over several epochs, accumulated batches, warm-up, cosine, clipping, decay of matrices and
    another rate for embeddings are all on.  epsilon is above the rounding that is all of b_k's gradient.
    """
    config = replace(c, ell_max=4, tied=tied)
    texts = [[4, 0, 1, 2, 5, 3, 3, 1, 0], [4, 2, 5], [1, 1, 0, 2, 2, 4]]
    settings = TrainingSettings(
        steps=5, batch=2, accumulate=2, eta=0.05, epsilon=1e-3, eta_embedding=2.0, warmup=2, weight_decay=0.2, clip=0.5,
        seed=3, precision="float64", init_std=0.3, eval_every=0, save_every=0, threads=1,
    )  # fmt: skip
    tokenizer = Tokenizer.train("characters", ["ab"])
    model, told = train.initial_model(config, settings).double(), Told()
    start = theta_of(model)
    corpus = Corpus(tokenizer, Documents(texts), Documents([]))

    train.DTraining(model, corpus, settings, on_event=told.append)

    losses = {}
    hook = partial(recorded, losses)
    ours = oracle.watched(hook, inside=lambda path: False).DTraining(
        texts, start, config, settings.practice(5), eta=0.05, rng=TorchChance(len(texts), 3)
    )
    stepped = told.of(train.Stepped)
    means = [sum(losses[i + 1]) / stepped[i].targets for i in range(5)]
    assert_close(ours, theta_of(model), atol=1e-12)
    assert pytest.approx([event.loss for event in stepped], rel=1e-12) == means


def recorded(losses, path, value):
    """Keeps the losses of line 5 by step."""
    if found := re.fullmatch(r"13\.5\[i=(\d+),n=\d+\]", path):
        losses.setdefault(int(found[1]), []).append(value)
    return value


def test_a_batch_of_one_is_the_paper():
    """One sequence in a batch, in order, summed, plain descent: N_data steps are one epoch of the paper's."""
    practised = oracle.DTraining(x, theta(), c, Training(N_steps=len(x)), eta=0.1)

    assert_close(practised, oracle.DTraining(x, theta(), c, eta=0.1), atol=1e-15)


def test_the_mean_over_sequences():
    """It is the gradient of the summed losses over the number of sequences."""
    how = Training(N_steps=1, N_batch=4, loss="sequences")

    ours = oracle.DTraining(x, theta(), c, how, eta=0.4)

    assert_close(ours, oracle.DTraining(x, theta(), c, replace(how, loss="sum"), eta=0.1), atol=1e-15)


@pytest.mark.parametrize("number", [11, 13])
def test_label_smoothing_is_pytorchs(number):
    """Line 5 with alpha is F.cross_entropy with label_smoothing."""
    if number == 13:
        P = oracle.DTransformer(x[0], theta(), c)
        how, name, arguments = Training(N_steps=1, alpha=0.1), "DTraining", (x[:1], theta(), c)
    else:
        config = EDTransformerConfig(N_V=6, ell_max=5, L_enc=1, L_dec=1, H=1, d_e=2, d_mlp=2)
        P = oracle.EDTransformer(x[1], x[0], theta(config), config)
        how, name, arguments = Training(N_steps=1, alpha=0.1), "EDTraining", (x[1:2], x[:1], theta(config), config)

    loss = oracle.record(name, *arguments, how, eta=0.1)[f"{number}.5[i=1,n=1]"]

    logits, targets = torch.tensor(np.log(P)).T[:-1], torch.tensor(x[0][1:])
    theirs = F.cross_entropy(logits, targets, label_smoothing=0.1, reduction="sum").item()
    assert math.isclose(theirs, loss, rel_tol=1e-14)


def test_pairs_are_batched_together():
    """Algorithm 11 in one batch goes down the sum of the gradients of all its pairs, shuffled or not."""
    config = EDTransformerConfig(N_V=6, ell_max=5, L_enc=1, L_dec=1, H=1, d_e=2, d_mlp=2)
    how = Training(N_steps=1, N_batch=3, shuffle=True)
    start, z = theta(config), x[::-1]

    ours = oracle.EDTraining(z[:3], x[:3], start, config, how, eta=0.1, rng=np.random.default_rng(0))

    apart = [oracle.EDTraining(z[n : n + 1], x[n : n + 1], start, config, eta=0.1) for n in range(3)]
    assert_close(ours - start, sum((one - start for one in apart), 0), atol=1e-14)


# what is refused


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Training(N_batch=2), "without N_steps"),
        (lambda: Training(N_steps=1, optimiser="lion"), "lion.* is none of sgd"),
        (lambda: Training(N_steps=1, N_batch=0), "N_batch = 0"),
        (lambda: oracle.DTraining(x, theta(), c, Training(N_steps=1, shuffle=True), eta=0.1), "need rng"),
        (lambda: oracle.DTraining(x, theta(), c, "adam", eta=0.1), "how must be a Training"),
        (
            lambda: oracle.EDTraining(x, x, theta(), c, Training(N_steps=1, chunks=True), eta=0.1),
            "chunks = True is no practice",
        ),
    ],
)
def test_what_is_refused(call, words):
    """A practice that is none, or that lacks what it needs, is an error that says so."""
    with pytest.raises((ConfigError, AlgorithmError), match=words):
        call()

"""Algorithm 13 on the fast decoder, without files."""

import pytest
import torch

from transformulary.data import Corpus, Documents
from transformulary.errors import ConfigError, DataError
from transformulary.nn import DTransformer
from transformulary.paper import DTransformerConfig
from transformulary.train import DTraining, Evaluated, NonFiniteError, Started, Stepped, evaluate, initial_model


def of(kind, events):
    return [event for event in events if isinstance(event, kind)]


def parameters(model):
    return dict(model.named_parameters())


def test_one_step_is_algorithm_13(trial):
    """One sequence: the loss is - sum of log P[x[t + 1], t] over l - 1 targets, and theta takes AdamW's first step.

    That step is eta * g / (|g| + epsilon), after decay of matrices by 1 - eta * weight_decay.
    """
    x = [4, 1, 2, 7, 3, 1]
    corpus = Corpus(trial.tokenizer, Documents([x]), Documents([]))
    settings = trial.settings(
        steps=1, accumulate=1, warmup=0, dropout=0.0, clip=0.0, precision="float64", schedule="constant", epsilon=1e-3
    )
    before = trial.model(settings).double()
    log_P = torch.log_softmax(before(torch.tensor([x])), -1)[0]
    loss = -sum(log_P[t, x[t + 1]] for t in range(5)) / 5
    loss.backward()
    told = []

    after = DTraining(trial.model(settings).double(), corpus, settings, on_event=told.append)

    assert pytest.approx(loss.item(), rel=1e-12) == of(Stepped, told)[0].loss
    for name, p in before.named_parameters():
        decay = settings.weight_decay if p.ndim == 2 and name != "W_p.weight" else 0.0
        expected = p * (1 - settings.eta * decay) - settings.eta * p.grad / (p.grad.abs() + settings.epsilon)
        torch.testing.assert_close(parameters(after)[name], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("batch", "accumulate"), [(4, 2), (2, 4), (1, 8)])
def test_accumulation_is_the_whole_batch(trial, batch, accumulate):
    """Eight windows at once, or in parts of any size: the same losses, norms and parameters, to rounding in float64."""
    usual = {"steps": 2, "dropout": 0.0, "precision": "float64", "epsilon": 1e-3}
    whole = trial.train(trial.settings(batch=8, accumulate=1, **usual))

    parts = trial.train(trial.settings(batch=batch, accumulate=accumulate, **usual))

    for a, b in zip(of(Stepped, whole.events), of(Stepped, parts.events), strict=True):
        assert (a.targets, pytest.approx(a.loss, rel=1e-12)) == (b.targets, b.loss)
        assert pytest.approx(a.gradient_norm, rel=1e-12) == b.gradient_norm
    for name, p in whole.model.named_parameters():
        torch.testing.assert_close(parameters(parts.model)[name], p, rtol=0, atol=1e-12)


def test_the_initial_model_is_what_the_settings_say(trial):
    """Equal settings give equal parameters; the scale of matrices and of what ends a branch can be set."""
    settings = trial.settings(init_std=0.5, init_residual=0.0, dropout=0.25)

    one, two = initial_model(trial.config, settings), initial_model(trial.config, settings)

    assert all(torch.equal(p, parameters(two)[name]) for name, p in one.named_parameters())
    assert pytest.approx(0.5, rel=0.2) == one.W_e.weight.std().item()
    assert not one.layers[0].mlp.W_mlp2.weight.any()
    assert 0.25 == one.dropout.p


def test_it_learns(trial):
    """Sixty steps take more than a nat per token off the loss."""
    events = trial.train(trial.settings(steps=60, eta=1e-2, dropout=0.0)).events

    assert of(Stepped, events)[-1].loss < of(Stepped, events)[0].loss - 1


def test_evaluation_leaves_no_trace(trial):
    """Measuring after every step changes no bit of losses and parameters, dropout or not, and no module's mode."""
    never = trial.train(trial.settings(steps=6))
    modes = []

    always = trial.train(
        trial.settings(steps=6, eval_every=1),
        on_event=lambda event: isinstance(event, Evaluated) and modes.append(event.step),
    )

    assert [1, 2, 3, 4, 5, 6] == modes
    assert [e.loss for e in of(Stepped, never.events)] == [e.loss for e in of(Stepped, always.events)]
    for name, p in never.model.named_parameters():
        assert torch.equal(p, parameters(always.model)[name])


def test_evaluation_is_deterministic_in_every_mode(trial):
    """Dropout is off whatever mode the model or a part of it is in, and the modes stay; so does the random state."""
    model = trial.model(trial.settings(dropout=0.5))
    model.layers[0].eval()
    before, modes = torch.get_rng_state(), [m.training for m in model.modules()]

    first, second = (evaluate(model, trial.corpus.held_out, trial.tokenizer) for _ in range(2))

    assert first == second
    assert modes == [m.training for m in model.modules()]
    assert torch.equal(before, torch.get_rng_state())


def test_held_out_loss_in_its_units(trial):
    """Uniform logits cost log N_V per token; all windows together read every token but a document's first once."""
    model = trial.model(trial.settings())
    torch.nn.init.zeros_(model.W_e.weight)
    held_out = Documents([[0, 1, 2] * 7, [trial.tokenizer.bos_token, 3, trial.tokenizer.eos_token]])

    measured = evaluate(model, held_out, trial.tokenizer)
    some = evaluate(model, held_out, trial.tokenizer, tokens=10)

    nats = torch.log(torch.tensor(trial.tokenizer.N_V, dtype=torch.float64)).item()
    assert (22, 21) == (measured.tokens, measured.characters)  # eos is a target and no character
    assert pytest.approx(nats, rel=1e-6) == measured.nats_per_token
    assert pytest.approx(nats * 22 / 21, rel=1e-6) == measured.nats_per_character
    assert pytest.approx(nats * 22 / 21 * 1.4426950408889634, rel=1e-6) == measured.bits_per_character
    assert 10 == some.tokens


def test_bytes_of_one_character_are_one_character(trial):
    """Two bytes that spell one character, in two tokens, count once."""
    tokenizer = type(trial.tokenizer).train("bytepairs", ["x"], 300)
    held_out = Documents([[0, *tokenizer.encode("éa")]])

    measured = evaluate(
        DTransformer(DTransformerConfig(N_V=300, ell_max=8, L=1, H=1, d_e=4, d_mlp=4)), held_out, tokenizer
    )

    assert (3, 2) == (measured.tokens, measured.characters)


def test_random_state_of_the_caller_is_kept(trial):
    """Training draws random numbers of its own."""
    settings = trial.settings(steps=1)
    model, before = trial.model(settings), torch.get_rng_state()

    trial.train(settings, model=model)

    assert torch.equal(before, torch.get_rng_state())


def test_a_bad_gradient_stops_before_the_update(trial):
    """NaN in one element of one gradient in step 7: the error names step, batch and loss; parameters are as before."""
    settings = trial.settings(accumulate=1)
    model = trial.model(settings)
    kept, step = {}, [0]

    def poison(gradient):
        return gradient.clone().index_fill_(0, torch.tensor([0]), float("nan")) if step[0] == 6 else gradient

    def note(event):
        if isinstance(event, Stepped):
            step[0] = event.step
            kept.update({name: p.detach().clone() for name, p in model.named_parameters()})

    model.layers[0].mlp.W_mlp1.weight.register_hook(poison)

    with pytest.raises(
        NonFiniteError, match=r"step 7 \(epoch \d+, window \d+\): the loss is \d\.\d+ and .* norm .* nan"
    ):
        trial.train(settings, model=model, on_event=note)

    assert step == [6]
    for name, p in model.named_parameters():
        assert torch.equal(kept[name], p)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # torch's own, when it can compile
def test_compiled_and_plain_are_the_same_run(trial):
    """A model that is compiled, by the caller or by the settings, trains the parameters of the plain one."""
    plain = trial.train(trial.settings(steps=2))
    by_caller = trial.model(trial.settings())

    with torch.compiler.set_stance("force_eager"):  # wrapped as ever, and no wait for a compiler
        by_settings = trial.train(trial.settings(steps=2, compile=True)).model
        trial.train(trial.settings(steps=2), model=torch.compile(by_caller))

    for name, p in plain.model.named_parameters():
        assert torch.equal(p, parameters(by_settings)[name])
        assert torch.equal(p, parameters(by_caller)[name])


@pytest.mark.parametrize("precision", ["bfloat16", "auto"])
def test_precision(trial, precision):
    """bfloat16 products keep float32 parameters; auto settles on one of the two and says which."""
    done = trial.train(trial.settings(steps=2, precision=precision))

    assert {torch.float32} == {p.dtype for p in done.model.parameters()}
    assert (
        of(Started, done.events)[0].precision in {"bfloat16": ["bfloat16"], "auto": ["float32", "bfloat16"]}[precision]
    )


@pytest.mark.parametrize("faster", ["float32", "bfloat16"])
def test_auto_is_the_faster_one(trial, monkeypatch, faster):
    """Whichever of the two takes less time on this machine is taken."""
    monkeypatch.setattr("transformulary.train.precision._seconds", lambda model, loss, p: 1.0 + (p != faster))

    done = trial.train(trial.settings(steps=1, precision="auto"))

    assert faster == of(Started, done.events)[0].precision


def test_the_trial_leaves_no_trace(trial):
    """A run in the precision that auto chose is the run that auto made, bit by bit."""
    auto = trial.train(trial.settings(steps=2, precision="auto"))

    chosen = trial.train(trial.settings(steps=2, precision=of(Started, auto.events)[0].precision))

    assert [e.loss for e in of(Stepped, auto.events)] == [e.loss for e in of(Stepped, chosen.events)]
    for name, p in auto.model.named_parameters():
        assert torch.equal(p, parameters(chosen.model)[name])


def test_auto_keeps_float64(trial):
    """A float64 model stays one."""
    settings = trial.settings(steps=1, precision="auto")

    done = trial.train(settings, model=trial.model(settings).double())

    assert "float64" == of(Started, done.events)[0].precision
    assert {torch.float64} == {p.dtype for p in done.model.parameters()}


def test_time_is_a_limit(trial, monkeypatch):
    """A limit in seconds ends training after the step in which it passes."""
    clock = iter(range(10**6))
    monkeypatch.setattr("transformulary.train.run.perf_counter", lambda: float(next(clock)))

    events = trial.train(trial.settings(steps=0, seconds=30.0)).events

    assert 2 <= len(of(Stepped, events)) <= 15
    assert 30 <= events[-1].seconds


def test_no_held_out_text_no_measurement(trial):
    """Without held-out text training works and reports no held-out loss."""
    told = []
    settings = trial.settings(steps=2, eval_every=1)

    DTraining(
        trial.model(settings),
        Corpus(trial.tokenizer, trial.corpus.training, Documents([])),
        settings,
        on_event=told.append,
    )

    assert [] == of(Evaluated, told)
    assert 2 == len(of(Stepped, told))


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mask": "full"}, ConfigError, "mask full lets a token see later ones"),
        ({"N_V": 5}, ConfigError, "N_V = 5 of the model is less than the tokenizer's"),
    ],
)
def test_what_cannot_go_together(trial, change, error, message):
    """A model that could see its targets, or lacks tokens of the text, is refused before the first step."""
    config = DTransformerConfig.from_dict(trial.config.to_dict() | change)

    with pytest.raises(error, match=message):
        DTraining(DTransformer(config), trial.corpus, trial.settings(dropout=0.0))


def test_dropout_is_said_once(trial):
    """A model built with another dropout than the settings name is refused."""
    with pytest.raises(ConfigError, match=r"built with dropout = 0\.0, the settings say 0\.1"):
        DTraining(DTransformer(trial.config), trial.corpus, trial.settings())


def test_text_of_one_token(trial):
    """One token has no next one: an error before anything happens."""
    with pytest.raises(DataError, match="has 1 token; predicting the next one needs at least 2"):
        DTraining(
            trial.model(trial.settings()), Corpus(trial.tokenizer, Documents([[1]]), Documents([])), trial.settings()
        )

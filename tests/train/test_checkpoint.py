"""Stopping and going on; files that are whole or refused."""

import resource
from dataclasses import replace

import pytest
import torch

from transformulary import models
from transformulary.data import corpus
from transformulary.errors import CheckpointError
from transformulary.formats.state import NAME
from transformulary.tokens import Tokenizer
from transformulary.train import NonFiniteError, Saved, Stepped, load_state
from transformulary.train.checkpoint import State, save_state


def losses(events):
    return [(event.step, event.loss, event.epoch) for event in events if isinstance(event, Stepped)]


def same(a, b):
    """Two states that agree in every bit; time is no part of that."""
    times = [{**state.progress, "seconds": 0.0} for state in (a, b)]
    return (
        times[0] == times[1]
        and a.tensors.keys() == b.tensors.keys()
        and all(torch.equal(t, b.tensors[name]) for name, t in a.tensors.items())
    )


def test_stopped_again_and_again_is_the_straight_run(trial, tmp_path, stop_after):
    """Stopped after 1, 7, 10 and 13 steps and taken up each time, 20 steps are bit by bit those of one run.

    Parameters, moments, random state, order of samples, losses: with dropout, shuffling, several epochs,
    accumulation and warm-up.
    """
    straight = trial.train(trial.settings(), folder=tmp_path / "straight")
    events, done, state = [], 0, None

    for until in (1, 7, 10, 13, 20):
        events += trial.train(
            trial.settings(), folder=tmp_path / "pieces", state=state, stop=stop_after(until - done)
        ).events
        done, state = until, load_state(tmp_path / "pieces")

    assert losses(straight.events) == losses(events)
    assert losses(events)[-1][2] > 2
    assert same(load_state(tmp_path / "straight"), state)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # torch's own, when it can compile
def test_compiled_resumes_plain_and_back(trial, tmp_path, stop_after):
    """Names in the file know nothing of wrappers: a compiled run goes on plain, and the other way round."""
    straight = trial.train(trial.settings(), folder=tmp_path / "straight")
    compiled = replace(trial.settings(), compile=True)

    with torch.compiler.set_stance("force_eager"):
        trial.train(compiled, folder=tmp_path / "x", stop=stop_after(3))
        trial.train(trial.settings(), folder=tmp_path / "x", state=load_state(tmp_path / "x"), stop=stop_after(3))
        resumed = trial.train(compiled, folder=tmp_path / "x", state=load_state(tmp_path / "x"))

    assert losses(straight.events)[6:] == losses(resumed.events)
    assert not [name for name in load_state(tmp_path / "x").tensors if "_orig_mod" in name]
    assert load_state(tmp_path / "straight").tensors.keys() == load_state(tmp_path / "x").tensors.keys()


def test_folder_is_the_trained_model(trial, tmp_path):
    """What `models.load` reads computes what the trained model computes, and spells as its tokenizer does."""
    done = trial.train(trial.settings(steps=2), folder=tmp_path)
    x = torch.tensor([[1, 2, 3]])

    loaded = models.load(tmp_path)

    assert torch.equal(done.model.eval()(x), loaded.model(x))
    assert trial.tokenizer.encode("the fox") == loaded.tokenizer.encode("the fox")


def test_a_longer_run_goes_on_from_a_finished_one(trial, tmp_path):
    """The limit may move: ten steps more after the tenth, and the first resumed step is the eleventh."""
    trial.train(trial.settings(steps=10, warmup=1), folder=tmp_path)

    more = trial.train(trial.settings(steps=20, warmup=1), folder=tmp_path, state=load_state(tmp_path))

    assert list(range(11, 21)) == [step for step, _, _ in losses(more.events)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"eta": 0.5}, "training.eta was 0.001, now it is 0.5"),
        ({"batch": 5}, "training.batch was 4, now it is 5"),
        ({"precision": "bfloat16"}, "training.precision was 'float32', now it is 'bfloat16'"),
    ],
)
def test_other_settings_are_refused(trial, tmp_path, change, message):
    """A run that would not be the same one names the key and both values."""
    trial.train(trial.settings(steps=1), folder=tmp_path)

    with pytest.raises(CheckpointError, match=message):
        trial.train(trial.settings(steps=2, **change, warmup=1), folder=tmp_path, state=load_state(tmp_path))


def test_another_text_is_refused(trial, tmp_path):
    """A text that changed by one character is another run."""
    settings = trial.settings(steps=1)
    trial.train(settings, folder=tmp_path)
    other = type(trial)()
    other.corpus = corpus(["the lazy dog jumps over the quick brown fox. " * 5], other.tokenizer)

    with pytest.raises(CheckpointError, match=r"sha256 of the token ids was '[0-9a-f]{64}', now it is '[0-9a-f]{64}'"):
        other.train(settings, folder=tmp_path, state=load_state(tmp_path))


def test_auto_resumes_in_the_precision_that_it_chose(trial, tmp_path, stop_after):
    """The trial is not repeated: what was float32 stays float32."""
    trial.train(trial.settings(steps=4, precision="float32"), folder=tmp_path, stop=stop_after(2))

    more = trial.train(trial.settings(steps=4, precision="auto"), folder=tmp_path, state=load_state(tmp_path))

    assert "float32" == more.events[0].precision
    assert [3, 4] == [step for step, _, _ in losses(more.events)]


def test_no_training_there(tmp_path):
    """A folder without a state says so."""
    with pytest.raises(CheckpointError, match=r"has no training\.safetensors: there is no training to resume"):
        load_state(tmp_path)


def test_a_file_cut_anywhere_is_refused_by_name(tmp_path):
    """Whatever byte a file is cut after, the error names it."""
    save_state(tmp_path, small_state(1))
    whole = (tmp_path / NAME).read_bytes()

    for length in [0, 1, 7, 8, 9, 50, len(whole) // 2, len(whole) - 1]:
        (tmp_path / NAME).write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=NAME):
            load_state(tmp_path)


def test_a_changed_byte_is_noticed(tmp_path):
    """One bit of one parameter that is not what was saved is an error."""
    save_state(tmp_path, small_state(1))
    content = bytearray((tmp_path / NAME).read_bytes())
    content[-1] ^= 1
    (tmp_path / NAME).write_bytes(content)

    with pytest.raises(CheckpointError, match=rf"{NAME} is damaged"):
        load_state(tmp_path)


def test_a_bad_step_keeps_the_last_good_checkpoint(trial, tmp_path):
    """With a checkpoint per step and a NaN in step 7, the file is that of step 6 and all finite."""
    settings = trial.settings(save_every=1)
    model, saved = trial.model(settings), []
    model.W_p.weight.register_hook(lambda gradient: gradient * (float("nan") if saved[-1:] == [6] else 1.0))

    with pytest.raises(NonFiniteError, match="step 7 "):
        trial.train(
            settings,
            model=model,
            folder=tmp_path,
            on_event=lambda event: isinstance(event, Saved) and saved.append(event.step),
        )

    state = load_state(tmp_path)
    assert 6 == state.progress["step"]
    assert all(t.isfinite().all() for t in state.tensors.values())


def test_a_full_disk_keeps_the_old_file(trial, tmp_path):
    """Where a file cannot grow enough, the error says so in one line and the old files are as they were."""
    trial.train(trial.settings(steps=1), folder=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(CheckpointError, match=r"step 2 cannot be saved in .*: File too large"):
            trial.train(trial.settings(steps=2, warmup=1), folder=tmp_path, state=load_state(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}


def test_a_changed_header_is_noticed(tmp_path):
    """What the header says is under the checksum too: a step that is not the one that was saved is an error."""
    save_state(tmp_path, small_state(10))
    content = (tmp_path / NAME).read_bytes()
    changed = content.replace(rb"\"step\": 10", rb"\"step\": 11")
    (tmp_path / NAME).write_bytes(changed)

    assert content != changed
    with pytest.raises(CheckpointError, match="does not have the checksum in its header"):
        load_state(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[("step", value) for value in ("x", None, -5, 1.5, True)],
        *[("window", -3), ("epoch", "a"), ("tokens", 1e3)],
        *[("seconds", value) for value in (float("nan"), float("inf"), -1.0, 3)],
    ],
)
def test_counters_that_count_nothing(tmp_path, key, value):
    """A counter of the wrong kind, whoever wrote it, is refused in one line."""
    state = small_state(1)
    save_state(tmp_path, replace(state, progress=state.progress | {key: value}))

    with pytest.raises(CheckpointError, match=f"{NAME} has values in its header that are none"):
        load_state(tmp_path)


def test_a_later_format_says_so(tmp_path, monkeypatch):
    """A file of another format is refused by its number."""
    monkeypatch.setattr("transformulary.train.checkpoint.FORMAT", 3)
    save_state(tmp_path, small_state(1))
    monkeypatch.undo()

    with pytest.raises(CheckpointError, match="has format 3; this version reads format 2"):
        load_state(tmp_path)


def test_no_update_that_is_not_finite_is_saved(trial, tmp_path):
    """An update that ruins a parameter ends the run, names the step, and leaves the checkpoint of the step before.

    Nothing but the parameters shows it: loss and gradient of the step were finite.
    """
    settings = trial.settings(steps=7, save_every=1)

    def ruin(event):
        if isinstance(event, Stepped) and event.step == 7:
            model.layers[0].mlp.W_mlp1.weight.data[0, 0] = float("nan")

    model = trial.model(settings)
    with pytest.raises(
        NonFiniteError, match=r"step 7: its update left layers.0.mlp.W_mlp1.weight \(itself\) not finite"
    ):
        trial.train(settings, model=model, folder=tmp_path, on_event=ruin)

    assert 6 == load_state(tmp_path).progress["step"]
    assert all(p.isfinite().all() for p in models.load(tmp_path).model.parameters())


def test_no_model_whose_held_out_loss_is_not_finite_is_saved(trial, tmp_path):
    """Parameters so large that the held-out loss overflows: the run ends, and the checkpoint before stays."""
    settings = trial.settings(steps=3, save_every=1)

    def ruin(event):
        if isinstance(event, Stepped) and event.step == 3:
            model.norm.weight.data.fill_(3e38)
            model.W_e.weight.data.mul_(1e9)

    model = trial.model(settings)
    with pytest.raises(NonFiniteError, match=r"step 3: the held-out loss is (nan|inf), so this is no model"):
        trial.train(settings, model=model, folder=tmp_path, on_event=ruin)

    assert 2 == load_state(tmp_path).progress["step"]


def test_seconds_are_of_training(trial, tmp_path, monkeypatch):
    """What `Finished` and the saved state call seconds ends with the last step: no measurement, no saving."""
    clock = [0.0]

    def now():
        clock[0] += 1e-3
        return clock[0]

    def tick(event):
        clock[0] += 1.0 if isinstance(event, Stepped) else 100.0

    monkeypatch.setattr("transformulary.train.run.perf_counter", now)

    events = trial.train(trial.settings(steps=5), folder=tmp_path, on_event=tick).events

    assert pytest.approx(105, abs=0.5) == events[-1].seconds  # of which 100 are the first event's
    assert events[-1].seconds == load_state(tmp_path).progress["seconds"]


def small_state(step):
    progress = {"step": step, "seconds": 1.0, "tokens": 9, "epoch": 0, "window": 4}
    tokenizer = Tokenizer.train("characters", ["abc"])
    return State({"theta.w": torch.full((1000,), float(step))}, progress, {"model": {}, "training": {}}, tokenizer)

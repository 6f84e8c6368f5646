"""transformulary train TEXT... --out FOLDER: train a GPT on your own text.

Algorithm 13 for the decoder-only transformer.  The last tenth of the text is held out, and the loss on it is
reported.  FOLDER gets the model in the ecosystem's files (model.safetensors, config.json, tokenizer.json,
generation_config.json), training.safetensors, from which `--resume FOLDER` goes on bit by bit, and
training.toml, every option as it was used: `--config FOLDER/training.toml` repeats the run.

Options are also keys of the TOML file given by --config, in its sections [data], [model] and [training]
(`--ell-max 64` is `ell_max = 64` in [model]); what the command line says counts more.

Progress is on stderr, the summary on stdout.  Exit status: 0 trained, 1 the loss was not finite (the last
checkpoint is kept), 2 something to mend, 130 stopped by Ctrl-C (143 by SIGTERM) after saving.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from transformulary.cli._fields import add_fields, given, nearest, read_toml, write_toml
from transformulary.errors import CheckpointError, ConfigError, DataError, require

if TYPE_CHECKING:
    from transformulary.data import Corpus
    from transformulary.nn import DTransformer
    from transformulary.paper import DTransformerConfig
    from transformulary.paper.settings import TrainingSettings
    from transformulary.tokens import Tokenizer
    from transformulary.train import Event, State

SECTIONS = ("data", "model", "training")
#: Tokenizers that are learned from the text.
LEARNED = ("characters", "words", "bytepairs")
#: The default model: small, and saved in GPT-2's format.
MODEL: dict[str, Any] = {
    "L": 4,
    "H": 4,
    "d_e": 128,
    "ell_max": 128,
    "eps": 1e-5,
    "activation": "gelu_tanh",
    "tied": True,
}


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Where the token ids come from.

    text        text files, or folders with *.txt files
    tokenizer   characters, words, bytepairs (learned from the text), or the folder of a tokenizer
    vocabulary  largest number of tokens learned; 0 = all characters, 4096 words or byte pairs
    held_out    last part of the text, as a fraction of its characters, that is only measured on; 0 = none
    """

    text: list[str] = field(default_factory=list)
    tokenizer: str = "bytepairs"
    vocabulary: int = 0
    held_out: float = 0.1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; those of [model] and [training] are the fields of their classes."""
    from transformulary.paper import DTransformerConfig
    from transformulary.paper.settings import TrainingSettings

    texts = "text files, or folders with *.txt files"
    parser.add_argument("text", nargs="*", metavar="TEXT", default=argparse.SUPPRESS, help=texts)
    parser.add_argument("--out", metavar="FOLDER", help="where the model goes (default: none; needed unless --resume)")
    parser.add_argument("--config", metavar="FILE.toml", help="options from a file (default: none)")
    parser.add_argument("--resume", metavar="FOLDER", help="go on with the training saved there (default: none)")
    parser.add_argument("--overwrite", action="store_true", help="replace the model that --out holds (default: no)")
    parser.add_argument("--json", action="store_true", help="one JSON object per event on stdout (default: no)")
    add_fields(parser.add_argument_group("the text, [data]"), DataOptions, {}, ["text"])
    add_fields(parser.add_argument_group("the model, [model]"), DTransformerConfig, MODEL | {"d_mlp": "4 d_e"}, ["N_V"])
    add_fields(parser.add_argument_group("training, [training]"), TrainingSettings, {})


def run(args: argparse.Namespace) -> int:
    """Train, or go on training; returns the exit status."""
    require("torch", "torch", "training")
    plan = Plan.of(args)
    from transformulary.cli._progress import Display
    from transformulary.files import write_atomically
    from transformulary.train import DTraining, NonFiniteError, Started

    model, corpus, state = prepare(plan)
    display = Display(plan.settings, plan.folder, json=args.json)

    def on_event(event: Event) -> None:
        if isinstance(event, Started):  # everything has been checked: the first file is written
            write_atomically(plan.folder / "training.toml", plan.resolved(model.config, event.precision))
        display(event)

    try:
        with Stop() as stop, display:
            DTraining(model, corpus, plan.settings, folder=plan.folder, state=state, on_event=on_event, stop=stop)
    except NonFiniteError as error:
        print(f"transformulary train: {error} {kept(plan.folder)}", file=sys.stderr)
        return 1
    if stop.signal and display.interrupted:
        print(f"stopped; go on with: transformulary train --resume {shlex.quote(str(plan.folder))}", file=sys.stderr)
        return 128 + stop.signal
    return 0


def kept(folder: Path) -> str:
    """Which checkpoint is left, in words."""
    from transformulary.train import load_state

    try:
        return f"{folder} holds the state after step {load_state(folder).progress['step']}."
    except CheckpointError:
        return f"{folder} holds no checkpoint yet."


@dataclass(frozen=True)
class Plan:
    """What the command line and the files ask for, checked as far as is possible without the text."""

    folder: Path
    data: DataOptions
    model: dict[str, Any]
    settings: TrainingSettings
    resume: bool

    @classmethod
    def of(cls, args: argparse.Namespace) -> Plan:
        """Raises ConfigError, CheckpointError; reads no text and writes nothing."""
        from transformulary.paper import DTransformerConfig
        from transformulary.paper.settings import TrainingSettings

        folder = output_folder(args)
        source = args.config or (folder / "training.toml" if args.resume else None)
        file = read_toml(source, SECTIONS) if source else {name: {} for name in SECTIONS}
        data = data_options(file["data"] | given(args, DataOptions))
        settings = TrainingSettings.from_dict(file["training"] | given(args, TrainingSettings))
        model = MODEL | file["model"] | given(args, DTransformerConfig)
        model.setdefault("d_mlp", 4 * model["d_e"])
        DTransformerConfig.from_dict({"N_V": 1} | model)  # complains before a long text is read
        return cls(folder, data, model, settings, bool(args.resume))

    def resolved(self, config: DTransformerConfig, precision: str) -> str:
        """The TOML text with which `--config` repeats this run."""
        data = vars(self.data) | {"text": [os.path.abspath(path) for path in self.data.text]}
        training = self.settings.to_dict() | {"precision": precision}
        return write_toml({"data": data, "model": config.to_dict(), "training": training})


def output_folder(args: argparse.Namespace) -> Path:
    """Where the model goes.  Raises ConfigError if that is not said, or would lose a model."""
    if args.resume:
        if args.out and Path(args.out) != Path(args.resume):
            raise ConfigError(f"--resume {args.resume} goes on in its own folder; leave --out {args.out} out.")
        if not (Path(args.resume) / "training.safetensors").is_file():
            raise CheckpointError(f"{args.resume} has no training.safetensors: there is no training to resume.")
        return Path(args.resume)
    if not args.out:
        raise ConfigError("--out FOLDER is needed: it says where the model goes.")
    folder = Path(args.out)
    there = [name for name in ("training.safetensors", "model.safetensors") if (folder / name).exists()]
    if there and not args.overwrite:
        raise ConfigError(
            f"{folder} already holds a model ({there[0]}): --resume {folder} goes on with it, --overwrite replaces it."
        )
    return folder


def data_options(options: Mapping[str, Any]) -> DataOptions:
    """The section [data].  Raises ConfigError for an unknown key, a value of the wrong kind, or no text."""
    defaults = DataOptions()
    for key, value in options.items():
        if not hasattr(defaults, key):
            raise ConfigError(f"[data] has no key {key!r}. {nearest(key, vars(defaults))}")
        wanted = (int, float) if key == "held_out" else type(getattr(defaults, key))
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ConfigError(f"[data] {key} = {value!r} is of the wrong kind; the default is {vars(defaults)[key]!r}.")
    if not options.get("text"):
        raise ConfigError("name at least one text file to learn from.")
    data = DataOptions(**options)
    if data.tokenizer not in LEARNED and data.vocabulary:
        raise ConfigError(
            f"vocabulary = {data.vocabulary} says how many tokens to learn, and {data.tokenizer} is learned."
        )
    return replace(data, held_out=float(data.held_out))


def prepare(plan: Plan) -> tuple[DTransformer, Corpus, State | None]:
    """The model, the token ids and the state to go on from."""
    from transformulary.data import corpus, read_texts
    from transformulary.paper import DTransformerConfig
    from transformulary.tokens import Tokenizer
    from transformulary.train import initial_model, load_state

    state = load_state(plan.folder) if plan.resume else None
    for half_written in plan.folder.glob(".*.tmp") if plan.resume else ():  # by a run that was killed
        half_written.unlink()
    texts = read_texts(plan.data.text)
    tokenizer = Tokenizer.load(plan.folder) if plan.resume else make_tokenizer(plan.data, texts)
    ids = corpus(texts, tokenizer, plan.data.held_out)
    config = DTransformerConfig.from_dict({"N_V": tokenizer.N_V} | plan.model)
    refuse_short(ids, config.ell_max)
    return initial_model(config, plan.settings), ids, state


def refuse_short(ids: Corpus, ell_max: int) -> None:
    """Raise DataError if no text fills the context: the last positions would never be learned."""
    longest = max(ids.training.bounds.diff().tolist(), default=0)
    if 2 <= longest <= ell_max:
        raise DataError(
            f"the longest text to learn from has {longest} tokens, and the context is ell_max = {ell_max}: positions "
            f"after {longest - 1} would never be learned. Give more text, or --ell-max {longest - 1}."
        )


def make_tokenizer(options: DataOptions, texts: list[str]) -> Tokenizer:
    """Learn a vocabulary, or load one.

    Byte pairs are learned from the part that the model learns from; characters and words from all the
    text, since the held-out part must be spelled too.
    """
    from transformulary.data import split
    from transformulary.tokens import Tokenizer

    if options.tokenizer not in LEARNED:
        if not Path(options.tokenizer).exists():
            raise ConfigError(f"tokenizer = {options.tokenizer!r} is no folder, and none of {', '.join(LEARNED)}.")
        return Tokenizer.load(options.tokenizer)
    if options.tokenizer == "bytepairs":
        texts = [piece.text for piece in split(texts, options.held_out)[0]]
    return Tokenizer.train(options.tokenizer, texts, options.vocabulary or None)


class Stop:
    """Turns the first Ctrl-C or SIGTERM into a wish to stop after the step; the second one acts as usual."""

    signal: int = 0

    def __enter__(self) -> Stop:
        self._before: dict[int, Any] = {n: signal.signal(n, self._note) for n in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def __call__(self) -> bool:
        return self.signal != 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

"""transformulary train TEXT... --out FOLDER: train a GPT on your own text.

Algorithm 13 for the decoder-only transformer.  The last tenth of the text is held out, and the loss on it is
reported.  FOLDER gets the model in the ecosystem's files (model.safetensors, config.json, tokenizer.json,
generation_config.json), training.safetensors, from which alone `--resume FOLDER` goes on bit by bit, and
training.toml, every option as it was used: `--config FOLDER/training.toml` repeats the run.

Options are also keys of the TOML file given by --config, in its sections [data], [model] and [training]
(`--ell-max 64` is `ell_max = 64` in [model]); what the command line says counts more.

Progress is on stderr, the summary on stdout.  Exit status: 0 trained, 1 the loss or the model was not finite (the
last checkpoint is kept), 2 something to mend, 130 stopped by Ctrl-C (143 by SIGTERM) after saving.
"""

from __future__ import annotations

import argparse
import hashlib
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
#: How options are typed whose values are words of a language of their own.
NOTES = {
    "mask": 'which tokens a token looks at: causal, or for example "local(64)" (the nearest 64) or "local(8) | '
    'strided(8)"; repeat the option for a cycle that the layers go through: --mask causal --mask "local(64)"',
    "positions": "where tokens get their position from: learned, nowhere (none), a formula (sinusoid, "
    "sinusoid_vaswani, sinusoid_halves, sinusoid_t2t), or inside attention (rotary, relative, bucketed)",
    "absent": "a parameter that the model lacks, b_q for example; repeat the option for several. What is given stands "
    "instead of the default: --absent b_q alone has an output bias b_u, --absent b_q --absent b_u has neither",
}
#: The largest vocabulary that is learned.
LARGEST = 2**20
#: What a run writes, and may leave half-written when it is killed.
FILES = (
    *("training.safetensors", "training.toml", "model.safetensors", "config.json", "generation_config.json"),
    *("tokenizer.json", "tokenizer_config.json"),
)


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

    texts, defaults = "text files, or folders with *.txt files", MODEL | {"d_mlp": "4 d_e"}
    parser.add_argument("text", nargs="*", metavar="TEXT", default=argparse.SUPPRESS, help=texts)
    parser.add_argument("--out", metavar="FOLDER", help="where the model goes (default: none; needed unless --resume)")
    parser.add_argument("--config", metavar="FILE.toml", help="options from a file (default: none)")
    parser.add_argument("--resume", metavar="FOLDER", help="go on with the training saved there (default: none)")
    parser.add_argument("--overwrite", action="store_true", help="replace the model that --out holds (default: no)")
    parser.add_argument("--json", action="store_true", help="one JSON object per event on stdout (default: no)")
    add_fields(parser.add_argument_group("the text, [data]"), DataOptions, {}, ["text"])
    add_fields(parser.add_argument_group("the model, [model]"), DTransformerConfig, defaults, ["N_V"], NOTES)
    add_fields(parser.add_argument_group("training, [training]"), TrainingSettings, {})


def run(args: argparse.Namespace) -> int:
    """Train, or go on training; returns the exit status."""
    require("torch", "torch", "training")
    from transformulary.files import claimed

    folder = output_folder(args)
    with claimed(folder):
        refuse_loss(folder, args)
        for half_written in (path for name in FILES for path in folder.glob(f".{name}.*.tmp")):  # by a killed run
            half_written.unlink()
        return train(Plan.of(args, folder), args.json)


def train(plan: Plan, json: bool) -> int:
    """Carry out the plan, in a folder that nobody else writes to."""
    from transformulary.cli._progress import Display
    from transformulary.train import DTraining, NonFiniteError, Saved, Started

    model, corpus, files = prepare(plan)
    display = Display(plan.settings, plan.folder, json=json)
    options: list[str] = []

    def on_event(event: Event) -> None:
        if isinstance(event, Started):
            options.append(plan.resolved(model.config, event.precision))
        if isinstance(event, Saved) and options:  # not before: they are of the run that the folder now holds
            write(plan.folder / "training.toml", options.pop())
        display(event)

    try:
        with Stop() as stop, display:
            about = {"data": plan.recorded, "files": files}
            DTraining(
                model,
                corpus,
                plan.settings,
                folder=plan.folder,
                state=plan.state,
                about=about,
                on_event=on_event,
                stop=stop,
            )
    except NonFiniteError as error:
        print(f"transformulary train: {error} {kept(plan.folder)}", file=sys.stderr)
        return 1
    if stop.signal and display.interrupted:
        print(f"stopped; go on with: transformulary train --resume {shlex.quote(str(plan.folder))}", file=sys.stderr)
        return 128 + stop.signal
    return 0


def write(path: Path, text: str) -> None:
    """Write a file beside the checkpoint.  Raises CheckpointError if it cannot be done."""
    from transformulary.files import write_atomically

    try:
        write_atomically(path, text)
    except OSError as error:
        raise CheckpointError(
            f"{path} cannot be written: {error.strerror}. "
            f"Make room, then go on: transformulary train --resume {shlex.quote(str(path.parent))}"
        ) from error


def kept(folder: Path) -> str:
    """Which checkpoint is left, in words."""
    from transformulary.train import load_state

    try:
        return f"{folder} holds the state after step {load_state(folder).progress['step']}."
    except CheckpointError:
        return f"{folder} holds no checkpoint."


@dataclass(frozen=True)
class Plan:
    """What the command line and the files ask for, checked as far as is possible without the text."""

    folder: Path
    data: DataOptions
    model: dict[str, Any]
    settings: TrainingSettings
    state: State | None

    @classmethod
    def of(cls, args: argparse.Namespace, folder: Path) -> Plan:
        """Raises ConfigError, CheckpointError; reads no text and writes nothing."""
        from transformulary.paper import DTransformerConfig
        from transformulary.paper.settings import TrainingSettings
        from transformulary.train import check_same_run, load_state, refuse_huge

        state = load_state(folder) if args.resume is not None else None
        saved = options_of(state, folder) if state else {"data": {}, "model": MODEL, "training": {}}
        file = {name: {} for name in SECTIONS} if args.config is None else read_toml(args.config, SECTIONS)
        data = data_options(saved["data"] | file["data"] | given(args, DataOptions))
        settings = TrainingSettings.from_dict(saved["training"] | file["training"] | given(args, TrainingSettings))
        model = saved["model"] | file["model"] | given(args, DTransformerConfig)
        d_e = model["d_e"]
        model.setdefault("d_mlp", 4 * d_e if type(d_e) is int else d_e)  # what is no number is complained about below
        refuse_huge(DTransformerConfig.from_dict({"N_V": 1} | model))  # before a long text is read
        plan = cls(folder, data, model, settings, state)
        recorded = plan.recorded
        if state:  # the text may have moved: its token ids are compared later
            check_same_run({"data": saved["data"]}, {"data": recorded | {"text": saved["data"]["text"]}})
        return plan

    @property
    def recorded(self) -> dict[str, Any]:
        """The section [data], as it means the same in any folder.  Raises ConfigError for a path that is not UTF-8."""
        learned = self.data.tokenizer in LEARNED
        tokenizer = self.data.tokenizer if learned else absolute(self.data.tokenizer)
        return vars(self.data) | {"text": [absolute(path) for path in self.data.text], "tokenizer": tokenizer}

    def resolved(self, config: DTransformerConfig, precision: str) -> str:
        """The TOML text with which `--config` repeats this run."""
        training = self.settings.to_dict() | {"precision": precision}
        return write_toml({"data": self.recorded, "model": config.to_dict(), "training": training})


def options_of(state: State, folder: Path) -> dict[str, dict[str, Any]]:
    """The options that a training was started with.  Raises CheckpointError if it was not started here."""
    data = state.about.get("data")
    if not isinstance(data, dict) or data.keys() != vars(DataOptions()).keys():
        raise CheckpointError(
            f"{folder} holds a training that `transformulary train` did not start, so where its text is is not known."
        )
    return {"data": data, "model": state.config["model"], "training": state.config["training"]}


def absolute(path: str) -> str:
    """The path from the root.  Raises ConfigError if it is not UTF-8."""
    full = os.path.abspath(path)
    try:
        full.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the name {full!a} is not UTF-8, so no file can record it. Rename it.") from None
    return full


def output_folder(args: argparse.Namespace) -> Path:
    """Where the model goes.  Raises ConfigError if that is not said, CheckpointError if there is nothing to resume."""
    if args.resume is None:
        if not args.out:
            raise ConfigError("--out FOLDER is needed: it says where the model goes.")
        return Path(args.out)
    if args.out and Path(args.out) != Path(args.resume):
        raise ConfigError(f"--resume {args.resume} goes on in its own folder; leave --out {args.out} out.")
    if args.overwrite:
        raise ConfigError(f"--resume {args.resume} goes on with what --overwrite would replace; leave one of them out.")
    if not args.resume or not (Path(args.resume) / "training.safetensors").is_file():
        raise CheckpointError(f"{args.resume!r} has no training.safetensors: there is no training to resume.")
    return Path(args.resume)


def refuse_loss(folder: Path, args: argparse.Namespace) -> None:
    """Raise ConfigError if a model would be replaced that nobody said may be."""
    there = [name for name in ("training.safetensors", "model.safetensors") if (folder / name).exists()]
    if there and args.resume is None and not args.overwrite:
        raise ConfigError(
            f"{folder} already holds a model ({there[0]}): --resume {folder} goes on with it, --overwrite replaces it."
        )


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
    if not all(isinstance(path, str) and path for path in (*options["text"], options.get("tokenizer", "bytepairs"))):
        raise ConfigError("a path is empty, or no text: it names no file. Is a variable of the shell not set?")
    data = DataOptions(**options)
    if not 0 <= data.vocabulary <= LARGEST:
        raise ConfigError(f"vocabulary = {data.vocabulary} is outside [0, {LARGEST}].")
    if data.tokenizer not in LEARNED and data.vocabulary:
        raise ConfigError(
            f"vocabulary = {data.vocabulary} says how many tokens to learn, and {data.tokenizer} is learned."
        )
    return replace(data, held_out=float(data.held_out))


def prepare(plan: Plan) -> tuple[DTransformer, Corpus, list[dict[str, Any]]]:
    """The model, the token ids, and what identifies each file that they are of."""
    from transformulary.data import corpus, read_texts, text_files
    from transformulary.paper import DTransformerConfig
    from transformulary.train import initial_model

    texts = read_texts(plan.data.text)
    tokenizer = plan.state.tokenizer if plan.state else make_tokenizer(plan.data, texts)
    ids = corpus(texts, tokenizer, plan.data.held_out)
    config = DTransformerConfig.from_dict({"N_V": tokenizer.N_V} | plan.model)
    refuse_short(ids, config.ell_max)
    paths = [file for path in plan.data.text for file in text_files(Path(path))]
    files = [identified(path, text) for path, text in zip(paths, texts, strict=True)]
    return initial_model(config, plan.settings), ids, files


def identified(path: Path, text: str) -> dict[str, Any]:
    """A file by its name and the fingerprint of its text."""
    return {"name": path.name, "characters": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}


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
        return _lossless(Tokenizer.load(options.tokenizer), options.tokenizer)
    if options.tokenizer == "bytepairs":
        texts = [piece.text for piece in split(texts, options.held_out)[0]]
    return Tokenizer.train(options.tokenizer, texts, options.vocabulary or None)


def _lossless(tokenizer: Tokenizer, where: str) -> Tokenizer:
    """Raises ConfigError for a vocabulary that training does not store."""
    if "tokenizer.json" not in tokenizer.files():
        raise ConfigError(f"tokenizer = {where!r} holds a SentencePiece model; training takes a tokenizer.json.")
    return tokenizer


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

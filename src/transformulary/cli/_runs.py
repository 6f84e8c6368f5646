"""What the folder of a trained model records of its run, and how it is to be used; read without PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformulary.cli.generate import TOKENS
from transformulary.errors import CheckpointError
from transformulary.formats import Defaults, read_json, read_metadata
from transformulary.formats.strict import parse_object
from transformulary.paper import DTransformerConfig
from transformulary.paper.practice import Inference, Practice
from transformulary.paper.settings import TrainingSettings

NAME, GENERATION = "training.safetensors", "generation_config.json"
#: The versions that are read: of the training state, and of what it records.
FORMAT, RECORD = 2, 1


@dataclass(frozen=True)
class RunOf:
    """The run of one folder: the header of its training state, and its defaults for generation."""

    config: DTransformerConfig
    settings: TrainingSettings
    progress: dict[str, Any]
    record: dict[str, Any]
    about: dict[str, Any]
    inference: Inference
    told: dict[str, float]

    @property
    def practice(self) -> Practice:
        """Algorithms 13 and 14 as they are practised here."""
        return Practice(
            training=self.settings.practice(self.progress["step"]), inference=self.inference, told=self.told
        )

    def facts(self) -> dict[str, Any]:
        """Everything that is recorded, as plain data."""
        return {
            "model": self.config.to_dict(),
            "training": self.settings.to_dict(),
            "progress": self.progress,
            **self.about,
            **self.record,
            "inference": vars(self.inference) | {name: self.told[name] for name in ("tau", "ell_gen")},
        }

    def said(self) -> tuple[str, ...]:
        """What the lines of the algorithms do not say, in sentences."""
        return (self._data(), self._steps(), *self._sessions(), self._beginning(), self._chance(), USE)

    def _data(self) -> str:
        learnt, held = (self.record["corpus"][part] for part in ("learnt from", "held out"))
        data = self.about.get("data", {})
        files = [
            f"{f['name']} ({f['characters']:,} characters, sha256 {f['sha256']})" for f in self.about.get("files", [])
        ]
        made = f" of {', '.join(files)}; tokens are {data['tokenizer']}" if files else ""
        return (
            f"Data: x has N_data = {learnt['sequences']:,} sequences, {learnt['tokens']:,} tokens together{made}; the "
            f"end of the text, {held['tokens']:,} tokens, is held out."
        )

    def _steps(self) -> str:
        s, done = self.settings, self.progress
        asked = " or ".join([f"{s.steps:,}"] * bool(s.steps) + [f"{s.seconds:g} s"] * bool(s.seconds))
        return (
            f"Steps: {done['step']:,} of {asked}, {done['tokens']:,} targets, {done['seconds']:.1f} s, ending in epoch "
            f"{done['epoch'] + 1}; {PRECISION[s.precision]}."
        )

    def _sessions(self) -> Iterator[str]:
        """Which steps were made with what; where the limits were other ones, so was the rate."""
        s, sessions = self.settings, self.record["sessions"]
        ends = [one["step"] for one in sessions[1:]] + [self.progress["step"]]
        for one, end in zip(sessions, ends, strict=True):
            versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
            limits = f"N_total = {one['steps']} and T_total = {one['seconds']:g} in Algorithm 13e; "
            other = limits if (one["steps"], one["seconds"]) != (s.steps, s.seconds) else ""
            yield f"Steps {one['step'] + 1} to {end}: {other}{versions}, {one['machine']}, threads: {one['threads']}."

    def _beginning(self) -> str:
        s = self.settings
        last = f"{s.init_residual:g} times {s.init_std:g}/sqrt(2 L)" if s.init_residual else "0"
        return (
            f"Beginning: matrices of theta are normal with standard deviation {s.init_std:g}, W_o and W_mlp2 with "
            f"{last}; biases and beta are 0, gamma is 1."
        )

    def _chance(self) -> str:
        seed = self.settings.seed
        dropout = "; dropout draws from that of the process, seeded alike" if self.settings.dropout else ""
        return (
            f"Chance: theta is drawn by a generator of PyTorch with seed {seed}; epoch k = 0, 1, ... by one with seed "
            f"({seed} * 1000003 + k) mod 2^32: first delta of every sequence (randint), then the order "
            f"(randperm){dropout}."
        )


#: Where the numbers of Algorithm 14 are from.
USE = f"Use: Algorithm 14 has what {GENERATION} says, and else the defaults of `transformulary generate`."
#: What a precision means.
PRECISION = {
    "float32": "in float32",
    "float64": "in float64",
    "bfloat16": "products in bfloat16, all else in float32",
}


def run_of(folder: str) -> RunOf:
    """The run that a folder records.

    Raises CheckpointError: nothing was trained there, or by a version that recorded less; the message says what is
    missing.
    """
    path = Path(folder) / NAME
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {NAME}: no run of `transformulary train` is recorded there.")
    header = parse_object(read_metadata(path).get("transformulary", "").encode(), f"{path}: the header's text")
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} has format {header.get('format')!r}; this version reads format {FORMAT}.")
    match header:
        case {"record": {"version": int(version)}} if version != RECORD:
            raise CheckpointError(f"{path} has a record of version {version}; this version reads version {RECORD}.")
        case {
            "progress": dict(progress),
            "config": {"model": dict(model), "training": dict(training)},
            "about": dict(about),
            "record": {"corpus": dict(), "sessions": [{"step": 0}, *_]} as record,
        }:
            config, settings = DTransformerConfig.from_dict(model), TrainingSettings.from_dict(training)
            inference, told = _use(Path(folder), config)
            return RunOf(config, settings, progress, record, about, inference, told | {"eta": settings.eta})
    raise CheckpointError(
        f"{path} was written, or begun, by an earlier version: it lacks how many sequences and tokens were learnt "
        f"from, and when, with what limits and by which versions the run went on. Train anew to have them."
    )


def _use(folder: Path, config: DTransformerConfig) -> tuple[Inference, dict[str, float]]:
    """Algorithm 14 as `generate` would run it without options."""
    path = folder / GENERATION
    defaults = Defaults.read(read_json(path) if path.is_file() else {}, config.N_V, path)
    eos = defaults.eos
    if eos is None:
        eos = [i for i in [read_json(folder / "config.json").get("eos_token_id")] if i is not None]
    drawn = defaults.filters
    greedy = drawn.tau == 0
    inference = Inference(
        top_k=0 if greedy or drawn.top_k >= config.N_V else drawn.top_k,
        top_p=1.0 if greedy else drawn.top_p,
        stop=tuple(sorted(set(eos))),
        limit=config.positions == "learned",
    )
    return inference, {"tau": drawn.tau, "ell_gen": TOKENS if defaults.ell_gen is None else defaults.ell_gen}

"""What the folder of a trained model records of its run, and how it is to be used; read without PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformulary.cli._record import PRECISION, clock, recorded
from transformulary.cli.generate import TOKENS
from transformulary.errors import CheckpointError
from transformulary.formats import Defaults, config_of, read_json
from transformulary.formats.state import NAME
from transformulary.paper import DTransformerConfig, initial
from transformulary.paper.practice import Inference, Limits, Practice
from transformulary.paper.settings import TrainingSettings
from transformulary.pseudocode.heads import costs
from transformulary.pseudocode.nodes import Line
from transformulary.pseudocode.prose import prose

GENERATION = "generation_config.json"


@dataclass(frozen=True)
class RunOf:
    """The run of one folder: what its training state records, and its defaults for generation.

    special  role -> a special token as it is spelled, and its id
    clock    the seconds before each step; None where none are recorded, of a step or at all
    """

    config: DTransformerConfig
    settings: TrainingSettings
    progress: dict[str, Any]
    record: dict[str, Any]
    about: dict[str, Any]
    inference: Inference
    told: dict[str, float]
    special: dict[str, tuple[str, int]]
    clock: list[float | None] | None

    @property
    def practice(self) -> Practice:
        """Algorithms 13 and 14 as they are practised here."""
        *earlier, last = self.limits
        training = self.settings.practice(self.progress["step"])
        training = replace(training, N_total=last.N_total, T_total=last.T_total)
        return Practice(training=training, inference=self.inference, told=self.told, sessions=tuple(earlier))

    def facts(self) -> dict[str, Any]:
        """Everything that is recorded, as plain data."""
        return {
            "model": self.config.to_dict(),
            "training": self.settings.to_dict(),
            "progress": self.progress,
            **self.about,
            **self.record,
            **({"clock": self.clock} if self.clock else {}),
            "inference": vars(self.inference) | {name: self.told[name] for name in ("tau", "ell_gen")},
        }

    def said(self) -> tuple[Line, ...]:
        """What the lines of the algorithms do not say, in sentences."""
        model = costs(self.config)
        texts = (self._data(), self._special(), self._steps(), *self._sessions())
        ways = (self._optimiser(), *self._clock(), self._beginning(), self._order(), self._chance(), *self._dropout())
        return (*model, *texts, *ways, self._use(), *self._measured())

    def _data(self) -> Line:
        learnt, held = (self.record["corpus"][part] for part in ("learnt from", "held out"))
        files = ", ".join(
            f"{f['name']} ({f['characters']:,} characters, sha256 {f['sha256']})" for f in self.about.get("files", [])
        )
        rest = f"; the last {held['tokens']:,} are held out" if held["tokens"] else ""
        return prose(
            "Data: {tokens:,} tokens{kind}{of}. {part} are trained on, as $x$ with $N_data == {n}$ sequence{plural}"
            "{rest}.",
            tokens=learnt["tokens"] + held["tokens"],
            kind=f" ({self.about['data']['tokenizer']})" if files else "",
            of=f" of {files}" if files else "",
            part=f"The first {learnt['tokens']:,}" if rest else "All",
            n=learnt["sequences"],
            plural="s" * (learnt["sequences"] != 1),
            rest=rest,
        )

    def _special(self) -> Line:
        """Which tokens stand around a text, and before a prompt."""
        (bos, bos_id), (eos, eos_id) = (self.special.get(role, ("", 0)) for role in ("bos_token", "eos_token"))
        places = [
            f"`{{{name}}}` (id {{{name}_id}}) is put {place} every text"
            for name, place in (("bos", "before"), ("eos", "after"))
        ]
        put = [words for words, token in zip(places, (bos, eos), strict=True) if token]
        added = f"{' and '.join(put)}; these are counted, and ids are from 0" if put else "none is added to a text"
        begins = "begins with `{bos}`" if bos and bos != eos else "begins with its own first token"
        empty = ", and with `{bos}` if it is empty" * bool(bos and bos == eos)
        return prose(
            f"Special tokens: {added}. A prompt of Algorithm 14 {begins}{empty}.",
            bos=bos,
            eos=eos,
            bos_id=bos_id,
            eos_id=eos_id,
        )

    def _steps(self) -> Line:
        s, done = self.settings, self.progress
        asked = " or ".join([f"{s.steps:,}"] * bool(s.steps) + [f"{s.seconds:g} s"] * bool(s.seconds))
        return prose(
            f"Steps: {done['step']:,} of {asked}, {done['tokens']:,} targets, {done['seconds']:.1f} s; epochs are "
            f"counted from $j == 0$, and the last step is in epoch $j == {done['epoch']}$; {PRECISION[s.precision]}."
        )

    def _sessions(self) -> Iterator[Line]:
        """Which steps were made with what."""
        sessions = self.record["sessions"]
        for one, end in zip(sessions, self._ends(), strict=True):
            versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
            yield prose(
                "Steps {first} to {end}: {versions}, {machine}, threads: {threads}.",
                **one | {"first": one["step"] + 1, "end": end, "versions": versions},
            )

    def _ends(self) -> list[int]:
        """The last step of each session."""
        return [one["step"] for one in self.record["sessions"][1:]] + [self.progress["step"]]

    @property
    def limits(self) -> tuple[Limits, ...]:
        """What the schedule ran to in each session; those that follow each other with the same are one."""
        every = zip(self.record["sessions"], self._ends(), strict=True)
        limits = [Limits(end, one["steps"], one["seconds"]) for one, end in every]
        ends = zip(limits, [*limits[1:], None], strict=True)
        return tuple(one for one, after in ends if not after or replace(after, until=one.until) != one)

    def _optimiser(self) -> Line:
        s = self.settings
        falls = "stays at its peak" if s.schedule == "constant" else f"falls ({s.schedule})"
        several = ", which is printed for every part of the run with limits of its own" * (len(self.limits) > 1)
        return prose(
            "Optimiser: AdamW (arXiv:1711.05101), Algorithms 13d and 13u; the rate "
            f"{falls} as Algorithm 13e says{several}."
        )

    def _clock(self) -> Iterator[Line]:
        """Where the numbers are that the rate followed, if it followed the clock."""
        begun = 1
        for one in self.limits:
            if one.T_total:
                lacks = self.clock is None or None in self.clock[begun - 1 : one.until]
                where = f"are not recorded of all steps {begun} to {one.until}: an earlier version made some of them"
                if not lacks:
                    where = (
                        f"of steps {begun} to {one.until} are the numbers of the tensor `clock` in `{NAME}`, and in "
                    )
                    where += "`describe --run --json`"
                yield prose(f"Clock: the values $clock[i]$ {where}.")
            begun = one.until + 1

    def _beginning(self) -> Line:
        s = self.settings
        times = f"${s.init_residual:g}$ times " * (s.init_residual != 1)
        last = f"{times}${s.init_std:g} / sqrt(2 * L)$" if s.init_residual else "$0$"
        values = zip(initial.constant(self.config), "01", strict=True)
        begins = [f"{listed(dict.fromkeys(map(_called, names)))} are ${n}$" for names, n in values if names]
        return prose(
            f"Beginning: matrices of $theta$ are normal with standard deviation ${s.init_std:g}$, $W_o$ and $W_mlp2$ "
            f"with {last}; {', '.join(begins)}."
        )

    def _order(self) -> Line:
        """In which order the matrices are drawn."""
        before, layer, after = (", ".join(map(_matrix, part)) for part in initial.drawn(self.config))
        return prose(
            f"Matrices are drawn in this order, each at once and by rows, $W_e$ and $W_p$ by columns, in float32: "
            f"{before}; of every layer {layer}{f'; {after}' * bool(after)}."
        )

    def _chance(self) -> Line:
        dropout = "; dropout draws from the one of the process, with seed $c$ too" if self.settings.dropout else ""
        return prose(
            f"Chance: the seed is $c == {self.settings.seed}$. $theta$ is drawn by a generator of PyTorch with seed "
            "$c$; epoch $j$ by one with seed $(1000003 * c + j) % 2**32$: first $delta$ of every sequence "
            f"(`torch.randint`), then the order (`torch.randperm`){dropout}."
        )

    def _dropout(self) -> Iterator[Line]:
        """What the page does not say, so that nobody can repeat the run from it alone."""
        if self.settings.dropout:
            yield prose(
                "With dropout this run cannot be repeated from the page alone: which entries are dropped depends on "
                "the order in which the programs of PyTorch that compute the lines draw, and that is not recorded."
            )

    def _use(self) -> Line:
        return prose(
            f"Inference: Algorithm 14 is that of `transformulary generate`, with what `{GENERATION}` says and the "
            "defaults of that command for the rest."
        )

    def _measured(self) -> Iterator[Line]:
        if measured := self.record.get("measured"):
            held = self.record["corpus"]["held out"]
            evenly = measured["tokens"] < held["tokens"] - held["sequences"]
            yield prose(
                "Held-out loss: {nats_per_token:.4f} nats per token, over {tokens:,} tokens, after step {step:,}: the "
                "mean of $-log(P[x[t + 1], t])$, in windows of at most $ell_max + 1$ tokens that begin where the one "
                "before ended, with nothing before them as context{some}.",
                **measured,
                some="; these windows are spread evenly over the held-out tokens" * evenly,
            )


def _matrix(names: tuple[str, ...]) -> str:
    """A matrix, or what one matrix holds; of all heads, if every head has one."""
    every = " of all heads" * (names[0] in ("W_q", "W_k", "W_v", "W_r"))
    joint = " as one matrix" * (len(names) > 1)
    return listed(f"${name}$" for name in names) + every + joint


def _called(vector: str) -> str:
    """What stands for a vector in a sentence: its kind, if there are several of the kind."""
    kind = re.match("(b|beta|gamma)(?:_|$)", vector)
    return f"${vector}$" if not kind else "biases" if kind[1] == "b" else f"${kind[1]}$"


def listed(words: Iterable[str]) -> str:
    """a, b and c; nothing if there are none."""
    *first, last = ["", *words]
    return " and ".join(filter(None, (", ".join(filter(None, first)), last)))


def run_of(folder: str) -> RunOf:
    """The run that a folder records.

    Raises CheckpointError: nothing was trained there, or what it records is not what this version writes (`recorded`).
    """
    path = Path(folder) / NAME
    if not path.is_file():
        where = f"{folder} is a file; name the folder" if Path(folder).is_file() else f"{folder} has no {NAME}"
        raise CheckpointError(f"{where}: no run of `transformulary train` is recorded there.")
    header = recorded(path)
    config = DTransformerConfig.from_dict(header["config"]["model"])
    if config_of(folder) != config:
        raise CheckpointError(f"{folder}: config.json is not of the model whose training {NAME} records.")
    settings = TrainingSettings.from_dict(header["config"]["training"])
    inference, told = _use(Path(folder), config)
    told |= {"eta": settings.eta}
    return RunOf(
        config=config,
        settings=settings,
        progress=header["progress"],
        record=header["record"],
        about=header["about"],
        inference=inference,
        told=told,
        special=_special(header["tokenizer"]["pipeline"], header["tokenizer"]["special"]),
        clock=clock(path, header["progress"]["step"]),
    )


def _special(pipeline: dict[str, Any], special: dict[str, str]) -> dict[str, tuple[str, int]]:
    """Each special token as it is spelled, and its id."""
    ids = {token["content"]: token["id"] for token in pipeline.get("added_tokens", [])}
    return {role: (token, ids[token]) for role, token in special.items() if token in ids}


def _use(folder: Path, config: DTransformerConfig) -> tuple[Inference, dict[str, float]]:
    """Algorithm 14 as `generate` would run it without options."""
    path = folder / GENERATION
    defaults = Defaults.read(read_json(path) if path.is_file() else {}, config.N_V, path)
    eos = defaults.eos
    if eos is None:
        config_json = folder / "config.json"
        said = {"eos_token_id": read_json(config_json).get("eos_token_id")}
        eos = Defaults.read(said, config.N_V, config_json).eos or []
    drawn = defaults.filters
    greedy = drawn.tau == 0
    inference = Inference(
        top_k=0 if greedy or drawn.top_k >= config.N_V else drawn.top_k,
        top_p=1.0 if greedy else drawn.top_p,
        stop=tuple(sorted(set(eos))),
        limit=config.positions == "learned",
    )
    return inference, {"tau": drawn.tau, "ell_gen": TOKENS if defaults.ell_gen is None else defaults.ell_gen}

"""transformulary demo: train a small GPT on Shakespeare, watch it, compare it with the paper.

In about two minutes on two processor cores: fetches text, learns a vocabulary, trains a decoder-only transformer
(Algorithm 13), saves it in GPT-2's format, lets it write (Algorithm 14), compares it with the oracle line by line
(Algorithm 10), and writes its pseudocode and its attention into a folder.  Last it gives the model's weights to an
ordinary PyTorch GPT with a mistake, and says which line that is.  A model that is already there is used again.
Needs pip install 'transformulary[torch,plot]'.

Results are on stdout, progress is on stderr.  Exit status: 0 done, 1 a line of the model disagrees with the paper.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformulary.errors import CheckpointError, ConfigError, require

if TYPE_CHECKING:
    from transformulary.data import Corpus, Documents, Piece
    from transformulary.nn import DTransformer
    from transformulary.paper.settings import TrainingSettings
    from transformulary.tokens import Tokenizer

#: Characters of text that the model may see in training, repetitions counted.
CHARACTERS = 1_200_000
#: The vocabulary, the model and its training; found by measuring, see docs/decisions.
VOCABULARY = 4096
MODEL: dict[str, Any] = {"L": 2, "H": 3, "d_e": 192, "ell_max": 64, "d_mlp": 768} | {
    "eps": 1e-5,
    "activation": "gelu_tanh",
    "tied": True,
}
TRAINING: dict[str, Any] = {
    "batch": 4,
    "eta": 1e-3,
    "eta_embedding": 4.0,
    "beta_2": 0.99,
    "schedule": "linear",
    "floor": 0.0,
    "init_residual": 0.0,
    "eval_every": 0,  # only at the end, and then on
    "eval_tokens": 49152,
    "save_every": 0,
}
#: Text to continue, where the training text is Shakespeare and where it is not.
PROMPTS = ("ROMEO.\nBut soft! What", "The ")
FACTS = "demo.json"
#: The GPT with a mistake; in a clone it is there.
EXAMPLE = Path(__file__).parents[3] / "examples" / "ordinary_gpt.py"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--out", default="demo", metavar="FOLDER", help="where everything goes (default: demo)")
    add("--seconds", type=float, default=90.0, help="how long to train at most (default: 90)")
    add("--tokens", type=int, default=150, metavar="N", help="how many tokens to write (default: 150)")
    add("--prompt", metavar="TEXT", help="the text to continue (default: a line of the play)")
    add("--seed", type=int, default=0, metavar="N", help="of training and writing (default: 0)")
    add("--retrain", action="store_true", help="train anew even if a model is there (default: use it)")


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 done, 1 some line disagrees with the paper."""
    require("torch", "torch,plot", "the demo")
    require("matplotlib", "torch,plot", "the demo's picture")
    if not 0 < args.seconds < float("inf"):
        raise ConfigError(f"--seconds {args.seconds}: training takes a positive number of seconds; the default is 90.")
    from transformulary.paper.settings import TrainingSettings

    if args.tokens < 0:
        raise ConfigError(f"--tokens {args.tokens}: how many tokens to write is 0 or more; the default is 150.")
    from transformulary import models

    folder = Path(args.out)
    model = folder / "model"
    TrainingSettings(seconds=args.seconds, seed=args.seed)  # complains before anything is fetched
    facts = None if args.retrain else known(model)
    if facts is None:
        facts = train(folder, args)
    else:
        step(1, f"text: {facts['origin']}")
        step(2, f"training: done before, in {facts['seconds']:.0f} seconds (--retrain trains anew)")
    print(results(facts))
    step(3, f"the model, in GPT-2's format: {model} (transformers' GPT2LMHeadModel.from_pretrained reads it)")
    loaded = models.load(model)
    if loaded.tokenizer is None:
        raise CheckpointError(f"{model} has no tokenizer.json. --retrain makes it anew.")
    prompt = prompt_of(args, facts["origin"])
    begin_prompt(loaded.tokenizer, prompt, loaded.model.config.ell_max)
    step(4, "writing: Algorithm 14 continues a prompt, at temperature 0.8")
    tokens = write(models.decoder(loaded), loaded.tokenizer, prompt, args)
    step(5, "comparing: the trained model with the oracle, line by line, each line on the model's own inputs")
    agrees = compare(models.decoder(loaded), tokens)
    step(6, f"looking: pseudocode and attention, in {folder}")
    look(models.decoder(loaded), loaded.tokenizer, prompt, folder)
    step(7, "diagnosing: an ordinary PyTorch GPT that has this model's weights and one wrong line")
    diagnose(model)
    print(ending(folder, prompt))
    return 0 if agrees else 1


def known(model: Path) -> dict[str, Any] | None:
    """What an earlier demo found out about the model that is there; None if there is none that was finished."""
    try:
        facts = json.loads((model / FACTS).read_text(encoding="utf-8"))
        results(facts)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return facts if (model / "config.json").is_file() else None


def step(number: int, what: str) -> None:
    """One line that says what happens now."""
    print(f"\n{number} of 7  {what}", flush=True)


def train(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    """Steps 1 and 2; returns what was found, which is also kept beside the model."""
    from transformulary.data import corpus, split
    from transformulary.data.library import library
    from transformulary.files import write_atomically
    from transformulary.paper import DTransformerConfig
    from transformulary.paper.settings import TrainingSettings
    from transformulary.tokens import Tokenizer
    from transformulary.train import initial_model

    with waiting("fetching text"):
        source = library(folder / "text")
    learned, kept = split(source.texts)
    n = sum(len(piece.text) for piece in learned)
    step(1, f"text: {source.origin}, {n:,} characters to learn from, {sum(len(p.text) for p in kept):,} held out")
    with waiting("learning a vocabulary"):
        tokenizer = Tokenizer.train("bytepairs", [piece.text for piece in learned], VOCABULARY)
        data = corpus(source.texts, tokenizer)
    config = DTransformerConfig(N_V=tokenizer.N_V, **MODEL)
    per_token = n / len(data.training)
    steps = int(CHARACTERS / per_token / (TRAINING["batch"] * (config.ell_max + 1)))
    settings = TrainingSettings(steps=steps, warmup=steps // 10, seconds=args.seconds, seed=args.seed, **TRAINING)
    step(
        2,
        f"training: Algorithm 13 on {tokenizer.N_V:,} byte pairs ({per_token:.2f} characters per token), "
        f"for {steps:,} steps or {args.seconds:g} seconds",
    )
    begin_prompt(tokenizer, prompt_of(args, source.origin), config.ell_max)
    (folder / "model" / FACTS).unlink(missing_ok=True)  # from here on the model there is another one
    facts: dict[str, Any] = {"origin": source.origin, "of": steps}
    facts |= _fit(initial_model(config, settings), data, settings, folder)
    with waiting("guessing, to have something to compare with"):
        read = list(seen(data, config.ell_max, settings, facts["steps"]))
        facts["characters"] = round(sum(map(len, read)) * per_token)
        facts["baselines"] = guesses(learned, kept, read, data.held_out)
    write_atomically(folder / "model" / FACTS, json.dumps(facts, indent=2) + "\n")
    return facts


def guesses(learned: list[Piece], kept: list[Piece], read: list[list[int]], held_out: Documents) -> dict[str, float]:
    """Nats per held-out character of models that look one symbol back at most; `read` is what our model read."""
    from transformulary.data.baselines import baselines

    characters = baselines((p.text for p in learned), (p.text for p in kept))
    tokens = baselines(read, sequences(held_out))["bigram"] * len(held_out) / sum(len(p.text) for p in kept)
    named = {f"{name} of characters": nats for name, nats in characters.items()}
    return named | {"bigram of the same byte pairs": tokens}


def seen(data: Corpus, ell_max: int, settings: TrainingSettings, steps: int) -> Iterator[list[int]]:
    """The windows of token ids that so many steps of training read."""
    from transformulary.data import NO_TOKEN, Batches

    batches = Batches(data.training, ell_max, settings.batch, settings.seed)
    for rows in islice(batches, steps * settings.accumulate):
        yield from ([v for v in row if v != NO_TOKEN] for row in rows.tolist())


def sequences(documents: Documents) -> list[list[int]]:
    """The token ids of each document."""
    ids = documents.ids.tolist()
    return [ids[start:end] for start, end in pairwise(documents.bounds.tolist())]


def _fit(model: DTransformer, data: Corpus, settings: TrainingSettings, folder: Path) -> dict[str, Any]:
    """Algorithm 13 with its progress on stderr; what was found at the end."""
    from transformulary.cli._progress import Display
    from transformulary.files import claimed
    from transformulary.train import DTraining, Evaluated, Event, Finished

    found: dict[str, Any] = {}
    display = Display(settings, folder / "model")

    def on_event(event: Event) -> None:
        match event:
            case Finished(step=steps, seconds=seconds):
                found.update(steps=steps, seconds=seconds)
            case Evaluated(nats_per_character=nats, characters=characters):
                found.update(held_out=nats, held_out_characters=characters)
            case _:
                display(event)

    with claimed(folder / "model"), display:
        DTraining(model, data, settings, folder=folder / "model", on_event=on_event)
    return found


def prompt_of(args: argparse.Namespace, origin: str) -> str:
    """The text to continue."""
    return str(args.prompt) if args.prompt is not None else PROMPTS["Shakespeare" not in origin]


def begin_prompt(tokenizer: Tokenizer, prompt: str, ell_max: int) -> None:
    """Raise ConfigError if the model could not look at all of the prompt."""
    if (n := len(tokenizer.encode(prompt)) + 1) > ell_max:
        raise ConfigError(
            f"--prompt has {n} tokens with bos, and the demo's model sees ell_max = {ell_max} at most. Shorten it."
        )


def results(facts: dict[str, Any]) -> str:
    """The held-out loss beside what guessing costs."""
    rows = [*facts["baselines"].items(), ("this model", facts["held_out"])]
    lines = [f"        {name:31}{nats:6.3f} nats  {nats / math.log(2):6.3f} bits" for name, nats in rows]
    return "\n".join(
        [
            f"        held-out loss per character after {facts['characters']:,} characters of training, "
            f"{facts['seconds']:.0f} seconds,",
            f"        over {facts['held_out_characters']:,} characters that it never saw:",
            *lines,
            *([] if facts["steps"] == facts["of"] else [early(facts)]),
        ]
    )


def early(facts: dict[str, Any]) -> str:
    """What to say where time ended training: a busy or slow machine learns less."""
    return (
        f"        The clock ended training after {facts['steps']:,} of {facts['of']:,} steps. On a busy machine:\n"
        f"        {command()} demo --retrain --seconds 300"
    )


def write(model: DTransformer, tokenizer: Tokenizer, prompt: str, args: argparse.Namespace) -> list[int]:
    """Step 4: continue the prompt, each piece as it comes; returns all token ids."""
    from transformulary.generate import Continuation, Sampling

    text = Continuation(model, tokenizer, prompt, args.tokens, Sampling(tau=0.8), seed=args.seed, crop=True)
    print(f"\n{prompt}", end="", flush=True)
    for piece in text:
        print(piece, end="", flush=True)
    print()
    return text.prompt + text.tokens


def compare(model: DTransformer, tokens: list[int]) -> bool:
    """Step 5: every line of Algorithm 10 against the oracle, in float64 and as trained."""
    from transformulary.conform.lockstep import compare
    from transformulary.conform.theta import theta_of

    x, theta = tokens[: model.config.ell_max], theta_of(model)
    with waiting("running the oracle"):
        single = compare(model, x, theta)
        report = compare(copy.deepcopy(model).double(), x, theta)
    print(f"        {report}, {len(x)} tokens, float64")
    print(
        f"        in float32, as it is saved: {single.good} of {len(single.lines)} within what the oracle loses there"
    )
    print(f"        when it rounds to float32 itself, largest {single.worst.error:.1e} (line {single.worst.label})")
    for line in report.lines + single.lines:
        if not line.agrees:
            print(f"        line {line.label} DISAGREES: {line.error:.1e} at {line.at}, allowed {line.allowed:.0e}")
    return report.agrees and single.agrees


def look(model: DTransformer, tokenizer: Tokenizer, prompt: str, folder: Path) -> None:
    """Step 6: the exact pseudocode of this model, and its attention as a page and a picture."""
    from transformulary.files import write_atomically
    from transformulary.pseudocode import describe
    from transformulary.view import attention_of

    write_atomically(folder / "pseudocode.txt", f"{describe(model.config, numbers=True)}\n")
    seen = attention_of(model, tokenizer, prompt)
    for name in ("attention.html", "attention.png"):
        seen.save(folder / name)
    print(f"        {folder / 'pseudocode.txt'}: every line that this model computes, with its sizes")
    print(f"        {folder / 'attention.html'}: who looks at whom; open it in a browser")
    print(f"        {folder / 'attention.png'}: the same, all heads in one picture")


def diagnose(model: Path) -> None:
    """Step 7: which line of the example is wrong."""
    example = Path(os.path.relpath(EXAMPLE)) if EXAMPLE.is_file() else Path("examples", EXAMPLE.name)
    how = f"{command()} conform {example} --against {shlex.quote(str(model))}"
    if not EXAMPLE.is_file():
        print(f"        the example is not part of the package. From a clone of the repository: {how}")
        return
    from transformulary.conform import conform

    with waiting("comparing it with the oracle"):
        report = conform(EXAMPLE, model, decoding=False)
    print(f"        $ {how}")
    for sentence in report.answer:
        print(f"        {sentence}")


def ending(folder: Path, prompt: str) -> str:
    """Where everything is, and what to try next."""
    me, model = command(), shlex.quote(str(folder / "model"))
    words = shlex.quote(prompt.partition("\n")[0])
    return "\n".join(
        [
            f"\nEverything is in {folder}. Three things to try next:",
            f"  {me} generate {model} --prompt {words} --temperature 0.8",
            f"  {me} show 10",
            f"  {me} train YOUR_TEXT.txt --out my-model",
        ]
    )


def command() -> str:
    """How this program is called from here: by its name if that is found, else by its path."""
    beside = Path(sys.executable).with_name("transformulary")
    if shutil.which("transformulary") or not beside.exists():
        return "transformulary"
    return shlex.quote(os.path.relpath(beside))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Says on stderr what takes a moment: a spinner on a terminal, a line elsewhere."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        console.print(f"{what} ...")
    with console.status(f"{what} ..."):
        yield

"""What can be asked for: algorithms, a whole model, what differs between two; each in every format."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Any

from transformulary.errors import AlgorithmError, ConfigError
from transformulary.oracle.source import read
from transformulary.paper import Config, Preset
from transformulary.paper.practice import Inference, Practice, Training, dropping
from transformulary.paper.top import GIVES_TOKENS, Top
from transformulary.pseudocode import heads
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.definitions import definitions
from transformulary.pseudocode.diff import Diff, between
from transformulary.pseudocode.nodes import Box, Document, Head
from transformulary.pseudocode.notes import choices, forms, notes
from transformulary.pseudocode.specialise import PAPER, Program, order, papers_program

#: Each is printed by the module of this name, which has `document` and `diff`.
FORMATS = ("text", "latex", "markdown", "html")

#: What the algorithms of practice are shown with: everything that a line can say.
PRACTISED = Training(
    N_steps=3, N_batch=2, N_acc=2, chunks=True, shuffle=True, decay=0.1, g_max=1.0, eta_embedding=2.0, nesterov=True,
    schedule="cosine", eta_floor=0.1, N_warmup=2, N_total=3,
)  # fmt: skip


class Page(str):
    """What was asked for, in the chosen format.  In a notebook it shows itself as HTML."""

    what: Document | Diff

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return str(printer("html").fragment(self.what))


def numbers() -> list[str]:
    """The numbers of all algorithms in order: "1" to "15", and with letters those that published models add."""
    return sorted(read().numbers.values(), key=order)


def render(
    numbers: int | str | Iterable[int | str],
    config: Config | None = None,
    format: str = "text",
    practice: Practice | None = None,
    choose: Mapping[str, Any] = MappingProxyType({}),
) -> Page:
    """Algorithms, with the paper's line numbers.

    Args:
        numbers: one or several of 1 to 15, or with a letter, "4r".
        config: the model whose lines are shown; the paper's choices if not given.
        format: one of FORMATS.
        practice: how training and inference are practised; the paper's if not given, and of algorithms of practice
            alone much of what their lines can say.
        choose: what is practised otherwise than that, by the names of `Training` and `Inference`.

    Raises:
        AlgorithmError: there is no such algorithm, or no such format.
        ConfigError: the algorithm is for another architecture than the config's, or no line depends on a choice.
    """
    asked = [str(number) for number in ([numbers] if isinstance(numbers, int | str) else numbers)]
    programs = [_program(number, config, practice or _practice(number, asked, choose)) for number in asked]
    if choose:
        _refuse_idle(asked, choose)
    boxes = tuple(box(*program) for program in programs)
    where = (row for program, name in programs for row in definitions(program, [name]))
    others = (row for number in asked if practice is None and (choose or not number.isdigit()) for row in forms(number))
    return _page(Document(boxes, tuple(dict.fromkeys(where)), notes=(*notes(boxes), *others)), format)


def _refuse_idle(asked: list[str], choose: Mapping[str, Any]) -> None:
    """Raise ConfigError for a choice that changes none of the algorithms."""
    known = list(dict.fromkeys(name for number in asked for name in choices(number)))
    for name in choose:
        if name not in known:
            there = f"what can be chosen is {', '.join(known)}" if known else "there is nothing to choose"
            raise ConfigError(f"no line of Algorithm {', '.join(asked)} depends on a choice {name!r}; there, {there}.")


def describe(
    model: Config | Preset,
    numbers: bool = False,
    format: str = "text",
    name: str = "",
    says: tuple[str, ...] = (),
    top: Top = GIVES_TOKENS,
) -> Page:
    """What a model costs, every algorithm that it executes, and the functions that they use.

    Args:
        model: its config, or a preset, which says more of it.
        numbers: sizes as the model's numbers, not as symbols.
        format: one of FORMATS.
        name: what to call a model that is no preset.
        says: what else is to be said of it.
        top: what stands on top of its layers, if it is an encoder that is no preset.
    """
    program = Program(_config(model), numbers, top=top)
    boxes = tuple(box(program, name) for name in program.executed)
    return _whole(boxes, program, program.executed, heads.head(model, name, says, top), format)


def run(config: Config, practice: Practice, format: str = "text", head: Head | None = None) -> Page:
    """How a decoder was trained and how it is used: Algorithms 13 and 14 and all that they execute, with its numbers.

    Args:
        config: the model's.
        practice: its training and inference, and what these are told.
        format: one of FORMATS.
        head: what is said of the run beside its lines.
    """
    program = Program(dropping(config, practice.training.p_drop), numbers=True, practice=practice)
    names = program.executed_by("13", "14")
    boxes = tuple(one for name in names for one in _by_session(program, name))
    return _whole(boxes, program, names, head, format)


def _by_session(program: Program, name: str) -> tuple[Box, ...]:
    """A box; of the schedule, where a run was taken up again with other limits, one for each session."""
    practices = program.practice.by_session()
    if name != "learning_rate" or len(practices) == 1:
        return (box(program, name),)
    programs = (Program(program.config, program.numbers, practice=practice) for practice in practices)
    return tuple(replace(box(one, name), part=part) for part, one in enumerate(programs, 1))


def _whole(boxes: tuple[Box, ...], program: Program, names: list[str], head: Head | None, format: str) -> Page:
    return _page(Document(boxes, tuple(definitions(program, names)), head, tuple(notes(boxes))), format)


def diff(
    a: Config | Preset,
    b: Config | Preset,
    format: str = "text",
    names: tuple[str, str] = ("a", "b"),
    tops: tuple[Top, Top] = (GIVES_TOKENS, GIVES_TOKENS),
) -> Page:
    """What differs between the lines that two models execute; if none does, the sizes in which they differ.

    Args:
        a, b: their configs, or presets; an architecture has no sizes.
        format: one of FORMATS.
        names: what the two are called.
        tops: what stands on top of their layers, of encoders.
    """
    sized = all(model.sized for model in (a, b) if isinstance(model, Preset))
    return _page(between(_config(a), _config(b), names, sized, tops), format)


def _config(model: Config | Preset) -> Config:
    return model.config if isinstance(model, Preset) else model


def printer(format: str) -> Any:
    """The module that prints a format, imported when it is asked for.  Raises AlgorithmError: there is none."""
    if format not in FORMATS:
        raise AlgorithmError(f"there is no format {format!r}; there are {', '.join(FORMATS)}.")
    return import_module(f"transformulary.pseudocode.{format}")


def _page(what: Document | Diff, format: str) -> Page:
    prints = printer(format)
    page = Page(prints.document(what) if isinstance(what, Document) else prints.diff(what))
    page.what = what
    return page


def _program(number: str, config: Config | None, practice: Practice) -> tuple[Program, str]:
    """One algorithm of a model, or of the paper: what `box` is called with."""
    name = _name(number)
    paper = papers_program(name)
    as_printed = config is None and practice == PAPER
    return (paper if as_printed else Program(config or paper.config, practice=practice)), name


def _practice(number: str, asked: list[str], choose: Mapping[str, Any]) -> Practice:
    """The paper's own algorithms are shown as it has them; those of practice with much that their lines can say.

    Where some of both are asked for and something is chosen, all are of one practice, and call each other rightly.
    """
    table = {ast.unparse(f): key for key, f in read().tables["OPTIMISER"].items()}
    alone = number.isdigit() and all(map(str.isdigit, asked))
    usual = replace(PRACTISED, optimiser=table.get(_name(number), "adamw"), chunks=not {"11", "12"} & {*asked})
    if number.isdigit() and (alone or not choose):
        usual = replace(Training(), N_steps=1) if choose else Training()
    training, inference = ({k: v for k, v in choose.items() if hasattr(kind, k)} for kind in (Training, Inference))
    return Practice(training=replace(usual, **training), inference=replace(Inference(), **inference))


def _name(number: str) -> str:
    """The function that is an algorithm.  Raises AlgorithmError: there is none."""
    if (name := read().name(number)) is None:
        raise AlgorithmError(_missing(number))
    return name


def _missing(number: str) -> str:
    known = numbers()
    lettered = ", ".join(n for n in known if not n.isdigit())
    return f"the paper has no Algorithm {number or repr(number)}; it has 1 to 15. Published models add {lettered}."

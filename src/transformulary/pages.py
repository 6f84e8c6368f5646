"""The pages of any model, by the word that means it: a preset, an architecture, or what lies on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from transformulary import pseudocode
from transformulary.errors import ConfigError
from transformulary.paper import Config, EDTransformerConfig, ETransformerConfig, PreEDTransformerConfig, Top, preset
from transformulary.paper.presets import Preset
from transformulary.paper.top import GIVES_TOKENS
from transformulary.pseudocode import Page

if TYPE_CHECKING:
    from transformulary.formats import Described, Format

    class Loaded(Protocol):
        """What `load` gives."""

        @property
        def described(self) -> Described: ...

    #: What may be asked for: a word as on the command line, a path, a config, a preset, or what was loaded.
    Model = str | PathLike[str] | Config | Preset | Described | Loaded
    #: A format, its name, or a file.py with tables.
    Form = Format | str

#: What the paper has beside a model; T5's order of lines, Algorithm 8a, is none of the paper's.
PAPERS: dict[type[Config], str] = {
    EDTransformerConfig: "paper-8",
    PreEDTransformerConfig: "paper-8",
    ETransformerConfig: "paper-9",
}


@dataclass(frozen=True)
class Named:
    """A model by the word that means it.

    preset   None where it lies on disk, or where a config says all
    top      what stands on top of the layers of one on disk
    assumed  the keys that its config.json lacks, with their defaults
    """

    word: str
    config: Config
    preset: Preset | None = None
    top: Top = GIVES_TOKENS
    assumed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def says(self) -> tuple[str, ...]:
        """What a page says of it beside what it is and costs."""
        if not self.assumed:
            return ()
        shown = ", ".join(f"{key} = {json.dumps(value)}" for key, value in self.assumed.items())
        return (f"Not in the file, so as its library has it: {shown}.",)

    @property
    def sized(self) -> bool:
        """Whether its sizes are meant, and not only its architecture."""
        return self.preset is None or self.preset.sized

    @property
    def facts(self) -> dict[str, Any]:
        """What it is called and where its numbers are from."""
        if self.preset is None:
            top = {"gives": self.top.gives} | ({"N_C": self.top.N_C} if self.top.gives == "classes" else {})
            return {"name": self.word, **top, **({"assumed": self.assumed} if self.assumed else {})}
        family = self.preset.family
        sizes = {} if self.sized else {"sizes": [size.name for size in family.presets()]}
        return {"name": self.word, "title": family.title, "source": family.source, "note": self.preset.note, **sizes}


def named(word: str, form: Form | None = None) -> Named:
    """The model that a word means; a path that exists comes before a preset of that name.

    Args:
        word: as on the command line.
        form: how it is stored, where its config.json does not say: a format, its name, or a file.py with tables.

    Raises ConfigError or CheckpointError: there is none, or its config is not understood.
    """
    if _lies_somewhere(word):
        from transformulary.formats import named_format, outline

        found = outline(word, named_format(form) if isinstance(form, str) else form)
        return Named(word, found.config, top=found.top, assumed=found.assumed)
    known = preset(word)
    if form is not None:
        raise ConfigError(f"{word} is a preset, and nothing that could be stored as {form!s:.60}.")
    return Named(word, known.config, known)


def _lies_somewhere(word: str) -> bool:
    return Path(word).exists() or "/" in word


def _shows_numbers(model: Named, numbers: bool | None) -> bool:
    """Whether a page shows numbers: as asked for, else where they are meant.  Raises ConfigError: there are none."""
    if numbers and not model.sized:
        raise ConfigError(
            f"{model.word} is an architecture and has no sizes of its own. "
            f"Name one of {', '.join(model.facts['sizes'])}."
        )
    return model.sized if numbers is None else numbers


def describe(model: Model, numbers: bool | None = None, format: str = "text", form: Form | None = None) -> Page:
    """What a model costs, every algorithm that it executes, and the functions that they use: `transformulary describe`.

    Args:
        model: a preset or an architecture by name, a path of a folder or of a config.json, a name in the Hugging Face
            cache (org/name); or a config, a preset, or what `load` gives.
        numbers: sizes as the model's numbers, not as symbols; default: where it has sizes.
        format: "text", "latex", "markdown" or "html".  In a notebook what is returned shows itself as HTML.
        form: how what lies at a path is stored, as for `load`.

    Raises ConfigError or CheckpointError: there is no such model, or its config is not understood.
    """
    return page(_meant(model, form=form), numbers, format)


def page(found: Named, numbers: bool | None, format: str) -> Page:
    """As `describe`, of a model that was found."""
    numbers = _shows_numbers(found, numbers)
    return pseudocode.describe(found.preset or found.config, numbers, format, found.word, found.says, found.top)


def diff(a: Model, b: Model, format: str = "text", form: Form | tuple[Form | None, Form | None] | None = None) -> Page:
    """What differs between the lines that two models execute; if none does, the sizes: `transformulary diff`.

    Args: as for `describe`; "paper" beside a model is the paper's of its architecture, and `form` may be a pair, of a
    and b; else it is that of those that lie at a path.  Raises as that does.
    """
    on_disk = [_stored(model) for model in (a, b)]
    of_a, of_b = form if isinstance(form, tuple) else (form if it or not any(on_disk) else None for it in on_disk)
    one, other = _meant(a, "a", of_a), _meant(b, "b", of_b)
    one, other = _papers(one, other.config), _papers(other, one.config)
    models, names = (one.preset or one.config, other.preset or other.config), (one.word, other.word)
    return pseudocode.diff(*models, format, names, (one.top, other.top))


def _stored(model: Model) -> bool:
    return isinstance(model, str | PathLike) and _lies_somewhere(fspath(model))


def _papers(model: Named, beside: Config) -> Named:
    """What is meant by "paper" beside a model of another architecture than the paper's decoder; else the model."""
    if model.word != "paper" or model.preset is None or type(beside) not in PAPERS:
        return model
    found = preset(PAPERS[type(beside)])
    return Named(model.word, found.config, found)


def _meant(model: Model, word: str = "", form: Form | None = None) -> Named:
    if isinstance(model, str | PathLike):
        return named(fspath(model), form)
    if isinstance(model, Preset):
        return Named(model.name, model.config, model)
    if isinstance(model, Config):
        return Named(word, model)
    from transformulary.formats import Described

    described = getattr(model, "described", model)  # of what `load` gives
    if isinstance(described, Described):
        return Named(str(described.source.path), described.config, top=described.top)
    raise ConfigError(
        f"{model!r:.60} is no model: give the name of a preset, a path, a config, a preset, or what `load` gives."
    )

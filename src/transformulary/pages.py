"""The pages of any model, by the word that means it: a preset, an architecture, or what lies on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from transformulary import pseudocode
from transformulary.errors import ConfigError
from transformulary.paper import Config, EDTransformerConfig, ETransformerConfig, PreEDTransformerConfig, preset
from transformulary.paper.presets import Preset
from transformulary.pseudocode import Page

#: What the paper has beside a model; T5's order of lines, Algorithm 8a, is none of the paper's.
PAPERS: dict[type[Config], str] = {
    EDTransformerConfig: "paper-8",
    PreEDTransformerConfig: "paper-8",
    ETransformerConfig: "paper-9",
}
#: What may be asked for: a word as on the command line, a path, a config, a preset.
Model = str | PathLike[str] | Config | Preset


@dataclass(frozen=True)
class Named:
    """A model by the word that means it.

    preset   None where it lies on disk, or where a config says all
    assumed  the keys that its config.json lacks, with their defaults
    """

    word: str
    config: Config
    preset: Preset | None = None
    assumed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def says(self) -> tuple[str, ...]:
        """What a page says of it beside what it is and costs."""
        if not self.assumed:
            return ()
        shown = ((key, "[…]" if isinstance(value, list) else json.dumps(value)) for key, value in self.assumed.items())
        return (f"Not in the file, so as its library has it: {', '.join(f'{key} = {value}' for key, value in shown)}.",)

    @property
    def sized(self) -> bool:
        """Whether its sizes are meant, and not only its architecture."""
        return self.preset is None or self.preset.sized

    @property
    def facts(self) -> dict[str, Any]:
        """What it is called and where its numbers are from."""
        if self.preset is None:
            return {"name": self.word, **({"assumed": self.assumed} if self.assumed else {})}
        family = self.preset.family
        sizes = {} if self.sized else {"sizes": [size.name for size in family.presets()]}
        return {"name": self.word, "title": family.title, "source": family.source, "note": self.preset.note, **sizes}


def named(word: str) -> Named:
    """The model that a word means; a path that exists comes before a preset of that name.

    Raises ConfigError or CheckpointError: there is none, or its config is not understood.
    """
    if Path(word).exists() or "/" in word:
        from transformulary.formats import assumed, config_of

        return Named(word, config_of(word), assumed=assumed(word))
    found = preset(word)
    return Named(word, found.config, found)


def _shows_numbers(model: Named, numbers: bool | None) -> bool:
    """Whether a page shows numbers: as asked for, else where they are meant.  Raises ConfigError: there are none."""
    if numbers and not model.sized:
        raise ConfigError(
            f"{model.word} is an architecture and has no sizes of its own. "
            f"Name one of {', '.join(model.facts['sizes'])}."
        )
    return model.sized if numbers is None else numbers


def describe(model: Model, numbers: bool | None = None, format: str = "text") -> Page:
    """What a model costs, every algorithm that it executes, and the functions that they use: `transformulary describe`.

    Args:
        model: a preset or an architecture by name, a path of a folder or of a config.json, a name in the Hugging Face
            cache (org/name); or a config, or a preset.
        numbers: sizes as the model's numbers, not as symbols; default: where it has sizes.
        format: "text", "latex", "markdown" or "html".  In a notebook what is returned shows itself as HTML.

    Raises ConfigError or CheckpointError: there is no such model, or its config is not understood.
    """
    found = _meant(model)
    numbers = _shows_numbers(found, numbers)
    return pseudocode.describe(found.preset or found.config, numbers, format, found.word, found.says)


def diff(a: Model, b: Model, format: str = "text") -> Page:
    """What differs between the lines that two models execute; if none does, the sizes: `transformulary diff`.

    Args: as for `describe`; "paper" beside a model is the paper's of its architecture.  Raises as that does.
    """
    one, other = _meant(a, "a"), _meant(b, "b")
    one, other = _papers(one, other.config), _papers(other, one.config)
    return pseudocode.diff(one.preset or one.config, other.preset or other.config, format, (one.word, other.word))


def _papers(model: Named, beside: Config) -> Named:
    """What is meant by "paper" beside a model of another architecture than the paper's decoder; else the model."""
    if model.word != "paper" or model.preset is None or type(beside) not in PAPERS:
        return model
    found = preset(PAPERS[type(beside)])
    return Named(model.word, found.config, found)


def _meant(model: Model, word: str = "") -> Named:
    if isinstance(model, str | PathLike):
        return named(fspath(model))
    if isinstance(model, Preset):
        return Named(model.name, model.config, model)
    if isinstance(model, Config):
        return Named(word, model)
    raise ConfigError(f"{model!r:.60} is no model: give the name of a preset, a path, a config or a preset.")

"""The model that a word on the command line means: a preset, an architecture, or what lies on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transformulary.errors import ConfigError
from transformulary.paper import Config, preset
from transformulary.paper.presets import Preset

HELP = "a preset or an architecture that `transformulary presets` lists, a folder, a config.json, or a name in the \
Hugging Face cache (org/name)"


@dataclass(frozen=True)
class Named:
    """A model by the word that means it.

    preset   None where it lies on disk
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


def numbers(model: Named, sizes: str | None) -> bool:
    """Whether a page shows numbers: as asked for, else where they are meant.  Raises ConfigError: there are none."""
    if sizes == "numbers" and not model.sized:
        raise ConfigError(
            f"{model.word} is an architecture and has no sizes of its own. "
            f"Name one of {', '.join(model.facts['sizes'])}."
        )
    return model.sized if sizes is None else sizes == "numbers"

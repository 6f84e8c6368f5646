"""The model that a word on the command line means: a preset, an architecture, or what lies on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformulary.errors import ConfigError
from transformulary.paper import Config, preset
from transformulary.paper.presets import Preset

HELP = "a preset or an architecture that `transformulary presets` lists, a folder, a config.json, a name in the \
Hugging Face cache (org/name), or hf://org/name on its hub"


@dataclass(frozen=True)
class Named:
    """A model by the word that means it; `preset` is None where it lies on disk."""

    word: str
    config: Config
    preset: Preset | None = None

    @property
    def sized(self) -> bool:
        """Whether its sizes are meant, and not only its architecture."""
        return self.preset is None or self.preset.sized

    @property
    def facts(self) -> dict[str, Any]:
        """What it is called and where its numbers are from."""
        if self.preset is None:
            return {"name": self.word}
        family = self.preset.family
        sizes = {} if self.sized else {"sizes": [size.name for size in family.presets()]}
        return {"name": self.word, "title": family.title, "source": family.source, "note": self.preset.note, **sizes}


def named(word: str) -> Named:
    """The model that a word means; a path that exists comes before a preset of that name.

    Raises ConfigError or CheckpointError: there is none, or its config is not understood.
    """
    if Path(word).exists() or "/" in word:
        from transformulary.formats import config_of

        return Named(word, config_of(word))
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

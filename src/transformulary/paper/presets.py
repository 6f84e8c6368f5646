"""Every size of the models that the paper names, and of those that people run today: `preset("gpt2-small")`.

A *family* is an architecture with all its choices ("gpt2"); a preset is one of its sizes ("gpt2-small").  The tables
are in `presets_paper` and `presets_today`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

from transformulary.errors import ConfigError
from transformulary.paper.config import Config


@dataclass(frozen=True)
class Family:
    """Published models of one architecture.

    name      how its presets begin; also the architecture without sizes
    title     what people call it
    kind      the class of its configs
    source    where choices and sizes are from
    choices   what all sizes share
    sizes     a table, one row a size: its name, the number of parameters that was published ("-": none was), and in
              further columns the fields of the config; "-" leaves a field at its default.  d_mlp is 4 d_e unless given
    note      what is contradictory, or chosen by us because it was not published
    notes     the same, of one size
    """

    name: str
    title: str
    kind: type[Config]
    source: str
    choices: Mapping[str, Any]
    sizes: str
    note: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)

    def presets(self) -> Iterator[Preset]:
        """One for each row of the table."""
        head, *rows = (line.split() for line in self.sizes.strip().splitlines())
        for row in rows:
            cells = {key: _value(cell) for key, cell in zip(head, row, strict=True) if cell != "-"}
            size, published = str(cells.pop("name")), str(cells.pop("published", ""))
            given = {**self.choices, **cells}
            config = self.kind(**{"d_mlp": 4 * given["d_e"], **given})
            note = " ".join(filter(None, (self.note, self.notes.get(size))))
            yield Preset(f"{self.name}-{size}", self, config, published, note)


@dataclass(frozen=True)
class Preset:
    """One published model, or an architecture whose sizes are not meant.

    name       "gpt2-small", or "gpt2" for the architecture
    config     its config; an architecture has that of its first size
    published  its number of parameters as its authors print it ("117M"), "" where they do not
    note       what its numbers leave open
    """

    name: str
    family: Family
    config: Config
    published: str
    note: str

    @property
    def sized(self) -> bool:
        """Whether the sizes of the config are meant."""
        return self.name != self.family.name


def _value(cell: str) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(cell, cell)


@cache
def families() -> dict[str, Family]:
    """Name -> family, in the order of publication: first what the paper names, then what came later."""
    from transformulary.paper.presets_paper import NAMED
    from transformulary.paper.presets_today import TODAY

    return {family.name: family for family in (*NAMED, *TODAY)}


@cache
def presets() -> dict[str, Preset]:
    """Name -> preset, every size of every family."""
    return {preset.name: preset for family in families().values() for preset in family.presets()}


def preset(name: str) -> Preset:
    """The preset of that name, or the architecture of a family of that name.

    Raises ConfigError, which names those that are spelt almost like it.
    """
    if not isinstance(name, str):
        raise ConfigError(f"the name of a model is text, and {name!r} is none. `transformulary presets` lists all.")
    for family in families().values():
        if name.startswith(f"{family.name}-") and (found := [p for p in family.presets() if p.name == name]):
            return found[0]
    if name in families():
        family = families()[name]
        first = next(family.presets())
        return Preset(name, family, first.config, "", family.note)
    near = get_close_matches(name.lower(), [*presets(), *families()])
    hint = f" Nearest: {', '.join(near)}." if near else ""
    raise ConfigError(f"no model is called {name!r}.{hint} `transformulary presets` lists them all.")

"""transformulary presets: the sizes of the paper's models and of those that people run today

Each is a name for `describe` and `diff`: gpt2-small is a model, gpt2 its architecture.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformulary.paper import Preset

#: The columns of the table.
HEAD = ("", "parameters", "published", "layers", "H", "d_e", "d_mlp", "N_V", "ell_max")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="every field of every config, as JSON (default: a table)")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    from transformulary.paper.presets import families
    from transformulary.tables import table

    if args.json:
        print(json.dumps(list(_objects()), indent=1))
        return 0
    rows: list[tuple[object, ...]] = [HEAD]
    for family in families().values():
        rows += [(family.name, *[""] * (len(HEAD) - 1)), *map(row, family.presets())]
    print(table(rows, right=range(1, len(HEAD))))
    return 0


def row(preset: Preset) -> tuple[object, ...]:
    """What HEAD says of one preset; heads as H, or H/H_kv where these differ."""
    from transformulary.paper import number_of_parameters

    c = preset.config
    layers = c.L if hasattr(c, "L") else f"{c.L_enc} + {c.L_dec}"
    heads = c.H if c.H == c.H_kv else f"{c.H}/{c.H_kv}"
    count = number_of_parameters(c)
    return f"  {preset.name}", count, preset.published, layers, heads, c.d_e, c.d_mlp, c.N_V, c.ell_max


def _objects() -> Iterator[dict[str, Any]]:
    from transformulary.pages import named
    from transformulary.paper.presets import presets
    from transformulary.pseudocode.heads import counts

    for name, preset in presets().items():
        yield {
            **named(name).facts,
            "published": preset.published,
            "kind": type(preset.config).__name__,
            "config": preset.config.to_dict(),
            **counts(preset.config),
        }

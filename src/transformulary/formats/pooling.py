"""How the files of sentence-transformers say that the vectors of the tokens of a text become one.

modules.json lists what is done one after another: the encoder, a pooling whose folder has its own config.json, and
perhaps a norm.  Anything else there would give other vectors, and is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformulary.errors import CheckpointError
from transformulary.files import read_text
from transformulary.formats.strict import read_json

#: Their kinds of pooling -> ours.
KINDS = {"mean_tokens": "mean", "cls_token": "first", "max_tokens": "max"}
MODE = "pooling_mode_"
#: Keys of a pooling that change no number.
HARMLESS = {"word_embedding_dimension", "include_prompt"}
TYPES = "sentence_transformers.models."


@dataclass(frozen=True)
class Pooling:
    """How one vector is made of those of all tokens.

    pooling     "mean", "first" or "max"
    normalised  whether it is given length 1
    """

    pooling: str = "mean"
    normalised: bool = True

    @classmethod
    def read(cls, folder: Path) -> Pooling:
        """What the files in a folder say; the mean, of length 1, where there are none.

        Raises CheckpointError: they ask for something that we do not compute.
        """
        if not (folder / "modules.json").is_file():
            return cls()
        modules = _modules(folder / "modules.json")[1:]  # the first is the encoder
        kinds = [kind for kind, _ in modules]
        if kinds not in (["Pooling"], ["Pooling", "Normalize"]):
            raise CheckpointError(
                f"{folder / 'modules.json'} puts {', '.join(kinds) or 'nothing'} on top of the encoder; we compute a "
                f"Pooling, and a Normalize. Other vectors would come out."
            )
        return cls(_kind(folder / modules[0][1] / "config.json"), len(kinds) == 2)

    def files(self, d_e: int) -> dict[str, bytes | str]:
        """The files that say so, by their names in the folder of a model whose vectors have d_e numbers."""
        names = ["Transformer", "Pooling", "Normalize"][: 2 + self.normalised]
        paths = ["", "1_Pooling", "2_Normalize"]
        modules = [{"idx": i, "name": str(i), "path": paths[i], "type": TYPES + name} for i, name in enumerate(names)]
        pooling = {MODE + theirs: ours == self.pooling for theirs, ours in KINDS.items()}
        written = {"modules.json": modules, "1_Pooling/config.json": {"word_embedding_dimension": d_e} | pooling}
        return {name: json.dumps(content, indent=2) + "\n" for name, content in written.items()}


def _modules(file: Path) -> list[tuple[str, str]]:
    """What kind each module is, and its folder."""
    try:
        return [(_last(module["type"]), str(module["path"])) for module in json.loads(read_text(file))]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{file} is no list of modules of sentence-transformers ({error!r}).") from None


def _last(kind: str) -> str:
    return kind.rpartition(".")[2]


def _kind(file: Path) -> str:
    """The pooling of a config.json."""
    config: dict[str, Any] = read_json(file)
    modes = [key.removeprefix(MODE) for key, value in config.items() if key.startswith(MODE) and value]
    other = [key for key in config if not key.startswith(MODE) and key not in HARMLESS]
    if other:
        raise CheckpointError(f"{file}: {other[0]} has no rule: nobody knows whether it changes the vectors.")
    if len(modes) != 1 or modes[0] not in KINDS:
        raise CheckpointError(
            f"{file} asks for {' + '.join(modes) or 'no pooling'}; we compute one of {', '.join(KINDS)}."
        )
    return KINDS[modes[0]]

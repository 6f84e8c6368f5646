"""How the files of sentence-transformers say that the vectors of the tokens of a text become one.

modules.json lists what is done one after another: the encoder, a pooling whose folder has its own config.json, and
perhaps a norm.  Anything else there would give other vectors, and is refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from transformulary.errors import CheckpointError
from transformulary.files import read_text
from transformulary.formats.strict import read_json

#: Their kinds of pooling -> ours.
KINDS = {"mean_tokens": "mean", "cls_token": "first", "max_tokens": "max"}
MODE = "pooling_mode_"
#: Keys of a pooling that change no number.
HARMLESS = {"include_prompt"}
WIDTH = "word_embedding_dimension"
THEIRS = "sentence_transformers."
TYPES = f"{THEIRS}models."


@dataclass(frozen=True)
class Pooling:
    """How one vector is made of those of all tokens.

    pooling     "mean", "first" or "max"
    normalised  whether it is given length 1
    """

    pooling: str = "mean"
    normalised: bool = True

    @classmethod
    def read(cls, folder: Path, d_e: int) -> Pooling:
        """What the files in a folder say of vectors of d_e numbers; the mean, of length 1, where there are none.

        Raises CheckpointError: they ask for something that we do not compute, or are damaged.
        """
        if not (folder / "modules.json").is_file():
            return cls()
        modules = _modules(folder / "modules.json")
        if modules[:1] != [("Transformer", "")]:
            raise CheckpointError(f"{folder / 'modules.json'} does not begin with the Transformer in {folder} itself.")
        kinds = [kind for kind, _ in modules[1:]]
        if kinds not in (["Pooling"], ["Pooling", "Normalize"]):
            raise CheckpointError(
                f"{folder / 'modules.json'} puts {', '.join(kinds) or 'nothing'} on top of the encoder; we compute a "
                f"Pooling, and a Normalize. Other vectors would come out."
            )
        return cls(_kind(folder / modules[1][1] / "config.json", d_e), len(kinds) == 2)

    def files(self, d_e: int) -> dict[str, bytes | str]:
        """The files that say so, by their names in the folder of a model whose vectors have d_e numbers."""
        names = ["Transformer", "Pooling", "Normalize"][: 2 + self.normalised]
        paths = ["", "1_Pooling", "2_Normalize"]
        modules = [{"idx": i, "name": str(i), "path": paths[i], "type": TYPES + name} for i, name in enumerate(names)]
        pooling = {MODE + theirs: ours == self.pooling for theirs, ours in KINDS.items()}
        written = {"modules.json": modules, "1_Pooling/config.json": {WIDTH: d_e} | pooling}
        return {name: json.dumps(content, indent=2) + "\n" for name, content in written.items()}


def _modules(file: Path) -> list[tuple[str, str]]:
    """What kind each module is, and its folder: a name, or nothing."""
    try:
        modules = [(_last(module["type"]), module["path"]) for module in json.loads(read_text(file))]
        if odd := [path for _, path in modules if not re.fullmatch(r"[\w-]*", path)]:
            raise CheckpointError(f"{file}: the path {odd[0]!r} is no folder beside it.")
    except (LookupError, TypeError, AttributeError, RecursionError, JSONDecodeError) as error:
        raise CheckpointError(f"{file} is no list of modules of sentence-transformers ({error!r}).") from None
    return modules


def _last(kind: str) -> str:
    """What a class of theirs is called; all of the name of another."""
    return kind.rpartition(".")[2] if kind.startswith(THEIRS) else kind


def _kind(file: Path, d_e: int) -> str:
    """The pooling of a config.json."""
    config: dict[str, Any] = read_json(file)
    said = {key.removeprefix(MODE): value for key, value in config.items() if key.startswith(MODE)}
    modes = [mode for mode, value in said.items() if value]
    if odd := [mode for mode, value in said.items() if not isinstance(value, bool)]:
        raise CheckpointError(f"{file}: {MODE}{odd[0]} = {said[odd[0]]!r}: not true or false.")
    if config.get(WIDTH, d_e) != d_e:
        raise CheckpointError(f"{file}: {WIDTH} = {config[WIDTH]!r}, and the model's vectors have d_e = {d_e} numbers.")
    other = [key for key in config if not key.startswith(MODE) and key not in {WIDTH, *HARMLESS}]
    if other:
        raise CheckpointError(f"{file}: {other[0]} has no rule: nobody knows whether it changes the vectors.")
    if len(modes) != 1 or modes[0] not in KINDS:
        raise CheckpointError(
            f"{file} asks for {' + '.join(modes) or 'no pooling'}; we compute one of {', '.join(KINDS)}."
        )
    return KINDS[modes[0]]

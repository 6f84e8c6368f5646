"""Where the lines of a model can be seen while somebody's PyTorch model runs: tables, by class name.

A place is the name of a module and the side to look at: `norm:in` is what it is given, `norm:out` what it
gives; `in.1` and `out.1` are the second of several.  `{l}` counts layers from 0.  A user's own table is a dict `PLACES`
in a Python file, whose places may also be (module, function of its inputs and its output), or a TOML file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from transformulary.conform.allowance import UNIT
from transformulary.conform.candidates import ours
from transformulary.conform.candidates.encoders import BART, BERT, CLASSES, MARIAN, NORMS, SINUSOIDS, T5, TOKENS, under
from transformulary.conform.candidates.returned import FORMS
from transformulary.conform.lockstep import PLACES
from transformulary.errors import CandidateError
from transformulary.files import read_text

#: "module:side", or (module, function): function(inputs, output) gives the value.
Place = str | tuple[str, Callable[[Any, Any], Any]]


@dataclass(frozen=True)
class Table:
    """Where one class of models shows its lines.

    places  path, with [l] for the layer -> place
    lower   line -> the precision in which the published code computes it, even in a model of a higher one
    tokens  "rows", as in PyTorch, or "columns"
    output  what the place of the last line shows, or, without one, what the model returns: one of `FORMS`
    """

    places: Mapping[str, Place]
    lower: Mapping[str, str] = field(default_factory=dict)
    tokens: str = "rows"
    output: str = "logits"


GPT2 = {
    "10.3": "transformer.h.0.ln_1:in",
    "10.5[l]": "transformer.h.{l}.ln_1:out",
    "10.6[l]": "transformer.h.{l}.ln_2:in",
    "10.7[l]": "transformer.h.{l}.ln_2:out",
    "10.8[l]": "transformer.h.{l}:out",
    "10.10": "transformer.ln_f:out",
    "10.11": "lm_head:out",
}
LLAMA = {
    "10.3": "model.layers.0.input_layernorm:in",
    "10.5[l]": "model.layers.{l}.input_layernorm:out",
    "10.6[l]": "model.layers.{l}.post_attention_layernorm:in",
    "10.7[l]": "model.layers.{l}.post_attention_layernorm:out",
    "10.8[l]": "model.layers.{l}:out",
    "10.10": "model.norm:out",
    "10.11": "lm_head:out",
}
#: Their norm, and the angles of their rotation, are computed in float32 whatever the model.
IN_FLOAT32 = dict.fromkeys(("10.5", "10.6", "10.7", "10.10"), "float32")

#: Name of a class -> its table, or what finds it for one model.
TABLES: dict[str, Table | Callable[[Any], Table]] = {
    "DTransformer": Table(PLACES),
    "ETransformer": lambda model: Table(ours.encoder(model.config) | ours.TOKENS),
    "EClassifier": lambda model: Table(ours.encoder(model.config)),
    "EEmbedder": lambda model: Table(ours.encoder(model.config)),
    "EDTransformer": lambda model: Table(ours.encoder_decoder(model.config)),
    "GPT2LMHeadModel": Table(GPT2),
    "GPTNeoForCausalLM": Table(GPT2, {"10.6": "float32"}),  # scores in float32
    "LlamaForCausalLM": Table(LLAMA, IN_FLOAT32),
    "MistralForCausalLM": Table(LLAMA, IN_FLOAT32),
    "Qwen2ForCausalLM": Table(LLAMA, IN_FLOAT32),
    "Qwen3ForCausalLM": Table(LLAMA, IN_FLOAT32),
    "BertForMaskedLM": Table(under("bert.", BERT) | TOKENS),
    "BertForPreTraining": Table(under("bert.", BERT) | TOKENS),
    "BertForSequenceClassification": Table(under("bert.", BERT) | CLASSES),
    "BertModel": Table(BERT),
    "BartForConditionalGeneration": Table(BART),
    "MarianMTModel": Table(MARIAN, SINUSOIDS),
    "T5ForConditionalGeneration": Table(T5, NORMS),
}


def table_for(model: Any) -> Table:
    """The built-in table of a model's class, compiled or not.  Raises CandidateError if there is none."""
    if isinstance(compiled := getattr(model, "_orig_mod", None), nn.Module):
        table = table_for(compiled)
        return replace(table, places={path: f"_orig_mod.{place}" for path, place in table.places.items()})
    for kind in type(model).__mro__:
        if (found := TABLES.get(kind.__name__)) is not None:
            return found if isinstance(found, Table) else found(model)
    raise CandidateError(
        f"nobody has written down where the lines of a {type(model).__name__} can be seen. "
        f"`transformulary conform ... --propose` drafts the table; known are {', '.join(TABLES)}."
    )


def read_table(file: str | Path) -> Table:
    """A user's table from a TOML file: [places], and, if need be, [lower], tokens and output.

    Raises CandidateError: it is no TOML, or no such table; DataError: it is no text.
    """
    try:
        content = tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise CandidateError(f"{file} is no TOML: {error}.") from None
    return make_table(content, str(file))


def as_table(table: Any) -> Table | None:
    """A Table, from a mapping too, which has what the TOML file has.  Raises CandidateError."""
    if table is None or isinstance(table, Table):
        return table
    if isinstance(table, Mapping):
        return make_table(table, "table")
    raise CandidateError(f"table is {table!r:.60}; it is a Table, or a mapping with places, lower, tokens, output.")


def make_table(content: Mapping[str, Any], where: str) -> Table:
    """A table from what a user wrote.  Raises CandidateError for keys and places that nobody knows."""
    if unknown := set(content) - {"places", "lower", "tokens", "output"}:
        raise CandidateError(f"{where} has {', '.join(sorted(unknown))}; a table has places, lower, tokens, output.")
    for name, holds in (("places", "path = place"), ("lower", "line = precision")):
        if not isinstance(value := content.get(name, {}), Mapping):
            raise CandidateError(f"{where}: {name} = {value!r} is no table of {holds}.")
    table = Table(**{"places": {}, **content})
    for path, place in table.places.items():
        if not isinstance(path, str) or not _is_place(place):
            raise CandidateError(
                f"{where}: {path!r} = {place!r} is no place; a place looks like blocks.{{l}}.norm:out, or is "
                f"(module, function of its inputs and its output)."
            )
    for name, value, known in (
        ("tokens", table.tokens, ("rows", "columns")),
        ("output", table.output, tuple(FORMS)),
        *((f"lower {line}", precision, tuple(UNIT)) for line, precision in table.lower.items()),
    ):
        if value not in known:
            raise CandidateError(f"{where}: {name} = {value!r}; it is {' or '.join(known)}.")
    return table


def _is_place(place: Any) -> bool:
    if isinstance(place, str):
        return bool(re.fullmatch(r"[^:]*:(in|out)(\.\d+)?", place))
    return isinstance(place, tuple) and len(place) == 2 and isinstance(place[0], str) and callable(place[1])

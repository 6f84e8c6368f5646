"""What can be asked for: one algorithm, or every algorithm of a model."""

from __future__ import annotations

from typing import Any

from transformulary.errors import AlgorithmError
from transformulary.oracle.source import read
from transformulary.paper import Config, DTransformerConfig, EDTransformerConfig, ETransformerConfig
from transformulary.pseudocode.boxes import box
from transformulary.pseudocode.definitions import definitions
from transformulary.pseudocode.specialise import Program, architecture, order
from transformulary.pseudocode.text import box as as_text
from transformulary.pseudocode.text import line


def numbers() -> list[str]:
    """The numbers of all algorithms in order: "1" to "15", and with letters those that published models add."""
    return sorted(read().numbers.values(), key=order)


def render(number: int | str, config: Config | None = None, numbers: bool = False) -> str:
    """Algorithm `number` as text, with the paper's line numbers.

    Args:
        number: 1 to 15, or one with a letter, "4r".
        config: the model whose lines are shown; the paper's choices if not given.
        numbers: sizes as the model's numbers, not as symbols.

    Raises:
        AlgorithmError: there is no such algorithm.
        ConfigError: the algorithm is for another architecture than the config's.
    """
    name = read().name(number)
    if name is None:
        raise AlgorithmError(_missing(number))
    return as_text(box(Program(config or _paper(str(number)), numbers), name))


def describe(config: Config) -> str:
    """Every algorithm that a model executes, with its numbers, and the functions that they use."""
    program = Program(config, numbers=True)
    boxes = [as_text(box(program, name)) for name in program.executed]
    where = [f"    {line(definition)}" for definition in definitions(program)]
    return "\n\n".join([*boxes, "\n".join(["where", *where])]) + "\n"


def _missing(number: int | str) -> str:
    known = numbers()
    lettered = ", ".join(n for n in known if not n.isdigit())
    return f"the paper has no Algorithm {number}; it has 1 to 15. Published models add {lettered}."


def _paper(number: str) -> Config:
    """The paper's choices for one algorithm, or those that an algorithm with a letter stands for.

    The sizes do not show: they are symbols unless a config is given.
    """
    kind = architecture(read().functions[read().name(number) or ""])
    sizes: Any = {"N_V": 2, "ell_max": 2, "H": 2, "d_e": 4, "d_mlp": 2}
    if kind == "EDTransformerConfig":
        return EDTransformerConfig(**sizes, L_enc=2, L_dec=2)
    if kind == "ETransformerConfig":
        return ETransformerConfig(**sizes, L=2)
    return DTransformerConfig(**sizes, L=2, norm="rms_norm" if number == "6r" else "layer_norm")

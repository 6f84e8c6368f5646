"""How a value of a run is named.

    10.6[l=3]/5.2[h=1]/4.6:softmax

is Algorithm 10, line 6, in layer 3; in the attention it calls, Algorithm 5, line 2, head 1; in there,
Algorithm 4, line 6; and in that line the result of softmax: the attention weights.

A path is one or more steps joined by `/`.  A step is `ALGORITHM.LINE`, then in brackets the loop and
position indices that distinguish its executions, outermost first, none twice, all counted from 1: `10.5[l=1,t=2]` is
one column of `10.5[l=1]`.  The iterations of a `while` loop are counted by `i`.  After the last step,
`:NAME` names a value inside the line: the result of a named function (`10.8:GELU`) or of a product with,
or look-up in, a parameter matrix (`10.8:W_mlp1`, `10.2[t=1]:W_e`).  Where a line is a softmax, what it is given are
its `:logits` (`10.11:logits`), whatever was done to a product before.  The k-th value of one name within a line, k > 1,
is `:NAME.k`.

A file name holds the same text with `+` for `/` and `@` for `:`, characters that no path contains.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from transformulary.errors import AlgorithmError

#: The letters of indices, in the order in which loops nest.
NESTING = ("i", "n", "l", "h", "t", "u", "t_z", "t_x")
_STEP = re.compile(r"(N[a-z]?)\.(N[a-z]?|0[a-z])(?:\[([a-z_]+=N(?:,[a-z_]+=N)*)\])?".replace("N", "[1-9][0-9]*"))
_NAME = re.compile(r"[A-Za-z]\w*(?:\.(?!1$)[1-9][0-9]*)?", re.ASCII)


@dataclass(frozen=True)
class Step:
    """One step of a path: Algorithm `number`, line `label`, and its indices as (name, value) from 1."""

    number: str
    label: str
    indices: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        at = ",".join(f"{name}={value}" for name, value in self.indices)
        return f"{self.number}.{self.label}" + (f"[{at}]" if at else "")


@dataclass(frozen=True)
class Path:
    """A parsed path: its steps, and the name of a value inside the last line ("" for the line's own value)."""

    steps: tuple[Step, ...]
    name: str = ""

    @property
    def layer(self) -> int:
        """The layer, from 1; 0 outside of layers."""
        return next((i for step in self.steps for name, i in step.indices if name == "l"), 0)

    def __str__(self) -> str:
        return "/".join(map(str, self.steps)) + (f":{self.name}" if self.name else "")


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Path:
    """The path that `text` spells.  Raises AlgorithmError for any other text."""
    where, colon, name = text.partition(":")
    found = [_STEP.fullmatch(step) for step in where.split("/")]
    steps = tuple(_step(match) for match in found if match)
    if not all(found) or not all(map(_nested, steps)) or bool(colon) != bool(_NAME.fullmatch(name)):
        raise AlgorithmError(
            f"{text!r} is not the path of a value. A path looks like 10.6[l=3]/5.2[h=1]/4.6:softmax: "
            f"ALGORITHM.LINE[index=number,...] steps joined by /, then :NAME for a value inside the last line."
        )
    return Path(steps, name)


def _nested(step: Step) -> bool:
    """The indices are letters that there are, each once, outermost first."""
    names = [name for name, _ in step.indices]
    return names == [name for name in NESTING if name in names]


def _step(match: re.Match[str]) -> Step:
    pairs = [pair.split("=") for pair in (match[3] or "").split(",") if pair]
    return Step(match[1], match[2], tuple((name, int(value)) for name, value in pairs))


def to_filename(path: str) -> str:
    """A file name (without suffix) for the value at `path`: 10.6[l=3]+5.2[h=1]+4.6@softmax."""
    return str(parse(path)).replace("/", "+").replace(":", "@")


def from_filename(name: str) -> str:
    """The path that `to_filename` turned into `name`."""
    return str(parse(name.replace("+", "/").replace("@", ":")))


def line_of(path: str) -> str:
    """10.6[l=1]/5.2[h=1] -> 10.6/5.2."""
    return re.sub(r"\[[^]]*\]", "", path)

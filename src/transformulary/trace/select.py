"""Which values are asked for: paths with wildcards.

A pattern is a path (`oracle/path.py`) in which `*` stands for any text within one step or index, and `**` for any text
at all:

    10.5[l=*]                   line 5 of every layer
    10.8[l=*]:GELU              what GELU gives there
    10.6[l=3]/5.2[h=*]/4.6:*    in layer 3, everything named in line 6 of every head
    10.6[l=3]/**                everything within line 6 of layer 3
    10.2[t=*]                   every token's embedding
    **                          everything
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

import numpy as np

from transformulary.errors import AlgorithmError
from transformulary.oracle import watched
from transformulary.oracle.whole import Model, sizes_at, theta_with
from transformulary.paper import Causal, Config, Read, TwoStacks
from transformulary.paper.parameters import size

#: An index of a path: its name and its number.
INDEX = re.compile(r"\b([a-z_]+)=(\d+)")
#: Indices of tokens and of numbers: the steps within one column.
WITHIN = re.compile(r"[\[,](t|t_x|t_z|i)=")


class Selection:
    """The values of one run that patterns ask for.

    Args:
        patterns: paths with wildcards.
        config: the model.
        given: what it reads, or how many tokens.
        gives: tokens, classes or vectors (`oracle.whole.Model`).

    Raises AlgorithmError where a pattern names no value of this model; the message names the nearest that does.
    """

    def __init__(self, patterns: Iterable[str], config: Config, given: Read | int, gives: str = "tokens") -> None:
        self.patterns = list(dict.fromkeys(patterns))
        given = Read((0,) * given) if isinstance(given, int) else given
        every, wanted = kinds(config, gives), set[str]()
        for pattern in self.patterns:
            found = [path for path in every if _regex(first(pattern)).fullmatch(path)]
            if not found:
                raise AlgorithmError(_nothing(pattern, every))
            _check(pattern, [sizes_at(path, config, given) for path in found])
            wanted |= set(found)
        self._above = {path[: cut.start()] for path in wanted for cut in re.finditer("[/:]", path)}
        self._all = re.compile("|".join(_regex(pattern).pattern for pattern in self.patterns))
        self._only = _literals(self.patterns)

    def wants(self, path: str) -> bool:
        """Whether the value at `path` is asked for."""
        return self._all.fullmatch(path) is not None

    def inside(self, path: str) -> bool:
        """Whether something inside a member of a line may be asked for (`oracle.watched`)."""
        return first(path) in self._above and all(
            int(value) in self._only.get(name, {int(value)}) for name, value in INDEX.findall(path)
        )


#: What a trace has unless it is asked for something else: see `default`.
SHOWN = re.compile(r"[^/:]*:(?!MHAttention|softmax|sqrt|W_[uc]$)\w+|.*/4\.6:softmax|[^:]*(?<!/5\.1)")


def default(config: Config, gives: str = "tokens") -> list[str]:
    """The patterns of a trace that is asked for nothing in particular.

    Every line for all tokens at once (so no step within one token's column, and not the list of heads, 5.1), and inside
    the lines the weights of attention, what the MLP computes, and the logits.
    """
    return [_wild(path) for path in kinds(config, gives) if not WITHIN.search(path) and SHOWN.fullmatch(path)]


#: The smallest sizes of a model of the same lines.
SMALLEST: dict[str, int] = dict.fromkeys(("L", "L_enc", "L_dec", "H", "H_kv", "d_mlp", "d_mid"), 1) | {
    "N_V": 2, "ell_max": 2, "d_e": 4, "d_attn": 4, "d_f": 4, "N_C": 1,
}  # fmt: skip


@lru_cache(maxsize=8)
def kinds(config: Config, gives: str = "tokens") -> tuple[str, ...]:
    """The path of every value that this model has, with every index 1, in the order of computation.

    Found by running a model of the same lines with one layer, one head, one token, and the smallest sizes.
    """
    known = {f.name for f in fields(config)}
    small: dict[str, Any] = {name: n for name, n in SMALLEST.items() if name in known}
    small |= {"mask": (Causal(),)} if "mask" in known else {}
    tiny, rng = replace(config, **small, eps=config.eps or 1e-5), np.random.default_rng(0)

    def array(name: str, shape: str) -> Any:
        dims = [SMALLEST[s] if s in SMALLEST else size(s, tiny) for s in shape.split()]
        return 0.2 * rng.normal(size=dims) + name.startswith("gamma")

    values: list[str] = []

    def keep(path: str, value: Any) -> Any:
        values.append(path)
        return value

    model = Model(tiny, theta_with(tiny, array, gives))
    segments = (0,) if getattr(config, "segments", 0) else ()
    model.run(watched(keep), Read((0,), (0,) if isinstance(config, TwoStacks) else (), segments))
    return tuple(dict.fromkeys(map(first, values)))


def _regex(pattern: str) -> re.Pattern[str]:
    """What a pattern stands for, as a regular expression.

    A star takes as little as it can and, but for the last ones, is not tried again (`(?>...)`): the first place that
    fits what follows is as good as any later one, and the time does not explode with the number of stars.
    """
    first, *rest = re.sub(r"\*{3,}", "**", pattern).split("**")
    if not rest:
        return re.compile(_between(first, last=True))
    inner = [rf"(?>.*?{_between(piece)})" for piece in rest[:-1]]
    return re.compile("".join([_between(first), *inner, ".*?", _between(rest[-1], last=True)]))


def _between(piece: str, last: bool = False) -> str:
    """The part of a regular expression that stands for a piece of a pattern between two `**`."""
    literal, *rest = map(re.escape, piece.split("*"))
    steps = [rf"[^/:,\[\]]*?{text}" for text in rest]
    fixed = len(steps) - 1 if last else len(steps)
    return literal + "".join(f"(?>{step})" if k < fixed else step for k, step in enumerate(steps))


def first(path: str) -> str:
    """The path with every index 1."""
    return INDEX.sub(r"\1=1", path)


def _wild(path: str) -> str:
    return INDEX.sub(r"\1=*", path)


def _literals(patterns: Sequence[str]) -> dict[str, set[int]]:
    """{index: its values}, of the indices that every pattern gives as a number."""
    given = [dict(INDEX.findall(pattern)) for pattern in patterns]
    names = set(given[0]).intersection(*given[1:]) if given else set()
    return {name: {int(indices[name]) for indices in given} for name in names}


def _check(pattern: str, sizes: Sequence[Mapping[str, int]]) -> None:
    """Raise AlgorithmError where an index is too large for each of the paths that a pattern may stand for."""
    for name, value in INDEX.findall(pattern):
        most = max(size.get(name, int(value)) for size in sizes)
        if not 1 <= int(value) <= most:
            raise AlgorithmError(f"no value is at {pattern}: {name} = {value} is outside 1 to {most}.")


def _nothing(pattern: str, every: Sequence[str]) -> str:
    asked = re.sub(r"=\d+", "=*", pattern)
    near = get_close_matches(asked, dict.fromkeys(map(_wild, every)), 1, cutoff=0)
    return (
        f"no value of this model is at {pattern}. The nearest path is {near[0]}; "
        f"* stands for any index or name, ** for everything below."
    )

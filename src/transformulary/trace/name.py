"""One name of one value, and the models that have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from transformulary.paper import Config

Condition = Callable[[Config], bool]


@dataclass(frozen=True)
class Name:
    """One program's name of one value.

    path  ours, every index as its letter alone: "10.6[l]/5.2[h]/4.1"
    name  theirs; {l} is the layer from 0
    ours  what turns their array into ours; {h}, {g} are the head and its key/value head from 0, {ell} the number of
          tokens, {q}, {k}, {v} slices of a joint projection or of one of them
    when  whether the model computes the same there
    """

    path: str
    name: str
    ours: str = "[0].T"
    when: Condition = lambda _: True


def lacks(bias: str) -> Condition:
    """The model has no such bias."""
    return lambda c: bias in c.absent


def plain(c: Config) -> bool:
    """The MLPs have no gate."""
    return c.mlp == "plain"


def same(ours: str) -> Condition:
    """A product is ours without its bias and theirs with it."""
    return lacks(ours.replace("W_", "b_")) if ours.startswith("W_") else lambda _: True

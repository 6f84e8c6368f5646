"""What one mistake is that was really made: where it was described, how to plant it, what `conform` must say of it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from conform.ordinary import GPT, PLACES, Sizes, build

#: The ids of every run: twelve tokens, of which 5 comes three times.
X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
#: Implementations that read a prompt in pieces read it in pieces of this many tokens here.
CHUNK = 8


@dataclass(frozen=True)
class Real:
    """One mistake.

    key      its name in tests
    says     what the implementation does
    thread   where it was described: owner/repository/issues/number, or .../pull/...
    line     of Algorithm 10, where `conform` must find it
    where    the layer, or "" where the line is in none
    looks    what `conform` must say that the difference looks like
    plant    makes the mistake in an ordinary model
    sizes    of that model
    right    what the reference's configuration has beyond the ordinary one's
    places   where the lines of the wrong model can be seen
    output   what it gives, logits or probabilities
    """

    key: str
    says: str
    thread: str
    line: str
    where: str
    looks: str
    plant: Callable
    sizes: Sizes = GPT
    right: dict | None = None
    places: dict | None = None
    output: str = "logits"

    @property
    def name(self):
        """owner/repository#number, as threads are cited."""
        owner, repository, _, number = self.thread.split("/")
        return f"{owner}/{repository}#{number}"

    @property
    def link(self):
        return f"[{self.name}](https://github.com/{self.thread})"

    def build(self, places=None):
        """(model with the mistake, its table, the reference that is right)."""
        model, table, ref = build(self.sizes, places=places or self.places or PLACES)
        self.plant(model)
        config = replace(ref.config, **self.right) if self.right else ref.config
        return model, replace(table, output=self.output), replace(ref, config=config)


REAL = []


def real(key, says, thread, line, where, looks, **more):
    """Adds the function below it, which plants the mistake, to the table."""
    return lambda plant: REAL.append(Real(key, says, thread, line, where, looks, plant, **more))


def attention(model, layer=2):
    return model.blocks[layer - 1].attn


def softmax_with(s, extra):
    """Softmax of scores and of `extra` further ones, which are given up afterwards; extra: (..., n)."""
    return torch.cat([s, extra.expand(*s.shape[:-1], -1)], -1).softmax(-1)[..., : s.shape[-1]]

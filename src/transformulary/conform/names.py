"""What names say: the marks of our parameters, by the table of parameters, and which of them a name mentions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from transformulary.paper import Config
from transformulary.paper.parameters import OF_CLASSES, parameters, split

#: How programs call what a mark of a parameter says.
WORDS = {
    "q": {"q", "wq", "query"},
    "k": {"k", "wk", "key"},
    "v": {"v", "wv", "value"},
    "o": {"o", "wo", "out", "output"},
    "enc": {"enc", "encoder", "src", "source"},
    "dec": {"dec", "decoder", "tgt", "target"},
    "attention": {"attn", "attention"},
    "self": {"self"},
    "cross": {"cross", "crossattention", "multihead", "memory", "enc", "encoder"},
    "mlp": {"mlp", "ffn", "ff", "fc", "output", "final"},
    "gate": {"gate"},
    "up": {"up"},
    "norm": {"norm", "ln", "layernorm", "rmsnorm"},
    "W": {"weight", "kernel", "w"},
    "b": {"bias", "b"},
    "gamma": {"weight", "gamma", "scale", "g"},
    "beta": {"bias", "beta", "b"},
    "embedding": {"e", "emb", "embd", "embed", "embedding", "embeddings"},
    "e": {"wte", "word", "words", "tok", "token", "tokens", "vocab"},
    "p": {"wpe", "pos", "position", "positions"},
    "s": {"segment", "segments", "type"},
    "top": {"f", "h", "head", "final", "last", "transform", "predictions"},
    "u": {"head", "lm", "logits", "unembed", "unembedding"},
    "first": {"input"},
    "last": {"post"},
}
#: The number of a layer in a name: blocks.3.ln_1.weight.
LAYER = re.compile(r"(?:^|(?<=\.))\d+(?=\.)")
#: A word of a name, or a number: encoder.SelfAttention.ln_1.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
#: What the paper appends to the name of what one of two stacks has, and what counts its layers.
SIDES = {"z": "enc", "enc": "enc", "L_enc": "enc", "x": "dec", "dec": "dec", "L_dec": "dec"}
#: Parameters that differ in a number -> what each of so many does, in their order.
ROLES = {
    ("norm", 2): ({"#1", "attention", "self", "first"}, {"#2", "mlp", "last"}),
    ("norm", 3): ({"#1", "attention", "self", "first"}, {"#2", "attention", "cross"}, {"#3", "mlp", "last"}),
    ("mlp", 2): ({"#1", "mlp"}, {"#2", "mlp"}),
    ("mlp", 3): ({"gate", "mlp"}, {"mlp"}, {"up", "mlp"}),
}
NONE: set[str] = set()
Words = tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """One of our parameters, in whatever layer: "W_dec.W_q", "gamma_3", "W_e_z".

    stack   the size that counts its layers, "L_dec"; "" outside of layers
    bundle  of a parameter of attention, what theta calls them all, "W_dec"; else ""
    marks   what a name may say of it
    """

    name: str
    stack: str
    bundle: str
    marks: frozenset[str]

    def at(self, layer: int) -> str:
        """Its name in a layer."""
        return f"{self.name}[{layer}]" if self.stack else self.name


def kinds(names: Iterable[str], c: Config) -> dict[str, Kind]:
    """What the table of parameters knows of some of our names, without a layer."""
    table = {name: n if n.startswith("L") else "" for name, n in map(split, (*parameters(c), *OF_CLASSES))}
    return {name: _kind(name, table) for name in names}


def _kind(name: str, table: Mapping[str, str]) -> Kind:
    bundle, _, base = name.rpartition(".")
    bundle = bundle or "W" * (base not in table)
    stack = table.get(bundle or base, "")
    letter, *rest = base.split("_")
    marks = {letter, *rest, *(SIDES[last] for last in (*rest[-1:], stack) if last in SIDES)}
    if f"{base}_z" in table:
        marks.add("dec")
    if "L_dec" not in table.values():
        marks -= {"enc", "dec"}
    if letter in ("gamma", "beta"):
        marks |= {"norm", "embedding" if rest and rest[-1] in "xz" else "top" if not stack else ""}
    elif {"e", "p", "s"} & marks:
        marks.add("embedding")
    if bundle:
        return Kind(name, stack, bundle, frozenset(marks | {"attention", "cross" if bundle == "W_ed" else "self"}))
    return Kind(name, stack, "", frozenset(marks | _role(base, table)))


def _role(base: str, table: Mapping[str, str]) -> frozenset[str]:
    """What its number says of a norm or a matrix of an MLP among those of its stack."""
    stem = base.rstrip("123456")
    among = [name for name, stack in table.items() if name.rstrip("123456") == stem and stack == table.get(base)]
    role = ROLES.get(("mlp" if stem.endswith("mlp") else "norm", len(among)))
    return frozenset(role[among.index(base)]) if role and stem != base else frozenset()


@dataclass(frozen=True)
class Place:
    """Where a tensor stands by its name.

    pattern  the name without the number of its layer
    stack    what stands before that number; "" of a name without
    layer    that number; -1 without
    """

    pattern: str
    stack: str = ""
    layer: int = -1


def place(name: str, layered: bool) -> Place:
    """Where a tensor stands by its name; layered: whether the parameter that it is has layers."""
    found = LAYER.search(name) if layered else None
    if not found:
        return Place(name)
    before, after = name[: found.start()], name[found.end() :]
    return Place(f"{before}{{}}{after}", before, int(found[0]))


def words(patterns: Iterable[str]) -> dict[str, frozenset[str]]:
    """The words of names; a number as its rank among names that differ in nothing else: #1 in ln_1 or norms.0."""
    parted = {pattern: tuple(word.lower() for word in WORD.findall(pattern)) for pattern in patterns}
    numbers: dict[tuple[Words, Words], set[int]] = defaultdict(set)
    counted = [(some, k) for some in parted.values() for k, word in enumerate(some) if word.isdigit()]
    for some, k in counted:
        numbers[some[:k], some[k + 1 :]].add(int(some[k]))
    ranks = {(some, k): f"#{sorted(numbers[some[:k], some[k + 1 :]]).index(int(some[k])) + 1}" for some, k in counted}
    return {
        pattern: frozenset(ranks.get((some, k), word) for k, word in enumerate(some))
        for pattern, some in parted.items()
    }  # fmt: skip


def told(said: frozenset[str], kind: Kind) -> int:
    """How many marks of a parameter the words of a name mention."""
    return sum(mark in said or not WORDS.get(mark, NONE).isdisjoint(said) for mark in kind.marks)

"""The executed example of every algorithm: a program that the page prints, and what it computes."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from transformulary.oracle.path import Path, Step, parse
from transformulary.oracle.source import read
from transformulary.pseudocode.specialise import annotation, architecture

#: Argument of an algorithm -> what the example gives it.
ARGUMENTS = {
    "v": "3",
    "ell": "2",
    "delta": "1",
    "T": "3",
    "e": "rng.normal(size=config.d_e)",
    "e_": "list(rng.normal(size=(3, config.d_e)))",
    "q": "rng.normal(size=config.d_attn)",
    "X": "X",
    "Z": "X",
    "W_e": "theta.W_e",
    "W_p": "theta.W_p",
    "W_u": "theta.W_u",
    "W_pool": "rng.normal(size=(config.d_e, config.d_e))",
    "b_pool": "rng.normal(size=config.d_e)",
    "W_c": "rng.normal(size=(3, config.d_e))",
    "b_c": "rng.normal(size=3)",
    "W": "theta.W[0]",
    "W_qkv": "W_qkv(theta.W[0], 0, 0)",
    "gamma": "theta.gamma_1[0]",
    "beta": "theta.beta_1[0]",
    "Mask": "config.mask[0]",
    "x": "[3, 1, 4]",
    "z": "[2, 0, 5, 2]",
    "theta": "theta",
    "theta_hat": "theta",
    "c": "config",
    "rng": "rng",
    "eta": "0.1",
    "p_mask": "0.4",
    "mask_token": "config.N_V - 3",
    "bos_token": "config.N_V - 2",
    "eos_token": "config.N_V - 1",
    "ell_gen": "2",
    "g": "0.1 * theta",
    "omega": "0",
    "i": "0",
    "how": "how",
    "clock": "[3.0, 5.0]",
}
#: The same for algorithms that remember two things.
TWO = {"Adam": {"omega": "(0, 0)"}, "update": {"omega": "(0, 0)"}}
#: What the algorithms of practice are told.
HOW = (
    'N_steps=2, N_batch=2, chunks=True, shuffle=True, optimiser="adamw", decay=0.1, g_max=0.5, eta_embedding=2.0,\n'
    '    schedule="cosine", N_warmup=1, N_total=4'
)
#: The same where an argument is many sequences.
MANY = {"x": "[[6, 3, 1, 4]]", "z": "[[2, 0, 5]]"}
#: (algorithm, line) -> the choices that bring in a line which the paper does not have: of practice where an algorithm
#: is told how it is practised, else of the config.
CHOICES = {
    ("4", "1a"): "qk_norm=True",
    ("4", "2a"): "qk_norm=True",
    ("4", "3a"): 'positions="rotary"',
    ("4", "3b"): 'positions="rotary"',
    ("4r", "1a"): 'positions="rotary", frequencies="linear", factor=4.0',
    ("4r", "1b"): 'positions="rotary", frequencies="llama3", factor=4.0, ell_train=4',
    ("4r", "1c"): 'positions="rotary", frequencies="yarn", factor=4.0, ell_train=4',
    ("4r", "1d"): 'positions="rotary", frequencies="yarn", factor=4.0, ell_train=4',
    ("13e", "2"): "T_total=9.0",
    ("13u", "2"): 'optimiser="adam"',
    ("8", "3a"): "embedding_norm=True",
    ("8", "12a"): "embedding_norm=True",
    ("8a", "3a"): "embedding_norm=True",
    ("8a", "13a"): "embedding_norm=True",
    ("9", "2a"): "segments=2",
    ("9", "3a"): "embedding_norm=True",
    ("10", "3a"): "embedding_norm=True",
    **{(number, label): "N_steps=2" for number in ("11", "12", "13") for label in ("0a", "1a", "1b")},
    **{(number, "0b"): 'N_steps=2, optimiser="adamw"' for number in ("11", "12", "13")},
    **{(number, "7a"): 'N_steps=2, loss="tokens"' for number in ("11", "13")},
    **{(number, "7b"): 'N_steps=2, optimiser="momentum"' for number in ("11", "13")},
    ("12", "1c"): 'N_steps=2, loss="tokens"',
    ("12", "3a"): 'masking="bert"',
    ("12", "3b"): 'masking="bert"',
    ("12", "10a"): 'N_steps=2, loss="tokens"',
    ("12", "11a"): 'N_steps=2, loss="tokens"',
    ("12", "11b"): 'N_steps=2, optimiser="momentum"',
    **{("14", label): "top_k=3, top_p=0.5" for label in ("4a", "4b", "4c")},
    ("14", "6a"): "stop=(7,)",
    **{("15", label): "top_k=3, top_p=0.5" for label in ("5a", "5b", "5c")},
}
SIZES = "N_V=8, ell_max=6, H=2, d_e=4, d_mlp=8"
LAYERS = dict.fromkeys(("EDTransformerConfig", "PreEDTransformerConfig"), "L_enc=1, L_dec=1")
DECODER = "DTransformerConfig"


@dataclass(frozen=True)
class Example:
    """A program and the values of the run that it makes: path -> value, in the order in which they were computed."""

    program: str
    values: dict[str, Any]

    def of(self, number: str, label: str) -> dict[str, Any]:
        """The value of a line, and of what is named inside it; of the first of its executions, and of the first member
        where only members have names."""
        own = {p: parse(p) for p in self.values if not p.count("/")}
        here = {p: path for p, path in own.items() if (path.steps[0].number, path.steps[0].label) == (number, label)}
        whole = min((path for path in here.values() if not path.name), key=_depth, default=None)
        if whole is None:
            return {}
        members = [path for path in here.values() if path.name and _within(path.steps[0], whole.steps[0])]
        first = min(members, key=_depth).steps if members else ()
        return {p: self.values[p] for p in [str(whole), *(str(m) for m in members if m.steps == first)]}


def _depth(path: Path) -> int:
    return len(path.steps[0].indices)


def _within(member: Step, whole: Step) -> bool:
    return member.indices[: len(whole.indices)] == whole.indices


@cache
def example(number: str, choices: str = "") -> Example:
    """Algorithm `number` on a tiny model, the paper's but for `choices`, which are of `how` where practice is shown.

    Raises KeyError for an argument that has no example.
    """
    function = read().functions[read().name(number) or ""]
    program = _program(function, choices)
    scope: dict[str, Any] = {}
    exec(compile(program, f"<the example of Algorithm {number}>", "exec"), scope)
    return Example(program, scope["values"])


def _program(function: ast.FunctionDef, choices: str) -> str:
    kind = architecture(function)
    kind = kind if kind.endswith("TransformerConfig") else DECODER
    segments = ["[0, 0, 1]"] if "segments" in choices else []
    arguments = _arguments(function, bool(choices))
    call = ", ".join([f'"{function.name}"', *arguments, *segments])
    practised = _practice(function) if "how" in arguments else ""
    sizes = ", ".join(filter(None, [SIZES, LAYERS.get(kind, "L=1"), choices if not practised else ""]))
    told = _without(HOW, choices) if "how" in _arguments(function, False) else ""
    how = ", ".join(filter(None, [told, choices]))
    needs = f"{call} config"
    if "theta" in needs:
        needs += " rng"
    rows = {
        "np": "import numpy as np" if "rng" in needs or "X" in arguments else "",
        "": f"from transformulary import {kind}, oracle",
        "how": f"from transformulary.paper import {practised}" if practised else "",
        "W_qkv": "from transformulary.oracle.theta import W_qkv" if "W_qkv(" in call else "",
        "config": f"\nconfig = {kind}({sizes})",
        "rng": "rng = np.random.default_rng(0)" if "rng" in needs or "X" in arguments else "",
        "theta": "theta = oracle.random_theta(config, rng)" if "theta" in call else "",
        "told": f"how = {practised}(\n    {how},\n)" if practised else "",
        "X": "X = rng.normal(size=(config.d_e, 3))" if "X" in arguments else "",
    }
    return "\n".join([*filter(None, rows.values()), f"values = oracle.record({call})", ""])


def _without(told: str, choices: str) -> str:
    """What is told without what a choice says otherwise."""
    name = choices.partition("=")[0]
    return re.sub(rf"\b{name}=[^,]*, ?", "", told) if name else told


def _practice(function: ast.FunctionDef) -> str:
    """What `how` is: Training or Inference."""
    return next(annotation(a) for a in function.args.args if a.arg == "how")


def _arguments(function: ast.FunctionDef, chosen: bool) -> list[str]:
    """What the call hands over: all that has no default, the config, and how it is practised if that is chosen."""
    positional = [*function.args.posonlyargs, *function.args.args]
    required = len(positional) - len(function.args.defaults)
    own = TWO.get(function.name, {})
    wanted = {"c", "how"} if chosen else {"c"}
    given = [own.get(a.arg) or _value(a) for k, a in enumerate(positional) if k < required or a.arg in wanted]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return given + [f"{a.arg}={_value(a)}" for a, default in named if default is None or a.arg == "ell_gen"]


def _value(argument: ast.arg) -> str:
    many = argument.annotation and ast.unparse(argument.annotation) == "Sequences"
    return (MANY if many else ARGUMENTS)[argument.arg]

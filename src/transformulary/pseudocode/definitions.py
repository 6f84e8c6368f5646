"""The functions that lines name, as formulas."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from transformulary.paper import Causal, DTransformerConfig, ETransformerConfig, Full, Mask
from transformulary.pseudocode.formulas import Formulas
from transformulary.pseudocode.nodes import Infix, Line, Node
from transformulary.pseudocode.prose import prose
from transformulary.pseudocode.specialise import Program, how, mentioned

#: Function -> (what, its value, in Python; a remark, as of `prose`).  A test compares values with `oracle.notation`.
DEFINITIONS = {
    "softmax": ("softmax(A)[i, j]", "exp(A[i, j]) / sum(exp(A[k, j]) for k in range(d))", "where $A$ has $d$ rows"),
    "GELU": ("GELU(x)", "x * Phi(x)", "for every entry $x$"),
    "Phi": ("Phi(x)", "(1 + erf(x / sqrt(2))) / 2", ""),
    "GELU_tanh": ("GELU_tanh(x)", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))", "for every entry $x$"),
    "ReLU": ("ReLU(x)", "max(0, x)", "for every entry $x$"),
    "SiLU": ("SiLU(x)", "x / (1 + exp(-x))", "for every entry $x$"),
    "ramp": ("ramp(x, a, b)", "max(0, min(1, (x - a) / (b - a)))", "; a step at $a$ where $a == b$"),
    "bucket_back": (
        "bucket(delta, Mask)",
        "min(a, 16) + min(15, floor(16 * log(max(1, a / 16)) / log(8)))",
        "with $a == max(0, -delta)$, where $Mask$ lets no token attend to a later one",
    ),
    "bucket_ahead": (
        "bucket(delta, Mask)",
        "16 * iverson(delta > 0) + min(a, 8) + min(7, floor(8 * log(max(1, a / 8)) / log(16)))",
        "with $a == max(delta, -delta)$, where $Mask$ lets tokens attend to later ones",
    ),
    "sharing": ("sharing(W, B_enc)", "", "is $W$ with $B_enc$, which all layers have in common, as its $B$"),
    "drop": (
        "dropout(X)",
        "",
        "is $X$ with each entry $0$ with probability ${p_drop}$ and else divided by $1 - {p_drop}$, drawn anew for "
        "every sequence and step; in inference it is $X$",
    ),
    "uniform": ("uniform(d)", "", "is a random whole number from $0$ to $d - 1$"),
    "joined": ("joined(D)", "", "is one list of all that the lists in $D$ have, in their order"),
    "clock": ("clock[i]", "", "is the time of training before step $i$, in seconds"),
    "matrices": ("matrices(theta)", "", "is $theta$ with $0$ in place of positional embeddings and of all vectors"),
    "embeddings": ("embeddings(g)", "", "is $g$ with $0$ in place of all but token and positional embeddings"),
    "norm": ("norm(g)", "", "is the root of the sum of the squares of all numbers in $g$, of all layers together"),
    "entries": (
        "sqrt(g)",
        "",
        "is $g$ with the root of every number; quotients and a number that is added are of every number too",
    ),
    "chosen": (
        "chosen(x, p_mask, special)",
        "",
        "is a set of places of $x$, each with probability $p_mask$, but none of a special token",
    ),
    "corrupted": (
        "corrupted(v, mask_token, N_V)",
        "",
        "is $mask_token$ with probability $0.8$, $v$ with $0.1$, else one of the $N_V$ tokens at random",
    ),
    "likeliest": (
        "likeliest(p, a)",
        "",
        "is $p$ on its $a$ most probable tokens, of equals the first, and $0$ elsewhere, divided by its sum",
    ),
    "nucleus": (
        "nucleus(p, b)",
        "",
        "is $p$ on the fewest most probable tokens, of equals the first, that together reach $b$, and $0$ elsewhere, "
        "divided by its sum",
    ),
    "stop": ("stop", "", "is the set of tokens {{{stop}}}, as `tokenizer.json` counts them, from $0$"),
}


def definitions(program: Program, names: Iterable[str]) -> Iterator[Line]:
    """One line for every function that the lines of some algorithms name, and for those that these need."""
    names = list(names)
    nodes = [node for name in names for node in ast.walk(program[name])]
    used = {getattr(n, "id", getattr(n, "attr", getattr(n, "name", ""))) for n in nodes}
    facts = {"p_drop": program.practice.training.p_drop, "stop": ", ".join(map(str, program.practice.inference.stop))}
    by_the_clock = any(practice.training.T_total for practice in program.practice.by_session())
    if not (by_the_clock and "learning_rate" in used):
        used.discard("clock")  # which is handed on, and not looked at
    if any("sqrt" in mentioned(program[name]) and how(program[name], program.practice) for name in names):
        used.add("entries")
    if "bucket" in used:
        used |= {f"bucket_{'back' if mask.causal else 'ahead'}" for mask in _masks(program)}
    for name, (what, value, remark) in DEFINITIONS.items():
        if name in used:
            used |= {n.id for n in ast.walk(ast.parse(value)) if isinstance(n, ast.Name)}
            formula = _of_entries(program) if value else _of_arrays(program)
            node: Node = formula(_expression(what))
            shown = Infix("=", node, formula(_expression(value))) if value else node
            yield Line("", 0, (shown, *prose(remark, formula, **facts).parts))


def _masks(program: Program) -> tuple[Mask, ...]:
    """The masks of a model's self-attention."""
    match program.config:
        case DTransformerConfig(mask=masks):
            return masks
        case ETransformerConfig():
            return (Full(),)
    return (Full(), Causal())


def _of_entries(program: Program) -> Formulas:
    """How formulas are set in which x is one entry of an array."""
    return Formulas(program, scalars={"x"}, indices={"j", "k"})


def _of_arrays(program: Program) -> Formulas:
    """How formulas are set that stand for whole arrays."""
    return Formulas(program, arrays={"g"})


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body

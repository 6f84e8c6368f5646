"""The cases of the golden vectors: which algorithm runs on which inputs, with which parameters.

Inputs and parameters are made from the raw bits of PCG64, which are the same everywhere, by operations that IEEE 754
defines to the last bit, and are rounded to float32: the same bytes on every machine, and exact in float32 too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from math import ceil, log2, prod, sqrt
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from transformulary.oracle import Theta, numbers, theta_from, watched
from transformulary.oracle.path import parse
from transformulary.oracle.whole import Model
from transformulary.paper import (
    Choices,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
    Read,
    Sizes,
)
from transformulary.paper.masks import parse_mask
from transformulary.paper.parameters import size, split
from transformulary.trace.select import WITHIN

Array = NDArray[Any]

SMALL: dict[str, Any] = {"N_V": 17, "ell_max": 10, "L": 2, "H": 3, "d_e": 12, "d_mlp": 20}
GPT2: dict[str, Any] = {"eps": 1e-5, "activation": "gelu_tanh", "tied": True}
LLAMA: dict[str, Any] = {
    **SMALL, "H": 4, "H_kv": 2, "d_attn": 4, "norm": "rms_norm", "eps": 1e-6, "activation": "silu", "mlp": "gated",
    "positions": "rotary", "absent": ["b_q", "b_k", "b_v", "b_o", "b_mlp1", "b_mlp2", "b_mlp3", "b_u"],
}  # fmt: skip
X = [5, 3, 16, 0, 7, 7, 11]
Z, X_OF_Z = [2, 8, 4, 4], [9, 3, 5]
#: So many that distances share buckets, for both ways from 8 on, for one way from 16.
FAR_Z, FAR_X = ([(3 * t * t + b * t + 2) % 11 for t in range(ell)] for ell, b in ((16, 1), (20, 5)))
#: Small enough for two stacks; bos and eos are tokens of the decoder.
TWO: dict[str, Any] = {"N_V": 11, "ell_max": 6, "L_enc": 2, "L_dec": 2, "H": 2, "d_e": 8, "d_mlp": 14}
ONE: dict[str, Any] = {"N_V": 11, "ell_max": 6, "L": 1, "H": 2, "d_e": 8, "d_mlp": 14}
BERT: dict[str, Any] = {**ONE, "eps": 1e-12, "segments": 2, "embedding_norm": True, "tied": True, "absent": []}
MARIAN: dict[str, Any] = {
    **TWO, "eps": 1e-5, "activation": "silu", "positions": "sinusoid_halves", "embedding_scale": "sqrt", "tied": True,
    "absent": [],
}  # fmt: skip
#: Algorithm 15 shows its own lines only.
SHALLOW = MARIAN | {"L_enc": 1, "L_dec": 1}
T5: dict[str, Any] = {
    **TWO, "H": 1, "eps": 1e-6, "d_attn": 5, "norm": "rms_norm", "positions": "bucketed", "scale": "none",
    "tied": True, "unembedding_scale": "sqrt",
    "absent": ["b_q", "b_k", "b_v", "b_o", "b_u", *(f"b_mlp{k}" for k in range(1, 7))],
}  # fmt: skip
UNIFORM = (0.046875, 0.953125, 0.5, 0.3125)
#: Numbers that draw eos last.
ENDS, ENDS_0 = (0.953125, 0.046875, 0.875), (0.5, 0.953125, 0.125)
#: What is no choice of a config: how to draw.
DRAWING = ("tau", "bos_token", "eos_token", "ell_gen")


#: Algorithm -> the class of its config, where it runs a whole model.
WHOLE: dict[str, Any] = {
    "8": EDTransformerConfig, "8a": PreEDTransformerConfig, "9": ETransformerConfig, "10": DTransformerConfig,
    "14": DTransformerConfig, "15": EDTransformerConfig,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One run of one algorithm.

    name     begins with the algorithm's number
    about    what it shows, in a few words
    config   sizes and choices; for Algorithms 1-7 those that they read
    inputs   name -> a list of token ids or positions, or the shape of an array to be drawn
    shapes   parameter -> shape; for Algorithms 8-10, 14 and 15 the config says it
    uniform  Algorithms 14 and 15: the numbers in [0, 1) that choose the tokens
    """

    name: str
    about: str
    config: dict[str, Any] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    uniform: tuple[float, ...] = ()

    @property
    def number(self) -> str:
        return self.name.partition("-")[0]

    @property
    def few(self) -> bool:
        """Whether what is `LEFT_OUT` is."""
        return self.number in ("8", "8a", "9") or self.config.get("positions") == "bucketed"


def _head(d_x: int = 12, d_z: int = 12, d_attn: int = 4, d_out: int = 4) -> dict[str, str]:
    matrices = {"W_q": f"{d_attn} {d_x}", "W_k": f"{d_attn} {d_z}", "W_v": f"{d_out} {d_z}"}
    return matrices | {"b_q": f"{d_attn}", "b_k": f"{d_attn}", "b_v": f"{d_out}"}


def _heads(H: int, H_kv: int) -> dict[str, str]:
    counts = {name: H if name.endswith("q") else H_kv for name in _head()}
    several = {f"{name}[{n}]": shape for name, shape in _head().items() for n in range(1, counts[name] + 1)}
    return several | {"W_o": f"12 {4 * H}", "b_o": "12"}


_SCORES = {"scale": "sqrt", "positions": "none"}
_ROTARY = {"scale": "sqrt", "positions": "rotary", "base": 10000.0}
_BUCKETED = {"scale": "none", "positions": "bucketed"}
_FAR = {**{f"W_{x}": "4 4" for x in "qkv"}, **{f"b_{x}": "4" for x in "qkv"}, "B": "32"}
_WIDE = {"N_V": 64, "ell_max": 16, "L": 1, "H": 3, "d_e": 192, "d_mlp": 768}

CASES = (
    Case("1-first", "the first token", inputs={"v": [0]}, shapes={"W_e": "12 17"}),
    Case("1-last", "the last token", inputs={"v": [16]}, shapes={"W_e": "12 17"}),
    Case("2-first", "the first position", inputs={"ell": [0]}, shapes={"W_p": "12 10"}),
    Case("2-last", "the last position", inputs={"ell": [9]}, shapes={"W_p": "12 10"}),
    Case("3-paper", "one token looks at five", inputs={"e": "12", "e_": "12 5"}, shapes=_head()),
    Case("3-alone", "a context of one token: its weight is 1", inputs={"e": "12", "e_": "12 1"}, shapes=_head()),
    Case("4-full", "two sequences, of two widths", _SCORES | {"mask": "full"},
         {"X": "12 5", "Z": "8 7"}, _head(d_z=8, d_out=6)),
    Case("4-causal", "self-attention", _SCORES | {"mask": "causal"}, {"X": "12 7"}, _head()),
    Case("4-local", "a band of three tokens", _SCORES | {"mask": "local(3)"}, {"X": "12 7"}, _head()),
    Case("4-rotary", "Llama's rotation of queries and keys", _ROTARY | {"mask": "causal"}, {"X": "12 5"}, _head()),
    Case("4-buckets", "T5's 32 buckets of distances up to 128, for both ways",
         _BUCKETED | {"mask": "full"}, {"X": "4 2", "Z": "4 130"}, _FAR),
    Case("4-buckets-causal", "T5's 32 buckets of distances up to 128, for one way",
         _BUCKETED | {"mask": "causal"}, {"X": "4 130", "Z": "4 2"}, _FAR),
    Case("5-paper", "three heads", _SCORES | {"mask": "causal"}, {"X": "12 7"}, _heads(3, 3)),
    Case("5-grouped", "four heads, two of keys and values", _SCORES | {"mask": "causal"}, {"X": "12 5"}, _heads(4, 2)),
    Case("6-paper", "no epsilon", {"eps": 0.0}, {"e": "12"}, {"gamma": "12", "beta": "12"}),
    Case("6-gpt2", "with epsilon, and numbers so small that it matters", {"eps": 1e-5}, {"e": "12 tiny"},
         {"gamma": "12", "beta": "12"}),
    Case("6r-llama", "RMSnorm", {"eps": 1e-6}, {"e": "12"}, {"gamma": "12"}),
    Case("7-paper", "a distribution over 17 tokens", inputs={"e": "12"}, shapes={"W_u": "17 12"}),
    Case("8-paper", "as the paper prints it", TWO, {"z": Z, "x": X_OF_Z[:2]}),
    Case("8-marian", "Marian: epsilon, sinusoids in halves, scaled embedding, SiLU, tied unembedding with a bias",
         MARIAN, {"z": Z, "x": X_OF_Z[:2]}),
    Case("8a-t5", "T5: norms before, RMSnorm, 32 buckets of distances up to 128, no biases, no scale of the scores", T5,
         {"z": FAR_Z, "x": FAR_X}),
    Case("9-paper", "as the paper prints it", ONE, {"x": Z}),
    Case("9-bert", "BERT: epsilon, segments, a norm of the embedding, tied unembedding with a bias", BERT,
         {"x": Z, "s": [0, 0, 1, 1]}),
    Case("9c-bert", "five classes, from the first token", inputs={"X": "8 4"},
         shapes={"W_pool": "8 8", "b_pool": "8", "W_c": "5 8", "b_c": "5"}),
    Case("10-paper", "as the paper prints it", SMALL, {"x": X}),
    Case("10-gpt2", "GPT-2: epsilon, GELU's tanh form, tied unembedding", SMALL | GPT2, {"x": X}),
    Case("10-banded", "GPT-3's layers: causal and banded in turn", SMALL | GPT2 | {"mask": ["causal", "local(3)"]},
         {"x": X}),
    Case("10-llama", "Llama: RMSnorm, rotary positions, gated SiLU, grouped queries, no biases", LLAMA, {"x": X[:4]}),
    Case("10-wide", "GPT-2, one layer of realistic width", _WIDE | GPT2, {"x": [40, 3, 63, 0, 7, 7]}),
    Case("14-gpt2", "sampling as it is", SMALL | GPT2 | {"tau": 1.0}, {"x": X[:3]}, uniform=UNIFORM),
    Case("14-cold", "temperature 0.5", SMALL | GPT2 | {"tau": 0.5}, {"x": X[:3]}, uniform=UNIFORM),
    Case("14-greedy", "temperature 0: the most probable token", SMALL | GPT2 | {"tau": 0.0}, {"x": X[:3]},
         uniform=UNIFORM),
    Case("15-marian", "until eos is drawn", SHALLOW | {"tau": 1.0, "bos_token": 3, "eos_token": 5}, {"z": Z},
         uniform=ENDS),
    Case("15-eos-0", "eos is id 0, as Marian's: line 2 must be no token",
         SHALLOW | {"tied": False, "tau": 1.0, "bos_token": 1, "eos_token": 0}, {"z": Z}, uniform=ENDS_0),
    Case("15-greedy", "temperature 0; cut after four tokens",
         SHALLOW | {"tau": 0.0, "bos_token": 3, "eos_token": 10, "ell_gen": 4}, {"z": Z}, uniform=UNIFORM),
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """What a case holds: inputs and parameters as arrays, every value by path, and what each may be off by.

    roundoffs: path -> the error allowed, in unit roundoffs of the precision, relative to the value's largest number
    """

    case: Case
    config: dict[str, Any]
    inputs: dict[str, Array]
    parameters: dict[str, Array]
    values: dict[str, Array]
    roundoffs: dict[str, int]

    @property
    def output(self) -> str:
        return list(self.values)[-1]


def run(case: Case) -> Run:
    """Draw a case's inputs and parameters, run it, and measure how far rounding can carry each of its values."""
    draw = _Numbers(case.name)
    inputs = {name: _input(draw, given) for name, given in case.inputs.items()}
    config = _config(case)
    theta = _theta(draw, case, config)
    values = _record(case, inputs, theta)
    given = inputs | ({"u": np.array(case.uniform)} if case.uniform else {})
    return Run(case, _shown(case, config), given, dict(theta.items()), values, _roundoffs(case, inputs, theta))


def _shown(case: Case, config: Choices) -> dict[str, Any]:
    """The case's sizes and choices, all of them where the algorithm reads a whole config."""
    if case.number not in WHOLE:
        return case.config
    drawing = {name: case.config[name] for name in DRAWING if name in case.config}
    drawing |= {"ell_gen": len(case.uniform)} if case.number == "14" else {}
    return {**config.to_dict(), **drawing}  # type: ignore[attr-defined]


# drawing


class _Numbers:
    """Numbers from the bits of PCG64: uniform, with a given mean and standard deviation, exact in float32."""

    def __init__(self, name: str) -> None:
        self.bits = np.random.PCG64(crc32(name.encode()))

    def __call__(self, dims: Iterable[int], deviation: float = 1.0, mean: float = 0.0) -> Array:
        dims = tuple(dims)
        raw = np.asarray(self.bits.random_raw(prod(dims)), np.uint64).reshape(dims)
        between = (raw >> np.uint64(40)).astype(np.float64) / 2**23 - 1  # in [-1, 1)
        return (mean + deviation * sqrt(3) * between).astype(np.float32).astype(np.float64)

    def parameter(self, name: str, dims: tuple[int, ...]) -> Array:
        """A parameter of a size that leaves every line something to do: scores differ, attention is not uniform."""
        kind = re.sub(r".*\.|\[\d+\]", "", name)
        if kind.startswith("gamma"):
            return self(dims, 0.3, 1)
        if kind in ("W_e", "W_p"):
            return self(dims, (2 if kind == "W_e" else 1) / sqrt(dims[0]))
        gain = 1.5 if kind in ("W_q", "W_k", "W_u") else 1
        return self(dims, gain / sqrt(dims[1]) if len(dims) == 2 else 0.3)


def _input(draw: _Numbers, given: Any) -> Array:
    if isinstance(given, list):
        return np.array(given, np.int64)
    dims = [int(n) for n in given.split() if n.isdigit()]
    return draw(dims, 0.01 if given.endswith("tiny") else 1.0)


def _config(case: Case) -> Choices:
    if case.number in WHOLE:
        whole: Choices = WHOLE[case.number].from_dict({k: v for k, v in case.config.items() if k not in DRAWING})
        return whole
    known = {f.name for f in fields(Choices)}
    return Choices(**{name: value for name, value in case.config.items() if name in known})


def _theta(draw: _Numbers, case: Case, config: Choices) -> Theta:
    if isinstance(config, Sizes):
        return theta_from(config, lambda name, shape: draw.parameter(name, _dims(shape, config)))
    tree: dict[str, Any] = {}
    for name, shape in case.shapes.items():
        array = draw.parameter(name, tuple(map(int, shape.split())))
        family, count = split(name)
        if count:
            tree.setdefault(family, []).append(array)
        else:
            tree[name] = array
    return Theta(absent=() if case.number != "6r" else ("beta",), **tree)


def _dims(shape: str, config: Any) -> tuple[int, ...]:
    return tuple(size(s, config) for s in shape.split())


# running


class _Given:
    """Stands for a random generator: hands out the given uniform numbers."""

    def __init__(self, numbers: Iterable[float]) -> None:
        self.numbers = iter(numbers)

    def random(self) -> float:
        return next(self.numbers)


def _call(algorithms: Any, case: Case, inputs: Mapping[str, Any], theta: Theta) -> Any:
    """Run the case's algorithm."""
    c, tau = _config(case), case.config.get("tau")
    a, one = inputs, {name: array[0] for name, array in inputs.items() if array.dtype == np.int64}
    mask = parse_mask(case.config["mask"]) if isinstance(case.config.get("mask"), str) else None
    match case.number:
        case "1":
            return algorithms.token_embedding(int(one["v"]), theta.W_e)
        case "2":
            return algorithms.positional_embedding(int(one["ell"]), theta.W_p)
        case "3":
            return algorithms.single_query_attention(a["e"], list(a["e_"].T), theta)
        case "4":
            return algorithms.Attention(a["X"], a.get("Z", a["X"]), theta, mask, c)
        case "5":
            return algorithms.MHAttention(a["X"], a.get("Z", a["X"]), theta, mask, c)
        case "6":
            return algorithms.layer_norm(a["e"], theta.gamma, theta.beta, c)
        case "6r":
            return algorithms.RMSnorm(a["e"], theta.gamma, theta.beta, c)
        case "7":
            return algorithms.unembedding(a["e"], theta.W_u)
        case "8" | "8a" | "9" | "10":
            ids = (tuple(a[name].tolist()) if name in a else () for name in "xzs")
            return Model(c, theta).run(algorithms, Read(*ids))  # type: ignore[arg-type]
        case "9c":
            return algorithms.classification(a["X"], theta.W_pool, theta.b_pool, theta.W_c, theta.b_c)
        case "15":
            how = {name: case.config.get(name) for name in DRAWING}
            return algorithms.EDInference(a["z"].tolist(), theta, c, **how, rng=_Given(case.uniform))
    u = case.uniform
    return algorithms.DInference(a["x"].tolist(), theta, c, ell_gen=len(u), tau=tau, rng=_Given(u))


Change = Callable[[Any], Any]
#: Of Algorithms 8, 8a and 9, and where scores are computed one by one.
LEFT_OUT = re.compile(rf"{WITHIN.pattern}|:(sqrt|(MH)?Attention|layer_norm|RMSnorm)$|/5\.1$|\.[12]\d:(softmax|W_u)$")


def _record(
    case: Case, inputs: Mapping[str, Array], theta: Theta, change: Change = lambda value: value
) -> dict[str, Array]:
    """{path: array} of every value of a run, each passing through `change`.

    Of Algorithms 14 and 15 only their own lines: those of the model are in its cases.  Of `few` values no step within
    one token's column, as in the cases of Algorithms 1, 2 and 6, no root, and nothing twice.  What is no number, as
    line 2 of Algorithm 15, is left out.
    """
    values: dict[str, Array] = {}

    def hook(path: str, value: Any) -> Any:
        value = value if value is None else change(value)
        own, few = (
            len(parse(path).steps) == 1,
            case.number in ("8", "8a", "9") or case.config.get("positions") == "bucketed",
        )
        if value is not None and (own if case.uniform else not (few and LEFT_OUT.search(path))):
            array = numbers(value)
            values[path] = array.astype(np.int64 if array.dtype.kind == "i" else np.float64)
        return value

    _call(watched(hook), case, inputs, theta)
    return values


# how far rounding can carry

STEP = 2.0**-26  # of the changes: far above the rounding of float64, small enough that effects are linear
RUNS = 8
LEAST = 16  # unit roundoffs: the functions of a mathematical library may be off by a few


def _roundoffs(case: Case, inputs: Mapping[str, Array], theta: Theta) -> dict[str, int]:
    """path -> the error allowed there, in unit roundoffs; 0 for whole numbers.

    Every number that enters a line (an input, a parameter, a value of an earlier line) is changed by a relative
    step of random sign, in 8 runs; the largest effect on a value, in steps, is what one rounding of every number
    can do.  A sum of n products has n roundings, of random sign too: hence sqrt(n), n the longest sum.
    """
    exact = _record(case, inputs, theta)
    effect = dict.fromkeys(exact, 0.0)
    for k in range(RUNS):
        change = partial(_changed, np.random.PCG64(k))
        moved = {name: change(array) for name, array in inputs.items()}
        for path, value in _record(case, moved, theta.map(change), change).items():
            effect[path] = max(effect[path], error(exact[path], value) / STEP)
    longest = max(n for array in (*inputs.values(), *theta.leaves()) for n in array.shape)
    return {
        path: 0 if exact[path].dtype == np.int64 else 2 ** ceil(log2(max(LEAST, sqrt(longest) * steps)))
        for path, steps in effect.items()
    }


def _changed(bits: np.random.PCG64, value: Any) -> Any:
    """Every real number of a value, a relative step up or down; whole numbers as they are."""
    if isinstance(value, list):
        return [_changed(bits, member) for member in value]
    if np.asarray(value).dtype.kind != "f":
        return value
    signs = np.asarray(bits.random_raw(int(np.size(value))), np.uint64).reshape(np.shape(value)) & np.uint64(1)
    return value * (1 + STEP * (2.0 * signs - 1))


def error(ours: Array, theirs: Array) -> float:
    """The largest difference, relative to the largest finite number of ours; infinite where only one is finite."""
    finite = np.isfinite(ours)
    same = np.where(finite, np.isfinite(theirs), ours == theirs)
    if not same.all():
        return float("inf")
    largest = float(np.abs(ours[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(theirs[finite] - ours[finite]).max(initial=0.0)) / largest

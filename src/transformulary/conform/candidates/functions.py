"""A Python file of functions as a candidate: each is called with the oracle's own values at its line.

So no checkpoint is needed, and every function is judged alone.  The file says in one line how it holds its
tokens, `TOKENS = "rows"` or "columns", and, if its functions want other arrays than NumPy's, what makes them:
`ARRAY = torch.from_numpy`.  Matrices are (out, in) as in the paper and in `nn.Linear`; embeddings have a row per
token where tokens are rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from transformulary.conform.candidates.attending import ATTENDING, ask_alone, output_of
from transformulary.conform.candidates.candidate import Array, Candidate, array, most
from transformulary.conform.candidates.pytorch import check_signature, failing
from transformulary.conform.candidates.returned import logits, unsteady
from transformulary.conform.dumps import precision_of
from transformulary.conform.notes import Note
from transformulary.errors import CandidateError
from transformulary.oracle import Theta, softmax, watched
from transformulary.oracle.path import parse
from transformulary.oracle.theta import Zero
from transformulary.paper import Config, DTransformerConfig

#: The functions that a file may have, and what each is called with.
SIGNATURES = {
    "embedding": "embedding(tokens, weights)",
    "layer_norm": "layer_norm(X, gamma, beta)",
    "rms_norm": "rms_norm(X, gamma)",
    "attention": "attention(X, Z, weights, mask)",
    "mha": "mha(X, Z, weights, mask)",
    "mlp": "mlp(X, weights)",
    "rotate": "rotate(X)",
    "unembedding": "unembedding(X, weights)",
    "model": "model(tokens, weights)",
}
Function = Callable[..., Any]


@dataclass(frozen=True)
class Functions:
    """Functions by the names of `SIGNATURES`.

    tokens  "rows" or "columns": how they hold tokens
    make    NumPy float64 -> the arrays that they want
    output  what `model` and `unembedding` return: "logits" or "probabilities"
    """

    functions: Mapping[str, Function]
    tokens: str = "rows"
    make: Callable[[Array], Any] = np.asarray
    output: str = ""

    def __post_init__(self) -> None:
        if unknown := set(self.functions) - set(SIGNATURES):
            raise CandidateError(f"{', '.join(sorted(unknown))}: a candidate has {', '.join(SIGNATURES.values())}.")
        if not self.functions:
            raise CandidateError(f"there is no function to compare; one or more of {', '.join(SIGNATURES.values())}.")
        if self.tokens not in ("rows", "columns"):
            raise CandidateError(f"TOKENS = {self.tokens!r}; it is 'rows' or 'columns'.")
        if self.output not in ("", "logits", "probabilities"):
            raise CandidateError(f"OUTPUT = {self.output!r}; it is 'logits' or 'probabilities'.")
        for name, function in self.functions.items():
            check_signature(function, SIGNATURES[name])

    def call(self, name: str, *args: Any) -> Any:
        """The raw result of one function, for arguments in the oracle's orientation."""
        with failing(f"{SIGNATURES[name]}"):
            result = self.functions[name](*map(self.given, args))
        if result is None:
            raise CandidateError(f"{SIGNATURES[name]} returned nothing; it must return an array of numbers.")
        return result

    def given(self, value: Any) -> Any:
        """An argument as they want it, in memory of its own: a function may work in place."""
        if isinstance(value, SimpleNamespace):
            return SimpleNamespace(**{name: self.given(member) for name, member in vars(value).items()})
        if isinstance(value, list):
            return [self.given(member) for member in value]
        return self.make(np.array(value, order="C")) if isinstance(value, np.ndarray) else value

    def turned(self, X: Array) -> Array:
        """Tokens as they hold them; the same turns it back."""
        return X.T if self.tokens == "rows" and X.ndim == 2 else X


def run_functions(functions: Functions, config: Config, x: Sequence[int], theta: Theta, name: str) -> list[Candidate]:
    """Call every function wherever the oracle has its line; candidates: the functions one by one, and `model`.

    Raises CandidateError for a config that is none of a decoder.
    """
    if not isinstance(config, DTransformerConfig):
        says = "against an encoder or encoder-decoder, a candidate is a PyTorch model or dumps"
        raise CandidateError(f"{name}: functions are called with what a decoder has at their lines; {says}.")
    calls = _Calls(functions, config, x, theta)
    watched(calls.hook).DTransformer(list(x), theta, config)
    found = (
        [Candidate(name, calls.seen, most(calls.kinds.values()), calls.kinds, own=True, notes=tuple(calls.notes))]
        if calls.seen
        else []
    )
    if "model" in functions.functions:
        found.append(_whole(functions, config, x, theta, name))
    if not found:
        raise CandidateError(f"{name}: this model has no line that {', '.join(functions.functions)} computes.")
    return found


def _whole(f: Functions, config: DTransformerConfig, x: Sequence[int], theta: Theta, name: str) -> Candidate:
    def run() -> tuple[Array, str]:
        result = logits(f.call("model", list(x), all_weights(theta, config, f)))
        return _probabilities(f, _one(array(result, SIGNATURES["model"]))), precision_of(result)

    P, precision = run()
    return Candidate(name, {"10.11": P}, precision, notes=unsteady("model", P, run()[0], precision))


class _Calls:
    """The run of the oracle in which the functions are called, each with what its line has there."""

    def __init__(self, f: Functions, c: DTransformerConfig, x: Sequence[int], theta: Theta) -> None:
        self.f, self.c, self.x, self.theta = f, c, list(x), theta
        self.seen: dict[str, Array] = {}
        self.kinds: dict[str, str] = {}  # path -> the precision of its value
        self.asked: set[str] = (
            set()
        )  # functions that were called twice, and those of attention asked about an empty row
        self.notes: list[Note] = []
        self.latest: dict[str, Array] = {}  # value of the oracle by line: "10.5", "10.6/5.2/4.1"
        self.X: Array = np.zeros(0)  # the residual stream

    def hook(self, path: str, value: Any) -> Any:
        step = parse(path)
        at = {name: number - 1 for s in step.steps for name, number in s.indices}
        line = "/".join(f"{s.number}.{s.label}" for s in step.steps)
        if step.name or "t" in at:
            return value
        kind = self.c.norm if line in NORMS else KINDS.get(line, "")
        if kind in self.f.functions:
            self._call(kind, path, line, at)
        self.latest[line] = value
        if line in ("10.3", "10.3a", "10.6", "10.8", "10.10"):
            self.X = value
        return value

    def _call(self, kind: str, path: str, line: str, at: Mapping[str, int]) -> None:
        args = getattr(self, f"_{kind}")(line, at)
        value, self.kinds[path] = self._value(kind, args)
        if kind not in self.asked:
            self.asked.add(kind)
            self.notes += unsteady(kind, value, self._value(kind, args)[0], self.kinds[path])
            if kind in ATTENDING and value.shape[1:] == (len(self.x),) > (1,):
                self.notes.append(self._ask_alone(kind, *args))
        self.seen[path] = self.X + value if kind in ("mha", "mlp") and value.shape == self.X.shape else value

    def _value(self, kind: str, args: list[Any]) -> tuple[Array, str]:
        """The result of a function, tokens as columns, and its precision; what is to be said of it becomes a note."""
        result, note = self.f.call(kind, *args), None
        if kind in ATTENDING:
            result, note = output_of(kind, result, len(self.x))
        if note and note not in self.notes:
            self.notes.append(note)
        numbers = _one(array(result, SIGNATURES[kind]))
        value = _probabilities(self.f, numbers) if kind == "unembedding" else self.f.turned(numbers)
        return value, precision_of(result)

    def _ask_alone(self, kind: str, X: Array, _: Array, weights: SimpleNamespace, __: Array) -> Note:
        def call(X: Array, weights: SimpleNamespace, mask: Array) -> Array:
            return self._value(kind, [self.f.turned(X), self.f.turned(X), weights, self.f.turned(mask)])[0]

        return ask_alone(kind, call, self.f.turned(X), weights)

    def _embedding(self, line: str, at: Mapping[str, int]) -> list[Any]:
        return [self.x, all_weights(self.theta, self.c, self.f)]

    def _layer_norm(self, line: str, at: Mapping[str, int]) -> list[Any]:
        gamma, beta = (_at(getattr(self.theta, f"{name}{NORMS[line]}"), at) for name in ("gamma", "beta"))
        return [self.f.turned(self.X), gamma, _full(beta, self.c.d_e)]

    def _rms_norm(self, line: str, at: Mapping[str, int]) -> list[Any]:
        return self._layer_norm(line, at)[:2]

    def _mha(self, line: str, at: Mapping[str, int]) -> list[Any]:
        X = self.f.turned(self.latest["10.5"])
        return [X, X, attention_weights(self.theta.W[at["l"]], self.c), self._mask(at["l"])]

    def _attention(self, line: str, at: Mapping[str, int]) -> list[Any]:
        X, W, h = self.f.turned(self.latest["10.5"]), self.theta.W[at["l"]], at["h"]
        return [X, X, one_head(W, h, h // (self.c.H // self.c.H_kv)), self._mask(at["l"])]

    def _rotate(self, line: str, at: Mapping[str, int]) -> list[Any]:
        return [self.f.turned(self.latest[line.replace("3a", "1").replace("3b", "2")])]

    def _mlp(self, line: str, at: Mapping[str, int]) -> list[Any]:
        return [self.f.turned(self.latest["10.7"]), mlp_weights(self.theta, self.c, at["l"])]

    def _unembedding(self, line: str, at: Mapping[str, int]) -> list[Any]:
        return [self.f.turned(self.X), all_weights(self.theta, self.c, self.f)]

    def _mask(self, l: int) -> Array:
        """True where a token may attend: a row per query where tokens are rows, a column where they are columns."""
        t_z, t_x = np.indices((len(self.x), len(self.x)))
        return self.f.turned(np.asarray(self.c.mask[l % len(self.c.mask)](t_z, t_x)))


NORMS = {"10.5": "_1", "10.7": "_2", "10.10": ""}
KINDS = {
    "10.3": "embedding",
    "10.6": "mha",
    "10.6/5.2": "attention",
    "10.6/5.2/4.3a": "rotate",
    "10.6/5.2/4.3b": "rotate",
    "10.8": "mlp",
    "10.11": "unembedding",
}


def one_head(W: Theta, h: int, g: int) -> SimpleNamespace:
    """W_q, W_k (d_attn, d_e), W_v (d_mid, d_e) and b_q, b_k, b_v of one head; biases that the model lacks are 0."""
    matrices = {f"W_{q}": getattr(W, f"W_{q}")[n] for q, n in (("q", h), ("k", g), ("v", g))}
    biases = {f"b_{q}": _full(_at_index(getattr(W, f"b_{q}"), n), len(matrices[f"W_{q}"]))
              for q, n in (("q", h), ("k", g), ("v", g))}  # fmt: skip
    return SimpleNamespace(**matrices, **biases)


def attention_weights(W: Theta, c: DTransformerConfig) -> SimpleNamespace:
    """W_q (H d_attn, d_e), W_k, W_v: the heads one below the other; W_o (d_e, H d_mid); b_q, b_k, b_v, b_o; H, H_kv."""
    matrices = {name: np.concatenate(getattr(W, name)) for name in ("W_q", "W_k", "W_v")}
    biases = {}
    for q in "qkv":
        b = getattr(W, f"b_{q}")
        biases[f"b_{q}"] = np.zeros(len(matrices[f"W_{q}"])) if isinstance(b, Zero) else np.concatenate(b)
    return SimpleNamespace(**matrices, W_o=W.W_o, **biases, b_o=_full(W.b_o, c.d_e), H=c.H, H_kv=c.H_kv)


def mlp_weights(theta: Theta, c: DTransformerConfig, l: int) -> SimpleNamespace:
    """W_mlp1, W_mlp2 and their biases; of a gated MLP W_mlp3 and b_mlp3 as well."""
    names = ("1", "2", "3") if c.mlp == "gated" else ("1", "2")
    matrices = {f"W_mlp{k}": getattr(theta, f"W_mlp{k}")[l] for k in names}
    biases = {f"b_mlp{k}": _full(_at_index(getattr(theta, f"b_mlp{k}"), l), len(matrices[f"W_mlp{k}"])) for k in names}
    return SimpleNamespace(**matrices, **biases)


def all_weights(theta: Theta, c: DTransformerConfig, f: Functions) -> SimpleNamespace:
    """W_e, W_p, W_u, b_u, gamma, beta, and `layers`: gamma_1, beta_1, gamma_2, beta_2, attention's, the MLP's."""
    layers = []
    for l in range(c.L):
        norms = {n: _full(_at_index(getattr(theta, n), l), c.d_e) for n in ("gamma_1", "beta_1", "gamma_2", "beta_2")}
        layers.append(
            SimpleNamespace(**norms, **vars(attention_weights(theta.W[l], c)), **vars(mlp_weights(theta, c, l)))
        )
    W_p = theta.W_p if c.positions == "learned" else None
    return SimpleNamespace(
        W_e=f.turned(theta.W_e), W_p=None if W_p is None else f.turned(W_p), layers=layers,
        gamma=_full(theta.gamma, c.d_e), beta=_full(theta.beta, c.d_e),
        W_u=theta.W_e.T if c.tied else theta.W_u, b_u=_full(theta.b_u, c.N_V),
    )  # fmt: skip


def _probabilities(f: Functions, numbers: Array) -> Array:
    P = f.turned(numbers)
    if f.output == "probabilities":
        return P
    with np.errstate(invalid="ignore"):
        return np.asarray(softmax(P))


def _at(value: Any, at: Mapping[str, int]) -> Any:
    return _at_index(value, at.get("l", 0))


def _at_index(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) else value


def _full(b: Any, n: int) -> Array:
    """A vector; zeros for one that the model lacks."""
    return np.zeros(n) if isinstance(b, Zero) else np.asarray(b)


def _one(numbers: Array) -> Array:
    """Without a batch of one."""
    return numbers[0] if numbers.ndim == 3 and len(numbers) == 1 else numbers

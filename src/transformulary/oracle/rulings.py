"""The domain of every algorithm: what the paper leaves undefined is an error here, with the numbers.

The errata E1-E24 are ruled on in docs/errata.md; this file holds those rulings that refuse an input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from transformulary.errors import AlgorithmError
from transformulary.oracle.theta import Theta, Zero
from transformulary.paper.config import (
    Config,
    DTransformerConfig,
    EDTransformerConfig,
    ETransformerConfig,
    PreEDTransformerConfig,
)
from transformulary.paper.masks import MASKS, no_mask
from transformulary.paper.parameters import Shapes, parameters, size, split
from transformulary.paper.practice import Inference, Training

__all__ = ["DOMAINS"]

Domain = Callable[..., None]
PAPER, AS_PRINTED = Training(), Inference()


def _index(value: Any, size: int, what: str, table: str) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) < size:
        raise AlgorithmError(
            f"{what} {value!r} is outside {table}: ids and positions are whole numbers, 0 to {size - 1}."
        )


def _length(x: Any, name: str, what: str = "a sequence of token ids") -> int:
    """How long a list, tuple or array is; anything else is no sequence."""
    if not isinstance(x, Sequence | np.ndarray) or (isinstance(x, np.ndarray) and not x.ndim):
        raise AlgorithmError(f"{name} is {what}, a list say, and {_kind(x)} was given.")
    return len(x)


def _kind(value: Any) -> str:
    return "nothing (None)" if value is None else f"a value of type {type(value).__name__}"


def _model(theta: Any, c: Any, architecture: type[Config]) -> None:
    """The config is one of this architecture, and theta has the parameters of its table: names, numbers, shapes."""
    if not isinstance(c, architecture):
        raise AlgorithmError(f"c must be a {architecture.__name__}, and {_kind(c)} was given.")
    if not isinstance(theta, Theta):
        raise AlgorithmError(f"theta must be a Theta, and {_kind(theta)} was given.")
    _parameters(theta, parameters(c), c, "")


def _parameters(theta: Theta, table: Shapes, c: Config, prefix: str) -> None:
    """A parameter that is simply missing is not found here: the line that needs it says so."""
    held = vars(theta)
    known = {split(entry)[0] for entry in table}
    if extra := [name for name, value in held.items() if name not in known and not isinstance(value, Zero)]:
        raise AlgorithmError(
            f"theta has {prefix}{extra[0]}, and a model with this config has no such parameter: "
            f"these parameters belong to another config."
        )
    for entry, shape in table.items():
        name, count = split(entry)
        if name not in held:
            continue
        value = held[name]
        if isinstance(value, Zero):
            raise AlgorithmError(f"theta declares {prefix}{name} absent, and the config does not.")
        members = value if count and isinstance(value, list | tuple) else [value]
        if count and len(members) != size(count, c):
            raise AlgorithmError(
                f"theta has {len(members)} {prefix}{name}, and the config {count} = {size(count, c)}: "
                f"these parameters belong to another config."
            )
        for k, member in enumerate(members, 1):
            at = f"{prefix}{name}[{k}]" if count else prefix + name
            if not isinstance(shape, str):
                _parameters(member, shape, c, at + ".")
            else:
                _shape(member, tuple(size(s, c) for s in shape.split()), at)


def _shape(array: Any, expected: tuple[int, ...], at: str) -> None:
    found = getattr(array, "shape", expected)
    if found != expected:
        raise AlgorithmError(
            f"theta's {at} has shape {found}, and the config calls for {expected}: "
            f"these parameters belong to another config."
        )
    if isinstance(array, np.ndarray) and not np.isfinite(array).all():
        raise damaged(at)


def damaged(at: str) -> AlgorithmError:
    """What is said of a parameter that has NaN or an infinity in it."""
    return AlgorithmError(f"theta's {at} has a number that is not finite: the parameters are damaged.")


def _sequence(x: Sequence[int], theta: Any, c: Any, name: str) -> None:
    if _length(x, name) == 0:
        raise AlgorithmError(f"the sequence {name} is empty: a length is at least 1. Begin it with bos.")
    if c.positions == "learned" and len(x) > theta.W_p.shape[1]:
        raise AlgorithmError(
            f"length({name}) = {len(x)} is more than ell_max = {theta.W_p.shape[1]}: "
            f"W_p has no vector for the positions after that. Cut the sequence into chunks."
        )
    for t, v in enumerate(x, 1):
        _index(v, theta.W_e.shape[1], f"{name}[{t}] =", f"the vocabulary of N_V = {theta.W_e.shape[1]} tokens")


def _token(v: Any, W_e: Any) -> None:
    _index(v, W_e.shape[1], "token", f"the vocabulary of N_V = {W_e.shape[1]} tokens")


def _position(ell: Any, W_p: Any) -> None:
    _index(ell, W_p.shape[1], "position", f"the table of ell_max = {W_p.shape[1]} positions")


def _context(e: Any, e_: Sequence[Any], W_qkv: Any) -> None:
    if _length(e_, "e_", "the context, a sequence of vectors") == 0:
        raise AlgorithmError("the context is empty, T = 0: attention to nothing is 0/0.")


def _attention(X: Any, Z: Any, W: Any, Mask: Any, c: Any = None) -> None:
    for name, A in (("X", X), ("Z", Z)):
        if np.ndim(A) != 2:
            raise AlgorithmError(f"{name} has shape {np.shape(A)}: it is a matrix with one column per token.")
    if not callable(Mask):
        raise AlgorithmError(
            f"Mask is {_kind(Mask)}, and must be a rule (t_z, t_x) -> may token t_x attend to token t_z: "
            f"{', '.join(kind.__name__ for kind in MASKS.values())} of transformulary.paper, or a function."
        )
    allowed = np.asarray(Mask(*np.indices((Z.shape[1], X.shape[1]), sparse=True)))
    if allowed.dtype != bool and not (allowed.dtype.kind in "iu" and np.isin(allowed, (0, 1)).all()):
        raise no_mask(allowed.dtype)


def _vector(e: Any) -> None:
    if not isinstance(e, np.ndarray) or e.ndim != 1 or not e.size:
        given = f"an array of shape {e.shape}" if isinstance(e, np.ndarray) else _kind(e)
        raise AlgorithmError(f"e must be an array of d_e numbers, one token's vector, and {given} was given.")


def _layer_norm(e: Any, gamma: Any, beta: Any, c: Any = None) -> None:
    _vector(e)
    if (c is None or c.eps == 0) and np.all(e.real == e.real[0]):
        raise AlgorithmError(
            f"all {len(e)} numbers of e are equal, so the variance is 0 and the norm 0/0: "
            f"Algorithm 6 has no eps (E7). Published models set one, 1e-5 say."
        )


def _rms_norm(e: Any, gamma: Any, beta: Any, c: Any = None) -> None:
    _vector(e)
    if (c is None or c.eps == 0) and not np.any(e.real):
        raise AlgorithmError(f"all {len(e)} numbers of e are 0, so the norm is 0/0: set eps, 1e-5 say.")


def _encoder_decoder(z: Sequence[int], x: Sequence[int], theta: Any, c: Any) -> None:
    _model(theta, c, EDTransformerConfig)
    _sequence(z, theta, c, "z")
    _sequence(x, theta, c, "x")


def _pre_encoder_decoder(z: Sequence[int], x: Sequence[int], theta: Any, c: Any) -> None:
    _model(theta, c, PreEDTransformerConfig)
    _sequence(z, theta, c, "z")
    _sequence(x, theta, c, "x")


def _encoder(x: Sequence[int], theta: Any, c: Any, s: Sequence[int] = ()) -> None:
    _model(theta, c, ETransformerConfig)
    _sequence(x, theta, c, "x")
    if not c.segments:
        if _length(s, "s"):
            raise AlgorithmError(f"{len(s)} segments were given to a model that has none (c.segments = 0).")
        return
    if _length(s, "s") != len(x):
        raise AlgorithmError(f"{len(x)} tokens need {len(x)} segments s, and {len(s)} were given.")
    for t, segment in enumerate(s, 1):
        _index(segment, c.segments, f"s[{t}] =", f"the {c.segments} segments")


def _classes(X: Any, theta: Any) -> None:
    if np.ndim(X) != 2 or not X.shape[1]:
        raise AlgorithmError(f"X has shape {np.shape(X)}: it is a matrix with one column per token, at least one.")


def _decoder(x: Sequence[int], theta: Any, c: Any) -> None:
    _model(theta, c, DTransformerConfig)
    _sequence(x, theta, c, "x")


def _training(eta: float, N_epochs: int, *data: Sequence[Sequence[int]]) -> None:
    if not 0 < eta < math.inf:
        raise AlgorithmError(f"the learning rate eta = {eta} must be a positive number.")
    if N_epochs < 0:
        raise AlgorithmError(f"N_epochs = {N_epochs} must not be negative.")
    for sequences in data:
        for n in range(_length(sequences, "the data", "a list of sequences")):
            _length(sequences[n], f"x[{n + 1}]")
    if len({len(sequences) for sequences in data}) > 1:
        raise AlgorithmError(f"z and x must be pairs, and there are {' and '.join(str(len(d)) for d in data)} of them.")


def _practice(how: Any, rng: Any, *may: str) -> None:
    """A practice is one, of what this algorithm `may`, and has the chance that it needs."""
    if not isinstance(how, Training):
        raise AlgorithmError(f"how must be a Training, and {_kind(how)} was given.")
    if wrong := [name for name in ("chunks", "alpha", "p_drop") if getattr(how, name) and name not in may]:
        raise AlgorithmError(f"{wrong[0]} = {getattr(how, wrong[0])} is no practice of this algorithm.")
    if (how.shuffle or how.p_drop) and rng is None:
        raise AlgorithmError("shuffling and dropout need rng, a source of random numbers.")


def _ed_training(
    z: Any,
    x: Any,
    theta: Any,
    c: Any,
    how: Any = PAPER,
    *,
    N_epochs: int = 1,
    eta: float,
    rng: Any = None,
    clock: Any = (),
) -> None:
    _training(eta, N_epochs, z, x)
    _practice(how, rng, "alpha")


def _e_training(
    x: Any,
    theta: Any,
    c: Any,
    how: Any = PAPER,
    *,
    N_epochs: int = 1,
    eta: float,
    p_mask: float,
    mask_token: int,
    rng: Any,
    clock: Any = (),
) -> None:
    _model(theta, c, ETransformerConfig)
    _training(eta, N_epochs, x)
    _practice(how, rng, "chunks")
    _index(mask_token, c.N_V, "mask_token =", f"the vocabulary of N_V = {c.N_V} tokens")
    if not 0 <= p_mask <= 1:
        raise AlgorithmError(f"p_mask = {p_mask} must be a probability, 0 to 1.")


def _d_training(
    x: Any,
    theta: Any,
    c: Any,
    how: Any = PAPER,
    *,
    N_epochs: int = 1,
    eta: float,
    rng: Any = None,
    clock: Any = (),
) -> None:
    _training(eta, N_epochs, x)
    _practice(how, rng, "chunks", "alpha", "p_drop")


def _temperature(tau: float) -> None:
    if math.isnan(tau) or tau < 0:
        raise AlgorithmError(f"the temperature tau = {tau} must not be negative: 0 is greedy, infinity uniform.")


def _d_inference(
    x: Any, theta: Any, c: Any, how: Any = AS_PRINTED, *, ell_gen: int, tau: float = 1.0, rng: Any
) -> None:
    _model(theta, c, DTransformerConfig)
    _temperature(tau)
    if _length(x, "the prompt x") == 0:
        raise AlgorithmError("the prompt is empty, and P[:, 0] is no column (E11). Begin it with bos.")
    _sequence(x, theta, c, "x")
    if ell_gen < 0:
        raise AlgorithmError(f"ell_gen = {ell_gen} must not be negative.")
    if c.positions == "learned" and not how.limit and len(x) + ell_gen > c.ell_max + 1:
        raise AlgorithmError(
            f"a prompt of {len(x)} tokens and ell_gen = {ell_gen} more exceed ell_max = {c.ell_max} (E10): "
            f"at most ell_max + 1 - {len(x)} = {max(c.ell_max + 1 - len(x), 0)} can be generated."
        )


def _ed_inference(
    z: Any,
    theta: Any,
    c: Any,
    how: Any = AS_PRINTED,
    *,
    bos_token: int,
    eos_token: int,
    tau: float = 1.0,
    ell_gen: int | None = None,
    rng: Any,
) -> None:
    _model(theta, c, EDTransformerConfig)
    _sequence(z, theta, c, "z")
    _temperature(tau)
    if ell_gen is not None and ell_gen < 1:
        raise AlgorithmError(f"ell_gen = {ell_gen} must be at least 1: line 6 draws one before line 7a counts.")
    for name, v in (("bos_token", bos_token), ("eos_token", eos_token)):
        _index(v, c.N_V, f"{name} =", f"the vocabulary of N_V = {c.N_V} tokens")


#: Algorithm -> what refuses an argument outside its domain.
DOMAINS: dict[str, Domain] = {
    "1": _token,
    "2": _position,
    "3": _context,
    "4": _attention,
    "5": _attention,
    "6": _layer_norm,
    "6r": _rms_norm,
    "8": _encoder_decoder,
    "8a": _pre_encoder_decoder,
    "9": _encoder,
    "9c": _classes,
    "10": _decoder,
    "11": _ed_training,
    "12": _e_training,
    "13": _d_training,
    "14": _d_inference,
    "15": _ed_inference,
}

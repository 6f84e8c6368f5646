"""A PyTorch model against itself: with its cache, in a batch, padded on the left and on the right.

None of these may change a logit of a real token by more than rounding.  What a model offers is found out from its
`forward`; what it does not offer is not seen.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from transformulary.conform.candidates.pytorch import failing, ids, logits
from transformulary.conform.notes import AGREES, DIFFERS, UNSEEN, Note
from transformulary.nn import DTransformer, evaluating

Decode = Callable[[nn.Module, list[Tensor]], Any]


def check_decoding(
    model: nn.Module, x: Sequence[int], allowed: float, decode: Decode | None = None
) -> Iterator[Note]:
    """Notes of every way to run a model that must give what one plain run gives.

    Args:
        allowed: the relative difference of logits that rounding alone may make (`logits_allowance`).
        decode: decode(model, pieces) -> logits of all tokens, the pieces one after the other with the model's own
            cache; None: the cache of `transformers` or of ours.
    """
    with evaluating(model), torch.no_grad(), failing(type(model).__name__):
        alone = logits(model(ids(model, [x])))[0]
        decode = decode or _decoder(model)
        yield _cached(model, x, alone, decode, allowed)
        yield _judge("in a batch", _in_batch(model, x), alone, allowed)
        for side in ("right", "left"):
            yield _beside_padding(model, x, side, alone, allowed)


def _beside_padding(model: nn.Module, x: Sequence[int], side: str, alone: Tensor, allowed: float) -> Note:
    where, padded = f"padded on the {side}", _padded(model, x, side)
    if padded is None:
        return Note("decoding", UNSEEN, f"{where}: forward has no attention_mask")
    if padded.dtype == torch.float64 and not padded.isfinite().all():
        # Code that computes its scores in float32 has -inf for the lowest float64: a row of padding, which may attend
        # nothing, is 0/0, and one layer later all rows are.  In float32 the lowest number stays a number.
        where += " in float32 (in float64 not a number)"
        padded = _padded(copy.deepcopy(model).float(), x, side)
        assert padded is not None
    return _judge(where, padded, alone[: len(padded)], allowed)


def _judge(what: str, theirs: Tensor, alone: Tensor, allowed: float, why: str = "") -> Note:
    error = difference(theirs, alone)
    if error <= allowed:
        return Note("decoding", AGREES, f"{what}: the same logits, to {error:.0e} (allowed {allowed:.0e})")
    says = f"{what}, logits differ by {error:.1e} (allowed {allowed:.0e}) from those of the sequence alone{why}"
    return Note("decoding", DIFFERS, says)


def difference(theirs: Tensor, ours: Tensor) -> float:
    """The largest difference relative to the largest logit; infinite where something is no number."""
    error = float((theirs - ours).abs().max() / ours.abs().max())
    return error if error == error else float("inf")


# the cache


def _cached(model: nn.Module, x: Sequence[int], alone: Tensor, decode: Decode | None, allowed: float) -> Note:
    if decode is None:
        return Note("decoding", UNSEEN, "with a cache: no cache is known; a function decode(model, pieces) says how")
    if len(x) < 4:
        return Note("decoding", UNSEEN, "with a cache: it takes 4 tokens to tell")
    half = len(x) // 2
    pieces = [ids(model, [x[:half]]), *(ids(model, [[v]]) for v in x[half:])]
    theirs = logits(decode(model, pieces))
    theirs = theirs[0] if theirs.ndim == 3 else theirs
    if theirs.shape != alone.shape:
        shapes = f"{tuple(theirs.shape)}, and {tuple(alone.shape)} is right"
        return Note("decoding", DIFFERS, f"with a cache, logits have the shape {shapes}")
    first, rest = difference(theirs[:half], alone[:half]), difference(theirs[half:], alone[half:])
    why = _why(model, x, theirs, half, allowed) if first <= allowed < rest else ""
    return _judge("with a cache", theirs, alone, allowed, why)


def _why(model: nn.Module, x: Sequence[int], theirs: Tensor, half: int, allowed: float) -> str:
    """What explains the first token after the cache: that the past is lost, or cut."""
    for start in range(1, half + 1):
        cut = logits(model(ids(model, [x[start : half + 1]])))[0, -1]
        if difference(theirs[half], cut) <= allowed:
            lost = f"the first {start} tokens" if start < half else "the past"
            return f": the first token after the cache is what it would be without {lost}"
    usual = "positions not advanced, or a mask aligned to the first query, are usual"
    return f": the first piece is right, the first token after it is not ({usual})"


def _decoder(model: nn.Module) -> Decode | None:
    if isinstance(model, DTransformer):
        return _ours
    return _transformers if _cache_name(model) else None


def _cache_name(model: nn.Module) -> str:
    """What `transformers` calls the cache that `forward` takes, in this version; "" if it takes none."""
    named = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache") if name in named), "")


def _ours(model: Any, pieces: list[Tensor]) -> Tensor:
    past = model.new_cache()
    return torch.cat([model(piece, past) for piece in pieces], 1)


def _transformers(model: nn.Module, pieces: list[Tensor]) -> Tensor:
    name, past, found = _cache_name(model), None, []
    for piece in pieces:
        output = model(piece, use_cache=True, **{name: past})
        past = getattr(output, name)
        found.append(output.logits)
    return torch.cat(found, 1)


# batches and padding


def _in_batch(model: nn.Module, x: Sequence[int]) -> Tensor:
    """The logits of x beside two other sequences of its length."""
    return logits(model(ids(model, [list(reversed(x)), x, [x[0]] * len(x)])))[1]


def _padded(model: nn.Module, x: Sequence[int], side: str) -> Tensor | None:
    """The logits of x, padded by three tokens, beside a longer sequence; None without attention_mask."""
    named = inspect.signature(model.forward).parameters
    if "attention_mask" not in named:
        return None
    short, pad = list(x[:-3] if len(x) > 3 else x), [x[0]] * 3
    rows = [short + pad, [*short, *x[-3:]]] if side == "right" else [pad + short, [*x[-3:], *short]]
    mask = torch.ones(2, len(rows[0]), dtype=torch.long)
    mask[0, slice(len(short), None) if side == "right" else slice(0, 3)] = 0
    more = {}
    if "position_ids" in named:
        more["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    found = logits(model(ids(model, rows), attention_mask=mask.to(ids(model, rows).device), **more))[0]
    return found[: len(short)] if side == "right" else found[3:]

"""A PyTorch encoder or encoder-decoder against itself: in a batch, beside padding, and decoding with a cache.

None of these may change what it gives by more than rounding.  Padding that is seen, or counted, is named if the oracle,
reading it likewise, gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from transformulary.conform.allowance import EXACT, LogitsAllowance
from transformulary.conform.candidates.caches import PADS
from transformulary.conform.candidates.calling import call, ids, parameters
from transformulary.conform.candidates.decoding import cache_name, difference, judged, tried_way
from transformulary.conform.candidates.pytorch import failing
from transformulary.conform.candidates.returned import logits
from transformulary.conform.mistakes.parts import POS
from transformulary.conform.notes import UNSEEN, Note
from transformulary.conform.reference import Reference
from transformulary.errors import AlgorithmError, CandidateError
from transformulary.nn import EDTransformer, evaluating
from transformulary.oracle.watch import Variant, Watch, nothing
from transformulary.paper import Read, TwoStacks

Ids = tuple[int, ...]
#: Positions that are added to an embedding, so that padding before a token moves it.
COUNTED = ("learned", "sinusoid", "sinusoid_vaswani", "sinusoid_halves", "sinusoid_t2t")
#: What the masks of real tokens are called: in `transformers` for the first of two sequences too, and in ours.
MASKS = ("attention_mask", "real", "real_z")


def check_batches(model: nn.Module, ref: Reference, x: Read, precision: str) -> Iterator[Note]:
    """Notes of every way to run a model that must give what one plain run gives; arguments as for `check_decoding`."""
    with evaluating(model), torch.no_grad():
        try:
            alone = _values(lambda: call(model, [x]), 1)[0]
        except CandidateError as error:
            yield Note("decoding", UNSEEN, str(error))
            return
        if not alone.isfinite().all():
            says = "what the model gives for the sequence alone is not finite, and nothing can equal it"
            yield Note("decoding", UNSEEN, says)
            return
        known = Alone(ref, x, alone, LogitsAllowance(ref.config, x, ref.theta, precision))
        if isinstance(ref.config, TwoStacks):
            yield tried_way("with a cache", partial(_cached, model, known))
        yield tried_way("in a batch", partial(_in_batch, model, known))
        for side in ("right", "left"):
            yield tried_way(f"padded on the {side}", partial(_beside_padding, model, side, known))


@dataclass(frozen=True)
class Alone:
    """What the model gave for what it read, and the difference that rounding alone may make."""

    ref: Reference
    x: Read
    values: Tensor
    allowed: LogitsAllowance

    @property
    def padded(self) -> str:
        """The sequence beside which there is padding."""
        return "z" if self.x.z else "x"


def _values(run: Callable[[], Any], rows: int) -> Tensor:
    """What a run of their code on so many rows returns.  Raises CandidateError where it fails, or returns no batch."""
    with failing("the model"):
        found = torch.as_tensor(logits(run()))
    if found.ndim not in (2, 3) or len(found) != rows:
        raise CandidateError(f"{rows} sequence{'s' * (rows > 1)} gave values of the shape {tuple(found.shape)}")
    return found


def _in_batch(model: nn.Module, known: Alone, where: str) -> Note:
    def moved(x: Read, to: Callable[[Ids], Ids]) -> Read:
        return Read(*map(to, (x.x, x.z, x.s)))

    x = known.x
    rows = [moved(x, lambda i: i[::-1]), x, moved(x, lambda i: i[:1] * len(i)), moved(x, lambda i: i[1:] + i[:1])]
    return judged(where, _values(lambda: call(model, rows), len(rows))[1], known)


def _cached(model: nn.Module, known: Alone, where: str) -> Note:
    x = known.x
    half = len(x.x) // 2
    pieces = torch.split(ids(model, [x.x]), [half, *[1] * (len(x.x) - half)], 1)
    name = cache_name(model)
    if isinstance(model, EDTransformer):
        source, past = model.read(ids(model, [x.z])), model.new_cache()
        found = [model.decode(piece, source, past) for piece in pieces if piece.shape[1]]
    elif not name:
        return Note("decoding", UNSEEN, f"{where}: forward takes no cache")
    else:
        found = list(_pieces(model, name, ids(model, [x.z]), [piece for piece in pieces if piece.shape[1]]))
    return judged(where, torch.cat(found, 1)[0], known)


def _pieces(model: nn.Module, name: str, z: Tensor, pieces: Sequence[Tensor]) -> Iterator[Tensor]:
    past = None
    for piece in pieces:
        with failing("the model"):
            output = model(input_ids=z, decoder_input_ids=piece, use_cache=True, **{name: past})
        past = getattr(output, "past_key_values", getattr(output, name, None))
        if past is None:
            raise CandidateError(f"forward takes {name} and returns none")
        yield output.logits


def _beside_padding(model: nn.Module, side: str, known: Alone, where: str) -> Note:
    named, c, of = parameters(model), known.ref.config, known.padded
    mask = next((name for name in MASKS if name in named), "")
    counted = side == "left" and c.positions in COUNTED
    ours = mask.startswith("real")
    if not mask:
        return Note("decoding", UNSEEN, f"{where}: forward has no attention_mask")
    if c.positions == "learned" and known.x.length(of) + PADS > c.ell_max:
        says = f"with {PADS} tokens of padding there would be {known.x.length(of) + PADS}, and ell_max = {c.ell_max}"
        return Note("decoding", UNSEEN, f"{where}: {says}")
    if counted and not ours and ("position_ids" not in named or of == "z"):
        return Note("decoding", UNSEEN, f"{where}: positions count the padding, since forward has no position_ids")
    rows, real = padded(known.x, side, of)
    there = torch.tensor(real)
    given: dict[str, Tensor] = {mask: there.bool() if ours else there}
    if counted and not ours:
        given["position_ids"] = (there.cumsum(1) - 1).clamp(min=0)
    device = ids(model, [known.x.x]).device
    found = _values(lambda: call(model, rows, **{name: value.to(device) for name, value in given.items()}), 2)[0]
    if of == "x" and found.ndim == 2 and len(found) == len(rows[0].x):
        found = found[there[0].bool()]
    return judged(where, found, known, partial(_why, known, rows[0], real[0], found))


def padded(x: Read, side: str, of: str) -> tuple[list[Read], list[list[int]]]:
    """x with some tokens of padding beside a longer one, and which of their tokens are real."""
    plain, n = getattr(x, of), x.length(of)
    pad, more = plain[:1] * PADS, (plain * PADS)[-PADS:]

    def joined(more: Ids, own: Ids) -> Ids:
        return (*own, *more) if side == "right" else (*more, *own)

    s = joined((0,) * PADS, x.s) if x.s else ()
    rows = [replace(x, **{of: joined(ids, plain), "s": s}) for ids in (pad, more)]
    ones, zeros = [1] * n, [0] * PADS
    return rows, [[*ones, *zeros] if side == "right" else [*zeros, *ones], [1] * (n + PADS)]


Changes = Mapping[str, tuple[str, str]]
REAL = ("Full()", "real")


def _two(encoder: str, cross: str) -> tuple[tuple[str, Changes], ...]:
    """Of an encoder-decoder; its lines that look at z."""
    return (
        ("padding is seen", {}),
        ("padding is seen by cross-attention", {encoder: REAL}),
        ("padding is seen by the encoder", {cross: REAL}),
    )


#: How padding is read wrongly, and what the oracle computes otherwise to do so; by algorithm.
SEEN: Mapping[str, tuple[tuple[str, Changes], ...]] = {
    "8": _two("8.5", "8.16"),
    "8a": _two("8a.6", "8a.18"),
    "9": (
        ("padding is seen", {}),
        ("padding is seen", {"9.2": (POS, POS.replace("t,", "counted(t),"))}),
        ("positions count the padding", {"9.5": REAL}),
    ),
}


def _why(known: Alone, x: Read, real: Sequence[int], theirs: Tensor) -> str:
    """Why a sequence beside padding is wrong, tried on the oracle."""
    whole = known.ref.whole
    form, error = _form(known)
    if form is None:
        return ": why cannot be said before the model itself agrees"
    seen = np.array(real, bool)
    names = {"real": lambda t_z, t_x: seen[t_z], "counted": lambda t: max(int(seen[: t + 1].sum()) - 1, 0)}
    fits = []
    for says, changes in SEEN[whole.lines[0].number]:
        watch = Watch(lambda _, value: value, names, nothing)
        watch.on = {Variant(says, changes): 0} if changes else {}
        try:
            ours = _rows(whole.logits(x, watch))
        except AlgorithmError:  # positions that there are not
            continue
        if known.padded == "x" and ours.ndim == 2:
            ours = ours[torch.from_numpy(seen)]
        if difference(theirs, form(ours)) <= max(8 * error, EXACT):
            fits.append(says)
    return f": {', or '.join(dict.fromkeys(fits))}" if fits else ": no known mistake of masks explains it"


def _rows(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values.T, np.float64))


def _form(known: Alone) -> tuple[Callable[[Tensor], Tensor] | None, float]:
    """What the model's output is of the oracle's logits, and how exactly; None where it agrees with neither."""
    ours, theirs = _rows(known.ref.whole.logits(known.x)), known.values.double().cpu()
    forms: tuple[Callable[[Tensor], Tensor], ...] = (Tensor.contiguous, lambda logits: logits.softmax(-1))
    errors = ((form, difference(theirs, form(ours))) for form in forms if ours.shape == theirs.shape)
    return next(((form, error) for form, error in errors if error <= known.allowed(error)), (None, 0.0))

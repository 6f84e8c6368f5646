"""A PyTorch model against itself: with its cache, in a batch, padded on the left and on the right.

None of these may change a logit of a real token by more than rounding.  What a model offers is found out from its
`forward`; what it does not offer is not seen.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from transformulary.conform.allowance import EXACT, LogitsAllowance
from transformulary.conform.candidates.caches import PADDED, PADS, RIGHT, WAYS, Memory, Way, dropped
from transformulary.conform.candidates.calling import ids
from transformulary.conform.candidates.pytorch import failing
from transformulary.conform.candidates.returned import logits
from transformulary.conform.compared import at_most, error_of
from transformulary.conform.notes import AGREES, DIFFERS, UNSEEN, Note
from transformulary.conform.reference import Reference
from transformulary.errors import AlgorithmError, CandidateError
from transformulary.nn import DTransformer, evaluating
from transformulary.paper import DTransformerConfig

Decode = Callable[[nn.Module, list[Tensor]], Any]


def check_decoding(
    model: nn.Module, ref: Reference, x: Sequence[int], precision: str, decode: Decode | None = None
) -> Iterator[Note]:
    """Notes of every way to run a model that must give what one plain run gives.

    Args:
        ref: what the model should compute: on it known mistakes are tried, and named if they explain a difference.
        precision: the lowest in which its code computes a line.
        decode: decode(model, pieces) -> logits of all tokens, the pieces one after the other with the model's own
            cache; None: the cache of `transformers` or of ours.
    """
    with evaluating(model), torch.no_grad():
        try:
            alone = _logits(lambda: model(ids(model, [x])), 1)[0]
        except CandidateError as error:
            yield Note("decoding", UNSEEN, str(error))
            return
        if alone.isnan().any() or not alone.isfinite().any(-1).all():
            yield Note(
                "decoding", UNSEEN, "the logits of the sequence alone are not finite, and nothing can equal them"
            )
            return
        known = Known(ref, x, alone, LogitsAllowance(ref.config, x, ref.theta, precision))
        decode = decode or _decoder(model)
        cached = tried_way("with a cache", partial(_cached, model, decode, known))
        yield cached
        yield tried_way("in a batch", partial(_in_batch, model, known))
        if decode and cached.status == AGREES:
            yield tried_way("with a cache in a batch", partial(_cached_in_batch, model, decode, known))
        for side in ("right", "left"):
            yield tried_way(f"padded on the {side}", partial(_beside_padding, model, side, known))


def tried_way(where: str, way: Callable[[str], Note]) -> Note:
    """What one way to run the model comes to; one that fails is not seen, and hides nothing else."""
    try:
        return way(where)
    except CandidateError as error:
        return Note("decoding", UNSEEN, f"{where}: {error}")


def _logits(run: Callable[[], Any], rows: int) -> Tensor:
    """What a run of their code on so many rows returns.  Raises CandidateError where it fails, or returns no batch."""
    with failing("the model"):
        found = torch.as_tensor(logits(run()))
    if found.ndim != 3 or len(found) != rows:
        raise CandidateError(f"{rows} sequence{'s' * (rows > 1)} gave logits of the shape {tuple(found.shape)}")
    return found


def judged(what: str, theirs: Tensor, known: Judge, why: Callable[[], str] = str) -> Note:
    """Logits of the first tokens beside those of the sequence alone."""
    error = difference(theirs, known.values[: len(theirs)])
    allowed = known.allowed(error)
    if not error <= allowed:
        says = (
            f"{what}, logits differ by {error:.1e} (allowed {at_most(allowed)}) from those of the sequence alone{why()}"
        )
        return Note("decoding", DIFFERS, says)
    if allowed >= 1:
        return Note("decoding", UNSEEN, f"{what}: rounding alone may change these logits altogether")
    return Note(
        "decoding", AGREES, f"{what}: the same logits, to {error:.0e} (allowed {at_most(allowed, agrees=True)})"
    )


def difference(theirs: Tensor, ours: Tensor) -> float:
    """`error_of` of logits."""
    return error_of(_exact(ours).numpy(), _exact(theirs).numpy())


class Judge(Protocol):
    """What a model gave for a sequence alone, and what other ways of running it may differ by."""

    @property
    def values(self) -> Tensor: ...

    @property
    def allowed(self) -> LogitsAllowance: ...


class Known:
    """What is known to go wrong, tried on the oracle: a mistake is named if with it the logits agree.

    alone    the model's logits (or probabilities) of the whole sequence: what it can be told apart from depends on them
    allowed  the relative difference of logits that rounding alone may make, for each that is seen
    """

    def __init__(self, ref: Reference, x: Sequence[int], alone: Tensor, allowed: LogitsAllowance) -> None:
        assert isinstance(ref.config, DTransformerConfig)
        self.c, self.theta, self.x, self.alone, self.allowed = ref.config, ref.theta, list(x), alone, allowed

    @property
    def values(self) -> Tensor:
        """The same as `alone`."""
        return self.alone

    @cached_property
    def form(self) -> tuple[Callable[[Tensor], Tensor], float] | None:
        """What the model's output is of the oracle's logits, and how exactly; None where it agrees with neither."""
        whole = torch.from_numpy(Memory(self.c, RIGHT).run(self.x, self.theta))
        errors = ((form, difference(_exact(self.alone), form(whole))) for form in (Tensor.contiguous, _probabilities))
        return next(((form, error) for form, error in errors if error <= self.allowed(error)), None)

    def cached(self, theirs: Tensor, half: int) -> str:
        """Why the tokens after the first piece are wrong."""
        ways = [*WAYS, *map(dropped, range(1, half))]
        return self._named(ways, self._first(self.x[:half]).turn_to, [[v] for v in self.x[half:]], theirs[half:])

    def of_rows(self, rows: Sequence[Sequence[int]], own: int, theirs: Tensor, half: int) -> str:
        """Why the first token after the first piece of a batch is wrong: the cache is that of another row."""
        others = {k: self._first(rows[k][:half]) for k in range(len(rows)) if k != own}
        ways = [Way(f"it reads the cache of row {k + 1} of the batch") for k in others]
        start = dict(zip(ways, others.values(), strict=True))
        return self._named(ways, lambda way: start[way].turn_to(RIGHT), [[self.x[half]]], theirs[half : half + 1])

    def padded(self, theirs: Tensor) -> str:
        """Why a sequence padded on the left is wrong."""
        pieces = [[self.x[0]] * PADS + self.x[: len(theirs)]]
        return self._named(PADDED, lambda way: Memory(self.c, way), pieces, theirs)

    def _first(self, piece: Sequence[int]) -> Memory:
        memory = Memory(self.c, RIGHT)
        if self.form:
            memory.run(piece, self.theta)
        return memory

    def _named(
        self, ways: Iterable[Way], start: Callable[[Way], Memory], pieces: Sequence[Sequence[int]], theirs: Tensor
    ) -> str:
        if not all(mask.causal for mask in self.c.mask):
            return ": a later token changes the keys of earlier ones here, so that no cache can be right"
        if self.form is None:
            return ": why cannot be said before the model itself agrees"
        form, error = self.form
        fits = {
            way.says: self._remaining(start(way), pieces, _exact(theirs), form, max(8 * error, EXACT)) for way in ways
        }
        fits = {says: error for says, error in fits.items() if error < float("inf")}
        if not fits:
            return ": no known mistake of caches and masks explains it"
        return f": {', or '.join(fits)}; with this one change they agree to {max(fits.values()):.0e}"

    def _remaining(
        self,
        memory: Memory,
        pieces: Sequence[Sequence[int]],
        theirs: Tensor,
        form: Callable[[Tensor], Tensor],
        allowed: float,
    ) -> float:
        """The largest difference that this way leaves; infinite if it is more than allowed."""
        largest, begin = 0.0, 0
        for piece in pieces:
            try:
                ours = form(torch.from_numpy(memory.run(piece, self.theta)))[-len(theirs) :]
            except (AlgorithmError, IndexError):  # tokens that attend to nothing, positions that there are not
                return float("inf")
            error = difference(theirs[begin : begin + len(ours)], ours)
            if not error <= allowed:
                return float("inf")
            largest, begin = max(largest, error), begin + len(ours)
        return largest


def _exact(theirs: Tensor) -> Tensor:
    return theirs.double().cpu()


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(-1)


# the cache


def _cached(model: nn.Module, decode: Decode | None, known: Known, where: str) -> Note:
    x, alone = known.x, known.alone
    if decode is None:
        return Note("decoding", UNSEEN, f"{where}: no cache is known; a function decode(model, pieces) says how")
    if len(x) < 4:
        return Note("decoding", UNSEEN, f"{where}: it takes 4 tokens to tell")
    if known.c.positions == "rotary" and known.c.frequencies == "dynamic" and len(x) > known.c.ell_train:
        says = f"frequencies depend on the length beyond ell_train = {known.c.ell_train}, so no piece equals the whole"
        return Note("decoding", UNSEEN, f"{where}: {says}")
    half = len(x) // 2
    theirs = _logits(lambda: _batched(logits(decode(model, _pieces(model, [x])))), 1)[0]
    if theirs.shape != alone.shape:
        shapes = f"{tuple(theirs.shape)}, and {tuple(alone.shape)} is right"
        return Note("decoding", DIFFERS, f"{where}, logits have the shape {shapes}")
    first = difference(theirs[:half], alone[:half])
    why = (
        partial(str, ": already in the first piece")
        if first > known.allowed(first)
        else partial(known.cached, theirs, half)
    )
    return judged(where, theirs, known, why)


def _batched(theirs: Any) -> Any:
    """Logits of one sequence, which a function of the user's may return without a batch, as a batch of one."""
    return theirs[None] if theirs.ndim == 2 else theirs


def _cached_in_batch(model: nn.Module, decode: Decode, known: Known, where: str) -> Note:
    rows, own = _batch(known.x)
    theirs = _logits(lambda: decode(model, _pieces(model, rows)), len(rows))[own]
    return judged(where, theirs, known, partial(known.of_rows, rows, own, theirs, len(known.x) // 2))


def _pieces(model: nn.Module, rows: Sequence[Sequence[int]]) -> list[Tensor]:
    """The first half of all rows, then token by token."""
    half, whole = len(rows[0]) // 2, ids(model, rows)
    return [whole[:, :half], *torch.split(whole[:, half:], 1, 1)]


def _decoder(model: nn.Module) -> Decode | None:
    if isinstance(model, DTransformer):
        return _ours
    return _transformers if cache_name(model) else None


def cache_name(model: nn.Module) -> str:
    """What `transformers` calls the cache that `forward` takes, in this version; "" if it takes none."""
    named = inspect.signature(model.forward).parameters
    return next((name for name in ("past_key_values", "cache") if name in named), "")


def _ours(model: Any, pieces: list[Tensor]) -> Tensor:
    past = model.new_cache()
    return torch.cat([model(piece, past) for piece in pieces], 1)


def _transformers(model: nn.Module, pieces: list[Tensor]) -> Tensor:
    name, past, found = cache_name(model), None, []
    for piece in pieces:
        output = model(piece, use_cache=True, **{name: past})
        past = getattr(output, name, None)
        if past is None:
            raise CandidateError(f"forward takes {name} and returns none")
        found.append(output.logits)
    return torch.cat(found, 1)


# batches and padding


def _batch(x: Sequence[int]) -> tuple[list[list[int]], int]:
    """x among other sequences of its length, neither first nor in the middle, and which row it is, from 0."""
    return [list(reversed(x)), list(x), [x[0]] * len(x), [*x[1:], x[0]]], 1


def _in_batch(model: nn.Module, known: Known, where: str) -> Note:
    rows, own = _batch(known.x)
    return judged(where, _logits(lambda: model(ids(model, rows)), len(rows))[own], known)


def _beside_padding(model: nn.Module, side: str, known: Known, where: str) -> Note:
    named = inspect.signature(model.forward).parameters
    short = known.x[:-PADS] or known.x
    if "attention_mask" not in named:
        return Note("decoding", UNSEEN, f"{where}: forward has no attention_mask")
    if known.c.positions == "learned" and len(short) + PADS > known.c.ell_max:
        says = f"with {PADS} tokens of padding there would be {len(short) + PADS}, and ell_max = {known.c.ell_max}"
        return Note("decoding", UNSEEN, f"{where}: {says}")
    padded = _padded(model, short, side, "position_ids" in named)
    if padded.dtype == torch.float64 and padded.isnan().any():
        # Code that computes its scores in float32 has -inf for the lowest float64: a row of padding, which may attend
        # nothing, is 0/0, and one layer later all rows are.  In float32 the lowest number stays a number.
        where += " in float32 (in float64 not a number)"
        padded = _padded(copy.deepcopy(model).float(), short, side, "position_ids" in named)
    return judged(where, padded, known, partial(known.padded, padded) if side == "left" else str)


def _padded(model: nn.Module, x: Sequence[int], side: str, counted: bool) -> Tensor:
    """The logits of x, padded by some tokens, beside a longer sequence; `counted`: forward asks for positions."""
    pad, more = [x[0]] * PADS, (list(x) * PADS)[-PADS:]
    rows = [[*x, *pad], [*x, *more]] if side == "right" else [[*pad, *x], [*more, *x]]
    mask = torch.ones(2, len(rows[0]), dtype=torch.long)
    mask[0, slice(len(x), None) if side == "right" else slice(0, PADS)] = 0
    given = {"attention_mask": mask}
    if counted:
        given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    there = ids(model, rows)
    found = _logits(lambda: model(there, **{name: value.to(there.device) for name, value in given.items()}), 2)[0]
    return found[: len(x)] if side == "right" else found[PADS:]

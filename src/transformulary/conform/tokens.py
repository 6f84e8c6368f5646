"""Token ids first: the cheapest explanation of all differences is that two programs read different tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Any

from transformulary.conform.reference import Reference
from transformulary.errors import TokenError
from transformulary.paper import Read, TwoStacks
from transformulary.tokens import Given, Reader

#: How many tokens are compared, and of a context, where nobody says which; no other size of the tiny models is equal.
ELL, ELL_Z = 11, 8


def traced(index: Mapping[str, Any]) -> Given:
    """What a folder that `trace` wrote was computed on, as its index says; nothing of another folder."""
    return Given(tokens=index.get("tokens"), context_tokens=index.get("context"), segments=index.get("segments"))


def what_is_read(ref: Reference, given: Given) -> Read:
    """What to compare on: what is given, or a few ids, of a decoder after its start token.  Raises TokenError."""
    c, two = ref.config, isinstance(ref.config, TwoStacks)
    for one, other in (("tokens", "text"), ("context_tokens", "context")):
        if getattr(given, one) is not None and getattr(given, other) is not None:
            raise TokenError(f"{one} and {other} were both given, and both say what is read: leave one out.")
    tokens, context, segments = (_whole(given, name) for name in ("tokens", "context_tokens", "segments"))
    given = replace(given, bos=False, tokens=tokens, context_tokens=context, segments=segments)
    if given.tokens is None and given.text is None:
        x = usual(c.N_V, min(ELL, c.ell_max), 3)
        first = [ref.start] if two and ref.start is not None else []
        x = [*first, *x][: len(x)]
        if given.segments is None and getattr(c, "segments", 0) > 1:
            given = replace(given, segments=[2 * t // len(x) for t in range(len(x))])
        given = replace(given, tokens=x)
    if two and given.context_tokens is None and given.context is None:
        given = replace(given, context_tokens=usual(c.N_V, min(ELL_Z, c.ell_max), 5))
    read = Reader(c, ref.tokenizer, ref.start, ref.name).read(given)
    for ids in (read.x, read.z) if two else (read.x,):
        if strange := [v for v in ids if not 0 <= v < c.N_V]:
            raise TokenError(f"id {strange[0]} is no token of {ref.name}: ids go from 0 to N_V - 1 = {c.N_V - 1}.")
        if not ids or (len(ids) > c.ell_max and c.positions == "learned"):
            raise TokenError(f"{len(ids)} tokens cannot be compared: {ref.name} reads 1 to ell_max = {c.ell_max}.")
    if strange := [v for v in read.s if not 0 <= v < getattr(c, "segments", 0)]:
        raise TokenError(
            f"{strange[0]} is no segment of {ref.name}: they go from 0 to {getattr(c, 'segments', 0) - 1}."
        )
    return read


def usual(N_V: int, ell: int, b: int) -> list[int]:
    """Ids that differ."""
    return [(7 * t * t + b * t + 1) % N_V for t in range(ell)]


def _whole(given: Given, name: str) -> list[int] | None:
    ids = getattr(given, name)
    try:
        return None if ids is None else [index(v) for v in ids]
    except TypeError:
        raise TokenError(f"{name} = {ids!r:.60} must be ids from 0, whole numbers such as [1, 2, 3].") from None


def compare_ids(theirs: Sequence[int], ours: Sequence[int], tokenizer: Any = None, text: str = "") -> str:
    """What is wrong with their ids, in one sentence; "" if nothing is.

    Args:
        tokenizer: the reference's; with it and the text more can be explained.
    """
    theirs, ours = list(theirs), list(ours)
    if theirs == ours:
        return ""
    for says, other in _explanations(ours, tokenizer, text):
        if theirs == other:
            return says
    if shift := _shift(theirs, ours):
        way = "high" if shift > 0 else "low"
        return f"every id is {abs(shift)} too {way}: another vocabulary, or special tokens put first"
    return _first_difference(theirs, ours, tokenizer)


def _explanations(ours: list[int], tokenizer: Any, text: str) -> Iterator[tuple[str, list[int]]]:
    """(sentence, the ids that it would give)."""
    specials = {
        "bos_token": getattr(tokenizer, "bos_token", None), "eos_token": getattr(tokenizer, "eos_token", None),
    }  # fmt: skip
    for name, v in specials.items():
        if v is None:
            continue
        if ours[:1] == [v]:
            yield f"{name} ({v}) is missing at the beginning", ours[1:]
        if ours[-1:] == [v]:
            yield f"{name} ({v}) is missing at the end", ours[:-1]
        twice = ours[:1] == [v]
        yield (
            f"{name} ({v}) stands {'twice' if twice else 'first'}, and this model wants {'one' if twice else 'none'}",
            [v, *ours],
        )
        yield f"{name} ({v}) is appended, and this model's input ends without it", [*ours, v]
    if tokenizer is None or not text:
        return
    for says, changed in (
        ("a space is put before the text", " " + text),
        ("the text lost its leading space", text.removeprefix(" ")),
        ("white space at the ends of the text is lost", text.strip()),
        ("a newline is appended to the text", text + "\n"),
        ("the text was made lower case", text.lower()),
    ):
        if changed != text:
            yield says, list(tokenizer.encode(changed))


def _shift(theirs: list[int], ours: list[int]) -> int:
    """The one number that was added to every id; 0 if there is none."""
    if len(theirs) != len(ours) or len(ours) < 2:
        return 0
    shifts = {a - b for a, b in zip(theirs, ours, strict=True)}
    return shifts.pop() if len(shifts) == 1 else 0


def _first_difference(theirs: list[int], ours: list[int], tokenizer: Any) -> str:
    both = min(len(theirs), len(ours))
    k = next((k for k in range(both) if theirs[k] != ours[k]), both)
    there = f"{theirs[k]}" if k < len(theirs) else "nothing"
    here = f"{ours[k]}" if k < len(ours) else "nothing"
    if tokenizer is not None and (strange := [v for v in theirs if not 0 <= v < tokenizer.N_V]):
        return f"id {strange[0]} is not in the vocabulary of N_V = {tokenizer.N_V}: another vocabulary"
    pieces = f" ({tokenizer.decode(ours[k : k + 1])!r})" if tokenizer is not None and k < len(ours) else ""
    first = f"token {k + 1}: {there}, and {here}{pieces} is right"
    return f"{len(theirs)} ids, and {len(ours)} are right; the first difference is {first}"

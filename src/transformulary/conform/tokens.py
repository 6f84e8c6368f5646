"""Token ids first: the cheapest explanation of all differences is that two programs read different tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


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

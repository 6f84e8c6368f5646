"""What is found beside the lines: of the tokens, the weights, what functions return, empty rows, the decoding."""

from __future__ import annotations

from dataclasses import dataclass

AGREES, DIFFERS, UNSEEN, NOTE = "agrees", "differs", "not seen", "note"


@dataclass(frozen=True)
class Note:
    """One finding; a "note" is neither right nor wrong by itself.

    kind: "tokens", "values", "weights", "places", "output", "results", "masks", "rounding" or "decoding"
    """

    kind: str
    status: str
    says: str

"""What is found beside the lines: of the tokens, the weights, the decoding."""

from __future__ import annotations

from dataclasses import dataclass

AGREES, DIFFERS, UNSEEN, NOTE = "agrees", "differs", "not seen", "note"


@dataclass(frozen=True)
class Note:
    """One finding: kind is "tokens", "weights" or "decoding"; a "note" is neither right nor wrong by itself."""

    kind: str
    status: str
    says: str

"""What stands on top of an encoder's layers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Top:
    """What a model gives; of decoders and encoder-decoders always tokens.

    gives  "tokens", and of an encoder (lines 10-12 of Algorithm 9) instead also "classes" (Algorithm 9c) or "vectors"
           (what line 9 leaves)
    N_C    the number of classes, of a model that gives those
    """

    gives: str = "tokens"
    N_C: int = 0


#: Most models' top.
GIVES_TOKENS = Top()

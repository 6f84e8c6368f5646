"""The known mistakes: by line of the paper, each a small replacement of one statement.

A mistake is a `Variant` of the oracle with a sentence: what an implementation does, and what it should do.
To add one, add a row: the line, its name, the sentence, and which part of the line's expression (as
`ast.unparse` spells it) becomes what.  A second line of the same mistake is a further pair of entries.
"""

from __future__ import annotations

from dataclasses import dataclass

from transformulary.conform.mistakes import decoder, encoder
from transformulary.conform.mistakes import encoder_decoder as two
from transformulary.conform.mistakes.mistake import NAMES, Mistake, acts_at, is_whole

__all__ = ["BY_KEY", "KEPT", "KNOWN", "MISTAKES", "NAMES", "ORDER", "Known", "Mistake", "acts_at", "is_whole"]


#: The lines whose values a run keeps for mistakes that need them later.
KEPT = two.KEPT | decoder.KEPT


@dataclass(frozen=True)
class Known:
    """The known mistakes of one algorithm, in the order of its lines.

    mistakes  each made wherever it can be
    alone     the same made in one line only: code may have a norm, say, of its own in each
    order     other orders of the lines
    """

    mistakes: tuple[Mistake, ...]
    alone: tuple[Mistake, ...]
    order: tuple[Mistake, ...]


#: Algorithm -> its known mistakes.
KNOWN = {
    "8": Known(two.MISTAKES_8, two.ALONE_8, two.ORDER_8),
    "8a": Known(two.MISTAKES_8A, two.ALONE_8A, two.ORDER_8A),
    "9": Known(encoder.MISTAKES, encoder.ALONE, encoder.ORDER),
    "10": Known(decoder.MISTAKES, decoder.NORMS, decoder.ORDER),
}
#: Those of decoders.
MISTAKES, ORDER = KNOWN["10"].mistakes, KNOWN["10"].order
#: Name -> a mistake of that name; several algorithms may have it.
BY_KEY = {m.key: m for known in KNOWN.values() for m in (*known.mistakes, *known.order)}

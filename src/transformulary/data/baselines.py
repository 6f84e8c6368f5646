"""What guessing costs: held-out loss of models that hardly look at the text before."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise


def baselines(training: Iterable[Sequence[Hashable]], held_out: Iterable[Sequence[Hashable]]) -> dict[str, float]:
    """Nats per symbol of the held-out sequences under three models of the training sequences.

    A symbol is a character of a text, or a token id.

    uniform  every symbol of the training part is as likely as any other
    unigram  each by its frequency
    bigram   each by its frequency after the symbol before it

    One symbol more than was seen stands for all others, and counts are smoothed so that nothing has
    probability 0: by one for the unigram; the bigram is mixed with the unigram as if that had been seen
    once per distinct successor (Witten-Bell).  A sequence's first symbol is a unigram's.
    """
    training, held_out = list(training), list(held_out)
    ones = Counter(c for text in training for c in text)
    pairs = Counter(pair for text in training for pair in pairwise(text))
    after: Counter[Hashable] = Counter()
    kinds: Counter[Hashable] = Counter()
    for (first, _), n in pairs.items():
        after[first] += n
        kinds[first] += 1
    total, size = ones.total(), len(ones) + 1

    def unigram(c: Hashable) -> float:
        return (ones[c] + 1) / (total + size)

    def bigram(before: Hashable, c: Hashable) -> float:
        return (pairs[before, c] + kinds[before] * unigram(c)) / (after[before] + kinds[before])

    n = sum(map(len, held_out))
    if not n:
        return {}
    seen = Counter(c for text in held_out for c in text)
    then = Counter(pair for text in held_out for pair in pairwise(text))
    one = -sum(k * math.log(unigram(c)) for c, k in seen.items())
    two = -sum(math.log(unigram(text[0])) for text in held_out if text)
    two -= sum(k * math.log(bigram(b, c) if after[b] else unigram(c)) for (b, c), k in then.items())
    return {"uniform": math.log(size), "unigram": one / n, "bigram": two / n}

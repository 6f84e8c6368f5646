"""Random texts of Unicode, and what small vocabularies are learned from."""

import random
import unicodedata

LEARNED = [
    "My grandma makes the best apple pie. It's 1234567 times better, isn't it?",
    "Größe, Übermut und Café: naïve façade, año, coração.",
    "東京は日本の首都です。大きさ。 Ὀδυσσεύς, Москва, שלום, नमस्ते 😀👩‍🔬",
    "The quick brown fox jumps over the lazy dog, again and again, while nobody looks.",
]
USUAL = [*"aàbctheTHE's'll 0123456789.,;!?-_()\n\r\t\u00a0\u2028  大首都Ὀ", "e\u0301", "ﬁ", "①", "\u200d", "\u2581"]


def unicode_texts(n, seed=0):
    """Texts of letters, digits, signs, white space and any assigned characters; and what stands in `LEARNED`."""
    draw = random.Random(seed)
    assigned = [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    yield from ("", " ", "  ", "\n", "a", " a ", *LEARNED)
    for _ in range(n):
        characters = draw.choices(USUAL, k=draw.randrange(30)) + draw.choices(assigned, k=draw.randrange(12))
        draw.shuffle(characters)
        yield draw.choice(["", draw.choice(LEARNED)]) + "".join(characters)

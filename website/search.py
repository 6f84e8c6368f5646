"""The index of the search: one entry for each part of a page, found by words in the browser, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from unicodedata import normalize

#: Address -> what people call it who do not speak as the paper does: it is found by these words before all others.
KNOWN = {
    "algorithms/1.html": "embedding lookup wte",
    "algorithms/2.html": "absolute position embedding wpe",
    "algorithms/2v.html": "sinusoidal positional encoding",
    "algorithms/4.html": "self-attention cross-attention SDPA scaled dot-product QKV causal mask KV",
    "algorithms/4d.html": "Transformer-XL relative positions",
    "algorithms/4r.html": "RoPE rotary position embedding YaRN NTK",
    "algorithms/5.html": "multi-head MHA GQA grouped-query MQA multi-query attention",
    "algorithms/6.html": "LayerNorm pre-norm post-norm normalisation normalization",
    "algorithms/6r.html": "RMSNorm RMS",
    "algorithms/7.html": "lm_head logits",
    "algorithms/8.html": "seq2seq T5 BART encoder-decoder",
    "algorithms/9.html": "BERT encoder-only",
    "algorithms/10.html": "GPT LLM decoder-only FFN MLP SwiGLU GLU gated feed-forward",
    "algorithms/11.html": "seq2seq training teacher forcing translation",
    "algorithms/12.html": "MLM masked language modelling modeling",
    "algorithms/13.html": "pretraining pre-training cross-entropy loss causal language modelling modeling",
    "algorithms/13b.html": "minibatch mini-batch batch epoch shuffling",
    "algorithms/13c.html": "chunking packing context windows",
    "algorithms/13d.html": "AdamW Adam optimiser optimizer",
    "algorithms/13e.html": "LR scheduler warmup warm-up cosine decay",
    "algorithms/13m.html": "SGD Nesterov optimiser optimizer",
    "algorithms/13u.html": "AdamW gradient clipping weight decay optimiser optimizer",
    "algorithms/14.html": "sampling generate generation decoding temperature top-k top-p nucleus greedy",
    "algorithms/15.html": "translate translation decoding",
}
#: Whose text is of no use to a search.
SKIPPED = {"table.numbers", "a.place", "style"}
#: Elements by class that are words of their own.
APART = {"number", "words", "shape"}
#: Whose end is no end of a word.
INSIDE = {"code", "span", "a", "b", "i", "em", "strong", "math", "mi", "mo", "mn", "sub", "sup", "wbr", "mrow", "msub"}


@dataclass
class Entry:
    """A part of a page: its anchor, its heading, its text."""

    anchor: str
    heading: str
    words: list[str] = field(default_factory=list)


class _Parts(HTMLParser):
    """Cuts a body where an <h2> or <h3> has an id, and where an element says its title."""

    def __init__(self) -> None:
        super().__init__()
        self.entries, self.skipping, self.heading = [Entry("", "")], "", False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if f"{tag}.{given.get('class')}" in SKIPPED or tag in SKIPPED:
            self.skipping = tag
        begins = tag in ("h2", "h3") and "id" in given
        if begins or "data-title" in given:
            self.entries.append(Entry(given.get("id") or "", given.get("data-title") or ""))
            self.heading = begins
        if tag not in INSIDE or given.get("class") in APART:
            self.entries[-1].words.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag == self.skipping:
            self.skipping = ""
        if tag in ("h2", "h3"):
            self.heading = False
        if tag not in INSIDE:
            self.entries[-1].words.append(" ")

    def handle_data(self, data: str) -> None:
        if self.heading:
            self.entries[-1].heading += data
        if not self.skipping:
            self.entries[-1].words.append(data)


def entries(address: str, title: str, body: str) -> Iterator[list[str]]:
    """[address, title of the page, heading, text, what it is known as] of every part of a page that says something."""
    parser = _Parts()
    parser.feed(body)
    for entry in parser.entries:
        plain = normalize("NFKC", "".join(entry.words))  # mathematical letters are searched as ordinary ones
        if text := " ".join(plain.split()):
            place = address.lstrip("/") + (f"#{entry.anchor}" if entry.anchor else "")
            yield [place, title, entry.heading, text, KNOWN.get(place, "").lower()]


def script(found: list[list[str]]) -> str:
    """A file that hands the index to the page; a script, since a page opened from a folder may read nothing else."""
    return f"searchIndex({json.dumps(found, ensure_ascii=False, separators=(',', ':'))});\n"

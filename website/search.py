"""The index of the search: one entry for each part of a page, found by words in the browser, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from unicodedata import normalize

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
    """[address, title of the page, heading, text] of every part of a page that says something."""
    parser = _Parts()
    parser.feed(body)
    for entry in parser.entries:
        plain = normalize("NFKC", "".join(entry.words))  # mathematical letters are searched as ordinary ones
        if text := " ".join(plain.split()):
            anchor = f"#{entry.anchor}" if entry.anchor else ""
            yield [address.lstrip("/") + anchor, title, entry.heading, text]


def script(found: list[list[str]]) -> str:
    """A file that hands the index to the page; a script, since a page opened from a folder may read nothing else."""
    return f"searchIndex({json.dumps(found, ensure_ascii=False, separators=(',', ':'))});\n"

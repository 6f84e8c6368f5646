"""A line on stderr, now and then, while something takes long and says nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

#: Seconds between lines.
SILENCE = 10.0


@contextmanager
def patience(what: str, silence: float = SILENCE) -> Iterator[None]:
    """While the block runs, every so many seconds a line says what it does, and for how long it has."""
    done, began = Event(), monotonic()

    def say() -> None:
        while not done.wait(silence):
            print(f"{what} ({monotonic() - began:.0f} s)", file=sys.stderr, flush=True)

    Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        done.set()

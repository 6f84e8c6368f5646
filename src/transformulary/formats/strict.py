"""JSON that means one thing only: an object, no key twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from transformulary.errors import CheckpointError

#: Bytes of the largest file of JSON that is read; the indexes of published models have a few million.
MOST_BYTES = 2**25


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.  Raises CheckpointError: it is none, is absurdly large, or a key occurs twice."""
    with open(path, "rb", opener=_without_waiting) as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise CheckpointError(
            f"{path} has more than {MOST_BYTES // 2**20} MiB, which no such file needs: is it another?"
        )
    return parse_object(text, path)


def _without_waiting(path: str, flags: int) -> int:
    """Opens a pipe that nobody writes to like an empty file, and does not wait for ever."""
    nonblocking = getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | nonblocking)
    if nonblocking:
        os.set_blocking(descriptor, True)  # who writes now may take his time
    return descriptor


def parse_object(text: bytes, where: object) -> dict[str, Any]:
    """The JSON object of a text.  Raises CheckpointError, naming `where`: it is none, or a key occurs twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        if len(set(keys)) < len(keys):
            twice = Counter(keys).most_common(1)[0][0]
            raise CheckpointError(f"{where}: {twice} occurs twice: which of the two is meant is anyone's guess.")
        return dict(pairs)

    try:
        content = json.loads(text, object_pairs_hook=unique)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is not JSON ({error}).") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{where} is no JSON object.")
    return content

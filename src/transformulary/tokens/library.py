"""What goes wrong inside the `tokenizers` library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from transformulary.errors import TokenError


@contextmanager
def library(told: Callable[[str], TokenError]) -> Iterator[None]:
    """Every failure of the library inside the block is raised as `told` of the library's own words.

    It has no class of its own errors, and what it did not foresee (a panic) is not even an `Exception`; an interruption
    by the user is neither.
    """
    try:
        yield
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise told(str(error)) from None

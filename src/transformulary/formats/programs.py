"""What the program in a pickle would make, itself not run: so that a hostile one takes neither memory nor time."""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

#: A tensor takes forty; no file of a model has 12,500 tensors, and more would take minutes.
MOST_OPERATIONS = 500_000
#: Sizes, strides and where the numbers are: a tuple of a tensor has a dozen values.
LARGEST_TUPLE = 1000


@dataclass(frozen=True)
class Made:
    """A value that a program would make.

    weight  of how many values it is made, if it is a tuple; else 1
    value   a number or a text; of a tuple its members
    """

    weight: int = 1
    value: Any = None


MARK = Made(0)


def operations(program: bytes | BinaryIO) -> Iterator[tuple[pickletools.OpcodeInfo, Any]]:
    """(operation, argument) of a program.  Raises ValueError: it is damaged, or longer than any of a model."""
    for n, (code, argument, _) in enumerate(pickletools.genops(program)):
        if n == MOST_OPERATIONS:
            raise ValueError("a program without end")
        yield code, argument


def made(program: bytes) -> Iterator[tuple[str, Made]]:
    """(kind, value) of what a program asks for: "name", a class or function; "storage", the tuple that describes one.

    Raises ValueError or LookupError: it is damaged; or a tuple is larger than any that belongs to a tensor.  Made of a
    few that are made of a few, and so on, it is short in the file, and to hash it takes for ever.
    """
    stack: list[Made] = []
    memo: dict[Any, Made] = {}
    for code, argument in operations(program):
        if code.name in ("GLOBAL", "STACK_GLOBAL"):
            yield "name", Made(value=argument)
        if code.name == "BINPERSID":
            yield "storage", stack[-1]
        if "GET" in code.name:
            stack.append(memo[argument])
        elif "PUT" in code.name:
            memo[argument] = stack[-1]
        else:
            taken = _taken(stack, [kind.name for kind in code.stack_before])
            whole = Made(1 + sum(one.weight for one in taken), taken) if "TUPLE" in code.name else Made(value=argument)
            if whole.weight > LARGEST_TUPLE:
                raise ValueError("a tuple without end")
            stack += [MARK if kind.name == "mark" else whole for kind in code.stack_after]


def _taken(stack: list[Made], kinds: list[str]) -> list[Made]:
    """Take from the stack what an operation takes, the first first."""
    taken: list[Made] = []
    if "mark" in kinds:
        while (top := stack.pop()) is not MARK:
            taken.append(top)
        kinds = kinds[: kinds.index("mark")]
    taken += [stack.pop() for _ in kinds]
    return taken[::-1]

"""A chat template at work, in a process of its own: it is the program of whoever made the checkpoint.

Jinja's sandbox keeps it from files and objects, and the limits of the process from running for ever and from filling
the memory.  This file is run as a script (`chat.rendered`): the conversations come as JSON on standard input, and on
standard output go their texts, or what went wrong.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any

#: What a template may take: seconds of the processor, bytes of memory, and characters that it makes.
SECONDS, BYTES, CHARACTERS = 5, 2**30, 10**7


def main() -> None:
    """Answer one question of `chat.rendered`."""
    asked = json.load(sys.stdin)
    limit()
    try:
        template = sandbox().from_string(asked["template"])
        answer: Any = [text(template, messages, asked["special"]) for messages in asked["conversations"]]
    except MemoryError:
        sys.exit("no more memory")
    except Exception as error:  # whatever the program does
        answer = f"{type(error).__name__}: {error}"
    json.dump(answer, sys.stdout)


def limit() -> None:
    """No more than SECONDS and BYTES, where the system can limit a process."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def text(template: Any, messages: list[dict[str, str]], special: dict[str, str]) -> str:
    """The text that the template makes.  Raises ValueError where it is too long."""
    given = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
    made = str(template.render(**given, **special))
    if len(made) > CHARACTERS:
        raise ValueError(f"it makes {len(made):,} characters, more than {CHARACTERS:,}")
    return made


def sandbox() -> Any:
    """Where templates run, with what those of published models expect to find; they reach no file and no object."""
    from jinja2 import TemplateError
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`, which marks an answer for those who train, is what it holds."""

        tags = {"generation"}  # noqa: RUF012 - as the class above has it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def refused(message: str) -> None:
        raise TemplateError(message)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = _json
    made.globals |= {"raise_exception": refused, "strftime_now": lambda form: datetime.now().strftime(form)}
    return made


def _json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)


if __name__ == "__main__":
    main()

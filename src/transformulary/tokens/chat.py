"""Chat templates: the Jinja program of a checkpoint that makes one text of messages, run in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from transformulary.errors import TokenError, require
from transformulary.tokens.tokenizer import Tokenizer

Message = Mapping[str, str]


def chat(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    """The token ids of a conversation as the model was trained to see it, up to where its answer begins.

    Args:
        tokenizer: one with a chat template.
        messages: each a role ("system", "user", "assistant") and a content.

    Raises:
        TokenError: there is no template, it fails or refuses the messages, or a message spells a special token, by
            which its writer could forge a role.
        MissingExtra: the jinja2 package, which PyTorch brings along, is missing.
    """
    if tokenizer.chat_template is None:
        raise TokenError("this vocabulary has no chat template: its model was not trained to answer messages.")
    ids = tokenizer.encode(render(tokenizer, messages), special=True)
    harmless = [{**message, "content": "x"} for message in messages]
    wanted = tokenizer.encode(render(tokenizer, harmless), special=True)
    if [i for i in ids if i in tokenizer.control] != [i for i in wanted if i in tokenizer.control]:
        raise TokenError("a message spells a special token of the vocabulary, which could forge a role: take it out.")
    return ids


def render(tokenizer: Tokenizer, messages: Sequence[Message]) -> str:
    """The text that the template makes.  Raises as `chat` does."""
    require("jinja2", "torch", "a chat template")
    try:
        template = _sandbox().from_string(tokenizer.chat_template or "")
        given = {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": True}
        return str(template.render(**given, **tokenizer.special))
    except Exception as error:  # whatever the program does
        raise TokenError(f"the chat template cannot be used ({type(error).__name__}: {error}).") from None


def _sandbox() -> Any:
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

    sandbox = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    sandbox.filters["tojson"] = _json
    sandbox.globals |= {"raise_exception": refused, "strftime_now": lambda form: datetime.now().strftime(form)}
    return sandbox


def _json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **more: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **more)

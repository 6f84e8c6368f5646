"""Chat templates: the Jinja program of a checkpoint that makes one text of messages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence

from transformulary.errors import TokenError, require
from transformulary.tokens import template
from transformulary.tokens.tokenizer import Tokenizer

Message = Mapping[str, str]
#: Seconds of the clock after which no answer is waited for, where the system does not limit those of the processor.
PATIENCE = 60


def chat(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    """The token ids of a conversation as the model was trained to see it, up to where its answer begins.

    Args:
        tokenizer: one with a chat template.
        messages: each a role ("system", "user", "assistant") and a content.

    Raises:
        TokenError: there is no template, it fails, refuses the messages, or takes more time or memory than it may
            (`template`); or a message spells a special token, by which its writer could forge a role.
        MissingExtra: the jinja2 package, which PyTorch brings along, is missing.
    """
    if tokenizer.chat_template is None:
        raise TokenError("this vocabulary has no chat template: its model was not trained to answer messages.")
    harmless = [{**message, "content": "x"} for message in messages]
    ids, wanted = (tokenizer.encode(text, special=True) for text in rendered(tokenizer, [messages, harmless]))
    if [i for i in ids if i in tokenizer.control] != [i for i in wanted if i in tokenizer.control]:
        raise TokenError("a message spells a special token of the vocabulary, which could forge a role: take it out.")
    return ids


def rendered(tokenizer: Tokenizer, conversations: Sequence[Sequence[Message]]) -> list[str]:
    """The texts that the template makes (`template`).  Raises as `chat` does."""
    require("jinja2", "torch", "a chat template")
    asked = {
        "template": tokenizer.chat_template,
        "special": tokenizer.special,
        "conversations": [[dict(message) for message in messages] for messages in conversations],
    }
    command = [sys.executable, "-P", template.__file__]  # -P: no module is found beside the script
    try:
        done = subprocess.run(command, input=json.dumps(asked).encode(), capture_output=True, timeout=PATIENCE)
        answer: list[str] | str = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        answer = f"it takes more than {template.SECONDS} seconds, or {template.BYTES:,} bytes"
    if isinstance(answer, str):
        raise TokenError(f"the chat template cannot be used ({answer}).")
    return answer

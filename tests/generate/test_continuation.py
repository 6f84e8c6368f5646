"""Text that continues a text."""

import pytest

from generate.scripted import Script
from transformulary.errors import TokenError
from transformulary.generate import Continuation
from transformulary.tokens import Tokenizer

LETTERS = Tokenizer.train("characters", ["\n :ABCDEFGHIJKUehilorst"])
BYTES = Tokenizer.train("words", ["-"], 259)


def says(tokenizer, text, *, end=(), prompt=1):
    """A model that continues a prompt of so many tokens with a text, then with the tokens of `end`."""
    said = [*tokenizer.encode(text), *end]
    return Script([0] * (prompt - 1) + said + [0], tokenizer.N_V)


def test_pieces_are_whole_characters():
    """Byte by byte, no piece has half a character."""
    text = "ďábel 👩 ok"
    n = len(text.encode())
    continuation = Continuation(says(BYTES, text), BYTES, "", n)

    pieces = list(continuation)

    assert pieces == list(text)
    assert (continuation.finish_reason, continuation.tokens) == ("length", BYTES.encode(text))


def test_an_unfinished_character_at_the_end():
    """What is left of a character when the length is reached is U+FFFD."""
    assert list(Continuation(says(BYTES, "a👩"), BYTES, "", 3)) == ["a", "\ufffd"]


def test_end_of_sequence_is_not_in_the_text():
    """The text ends before eos, the tokens with it; the reason is 'stop'."""
    continuation = Continuation(says(LETTERS, "hello", end=[LETTERS.eos_token]), LETTERS, "", 50)

    text = "".join(continuation)

    assert (text, continuation.finish_reason) == ("hello", "stop")
    assert continuation.tokens == [*LETTERS.encode("hello"), LETTERS.eos_token]


@pytest.mark.parametrize(
    ("said", "stop", "text", "reason"),
    [
        ("ABCDEFGHIJK", ["DEFGHIJ"], "ABC", "stop"),
        ("hello\nUse this", ["\nUser:"], "hello\nUse this", "length"),
        ("hello\nUs", ["\nUser:"], "hello\nUs", "length"),
    ],
)
def test_stop_strings(said, stop, text, reason):
    """Nothing of a stop string is shown; what only began like one is."""
    continuation = Continuation(says(LETTERS, said), LETTERS, "", len(said), stop=stop)

    pieces = list(continuation)

    assert ("".join(pieces), continuation.finish_reason) == (text, reason)
    assert "" not in pieces


def test_held_text_comes_out_before_the_end_of_sequence():
    """What was held back is shown when eos shows that no stop string comes."""
    continuation = Continuation(says(LETTERS, "Us", end=[LETTERS.eos_token]), LETTERS, "", 9, stop=["User:"])

    assert ("".join(continuation), continuation.finish_reason) == ("Us", "stop")


def test_stop_strings_in_the_prompt_end_nothing():
    """Only what is generated counts, also where prompt and text together spell one."""
    continuation = Continuation(says(LETTERS, "CAB", prompt=4), LETTERS, "ABC", 3, stop=["ABC", "BC"], bos=True)

    assert "".join(continuation) == "CAB"


@pytest.mark.parametrize(
    ("prompt", "bos", "begins"), [("AB", None, True), ("AB", True, True), ("AB", False, False), ("", None, True)]
)
def test_exactly_one_bos(prompt, bos, begins):
    """A vocabulary with a token for the beginning of a text begins the prompt with it, once."""
    model = says(LETTERS, "A")

    list(Continuation(model, LETTERS, prompt, 1, bos=bos))

    assert model.calls[0] == [LETTERS.bos_token] * begins + LETTERS.encode(prompt)


def test_a_separator_begins_only_an_empty_prompt():
    """Where one token both begins and ends texts, as in GPT-2, it comes before an empty prompt only."""
    tokenizer = Tokenizer(
        Tokenizer.train("words", ["-"]).pipeline, {"bos_token": "<|eos_token|>", "eos_token": "<|eos_token|>"}
    )

    prompts = [Continuation(says(BYTES, "A"), tokenizer, prompt, 1).prompt for prompt in ("A", "")]

    assert prompts == [tokenizer.encode("A"), [tokenizer.eos_token]]


def test_an_empty_prompt_without_bos_is_an_error():
    """There is nothing to continue."""
    tokenizer = Tokenizer(Tokenizer.train("words", ["-"]).pipeline, {})

    with pytest.raises(TokenError, match="no bos_token to begin the text with, so an empty prompt"):
        Continuation(says(BYTES, "A"), tokenizer, "", 1)


def test_special_tokens_in_a_prompt_are_text():
    """Whoever writes the prompt cannot forge the end of a text."""
    continuation = Continuation(says(BYTES, "A"), BYTES, "<|eos_token|>", 1)

    assert BYTES.eos_token not in continuation.prompt

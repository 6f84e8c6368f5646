"""Text that continues a text."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from transformulary.errors import AlgorithmError
from transformulary.generate.dinference import DInference
from transformulary.generate.sampling import Sampling
from transformulary.generate.stopping import Stop
from transformulary.nn import DTransformer
from transformulary.tokens import Stream, Tokenizer, begin


class Continuation:
    """A model's continuation of a prompt: iterate over it once for its text, in pieces of whole characters.

    prompt         token ids of the prompt
    tokens         token ids generated so far; the last one may be an eos, which is not in the text
    finish_reason  None while it goes on; then 'stop' (an eos, or a stop string, which the text does not have), or
                   'length'
    """

    def __init__(
        self,
        model: DTransformer,
        tokenizer: Tokenizer,
        prompt: str | Sequence[int],
        ell_gen: int,
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        *,
        seed: int | None = None,
        eos: Collection[int] | None = None,
        stop: Sequence[str] = (),
        bos: bool | None = None,
        crop: bool = False,
    ) -> None:
        """Check everything and compute nothing.

        Args:
            model, ell_gen, sampling, seed, crop: as for `DInference`.
            tokenizer: the one that the model was trained with; only ids that it has are drawn.
            prompt: a text, in which what spells a special token is text; or the token ids themselves.
            eos: token ids after which it ends; None is the vocabulary's eos_token, if it has one.
            stop: up to four strings that end the text where the first of them begins.
            bos: begin the prompt with bos_token.  None does so if the prompt is empty, and if the vocabulary has a
                bos_token that is not its eos_token too (one token for both, as in GPT-2, only separates texts).

        Raises:
            TokenError: the vocabulary cannot spell the prompt, or has no bos_token to begin it with.
            AlgorithmError, ConfigError: as for `DInference`; a stop string is empty, or there are more than four.
        """
        own = () if tokenizer.eos_token is None else (tokenizer.eos_token,)
        self._eos = frozenset(own if eos is None else eos)
        self._stop, self._stream = Stop(stop), Stream(tokenizer)
        self.prompt = read_prompt(tokenizer, bos, prompt) if isinstance(prompt, str) else [*prompt]
        self.tokens: list[int] = []
        self.finish_reason: str | None = None
        self._y = DInference(
            model, self.prompt, ell_gen, sampling, seed=seed, eos=self._eos, ids=tokenizer.ids, crop=crop
        )

    def __iter__(self) -> Iterator[str]:
        """The pieces of text, none empty; together they are the continuation."""
        for y in self._y:
            self.tokens.append(y)
            if y in self._eos:
                self.finish_reason = "stop"
                break
            yield from self._shown(self._stream.push(y))
            if self._stop.found:
                break
        yield from self._shown(self._stream.rest())
        self.finish_reason = "stop" if self._stop.found else self.finish_reason or "length"
        yield from filter(None, [self._stop.rest()])

    def _shown(self, piece: str) -> Iterator[str]:
        yield from filter(None, [self._stop.push(piece)])


def read_prompt(tokenizer: Tokenizer, bos: bool | None, prompt: str) -> list[int]:
    """The ids of a prompt, at least one.  Raises TokenError as `begin` and `encode` do, AlgorithmError if empty."""
    x = begin(tokenizer, bos, prompt) + tokenizer.encode(prompt)
    if not x:
        raise AlgorithmError("the prompt is empty: begin with some text, or with bos_token if the vocabulary has one.")
    return x

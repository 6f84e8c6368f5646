"""The attention of one prompt, ready to be looked at."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import AlgorithmError, ConfigError, DataError
from transformulary.files import write_atomically
from transformulary.paper import Config, EDTransformerConfig, PreEDTransformerConfig, TwoStacks
from transformulary.view.image import attention_png
from transformulary.view.page import attention_page
from transformulary.view.stack import Stack, whole

if TYPE_CHECKING:
    from torch import Tensor

    from transformulary.models import Loaded
    from transformulary.nn import DTransformer, EDTransformer, Encoder, Transformer
    from transformulary.tokens import Tokenizer

#: More weights than these are not put into a notebook, which keeps every output in memory and in its file.
INLINE = 4_000_000


@dataclass(frozen=True)
class Attention:
    """Weights of some heads for one prompt; a notebook shows it as the page of `attention_page`.

    stacks   of a decoder or an encoder one; of an encoder-decoder three: encoder, decoder and cross
    title    heading of the page or picture
    """

    stacks: Sequence[Stack]
    title: str

    def only(self, layer: int | None = None, head: int | None = None, kind: str | None = None) -> Attention:
        """The same with one layer, one head, one kind of attention, or several of these; None keeps all.

        Raises:
            DataError: there is no such layer, head or kind.
        """
        kinds = [stack.kind for stack in self.stacks]
        if kind is not None and kind not in kinds:
            raise DataError(f"this model has no {kind} attention, only {', '.join(kinds)}.")
        return replace(self, stacks=[s.only(layer, head) for s in self.stacks if kind in (None, s.kind)])

    def page(self) -> str:
        """One self-contained HTML page; see `attention_page`."""
        return attention_page(self.stacks, self.title)

    def png(self) -> bytes:
        """One PNG; see `attention_png`."""
        return attention_png(self.stacks, self.title)

    def save(self, path: str | Path) -> None:
        """Write the page or the picture, as the name ends in .html or .png.

        Raises:
            DataError: the name ends otherwise.
            MissingExtra: a PNG needs matplotlib.
            OSError: the file cannot be written.
        """
        write_atomically(path, FORMATS[suffix(path)](self))

    def _repr_html_(self) -> str:
        if (n := sum(w.size for stack in self.stacks for w in stack.weights)) > INLINE:
            return f"<p>{n:,} attention weights are too many for a notebook: <code>.save('attention.html')</code></p>"
        page = html.escape(self.page())
        style = "width:100%;height:50rem;border:0"
        return f'<iframe sandbox="allow-scripts" title="Attention" style="{style}" srcdoc="{page}"></iframe>'


#: What a file's name can end in, and what is then written.
FORMATS: dict[str, Callable[[Attention], str | bytes]] = {".html": Attention.page, ".png": Attention.png}


def suffix(path: str | Path) -> str:
    """The end of a file's name, a key of FORMATS.

    Raises:
        DataError: it is none.
    """
    end = Path(path).suffix.lower()
    if end not in FORMATS:
        raise DataError(f"{path} ends in {end or 'nothing'!r}, and attention can be written as {' or '.join(FORMATS)}.")
    return end


def attention(loaded: Loaded, prompt: str, bos: bool | None = None, context: str | None = None) -> Attention:
    """What every head of every layer looks at while a loaded model reads a prompt: `transformulary attention`.

    Args:
        loaded: any model with its vocabulary.
        prompt, bos, context: as for `attention_of`; how an answer begins is said by the model's files.

    Raises:
        CheckpointError: the model has no vocabulary, or its files do not say which token begins an answer.
        ConfigError, TokenError, AlgorithmError: as `attention_of` does.
    """
    from transformulary.encode.reading import vocabulary
    from transformulary.generate.translation import answer_defaults

    answers = context is not None and isinstance(loaded.described.config, TwoStacks)
    begin = answer_defaults(loaded).frame.bos_token if answers else None
    return attention_of(loaded.model, vocabulary(loaded), prompt, bos, context, begin)


def attention_of(
    model: Transformer,
    tokenizer: Tokenizer,
    prompt: str,
    bos: bool | None = None,
    context: str | None = None,
    begin: int | None = None,
) -> Attention:
    """As `attention`, of a model and its tokenizer.

    Args:
        model: of any of Algorithms 8 to 10.
        tokenizer: its own.
        prompt: what a decoder continues, the tokens being those that `generate` would continue; what an encoder reads,
            with the special tokens that it was trained to see; what an encoder-decoder has answered so far.
        bos: of a decoder alone, as for `generate`: whether bos_token begins the prompt.
        context: of an encoder-decoder, and of no other, the text that it answers.
        begin: the id of the token that begins its answers.

    Raises:
        ConfigError: an argument that this kind of model has no use for, or lacks.
        TokenError: the vocabulary cannot spell a text, or has no bos_token to begin it with.
        AlgorithmError: there is no token, or there are more than ell_max where positions are learned.

    Source: Algorithm 4, line 6, in Algorithms 8, 9 and 10.
    """
    from transformulary.models import bare
    from transformulary.nn import DTransformer, EDTransformer, Encoder, Transformer

    model = bare(model, Transformer)
    if isinstance(model, EDTransformer) == (context is None):
        needs = "needs a context too, the text that it answers" if context is None else "reads one text, and no context"
        raise ConfigError(f"a model of this architecture ({type(model.config).__name__}) {needs}.")
    if bos is not None and not isinstance(model, DTransformer):
        raise ConfigError("bos says how the prompt of a decoder begins; this model's vocabulary says how texts do.")
    if isinstance(model, EDTransformer):
        stacks = _of_both(model, tokenizer, str(context), prompt, begin)
    elif isinstance(model, Encoder):
        stacks = [_of_encoder(model, tokenizer, prompt)]
    else:
        stacks = [_of_decoder(bare(model, DTransformer), tokenizer, prompt, bos)]
    stacks = [replace(stack, scaled=model.config.scale == "sqrt") for stack in stacks]
    return Attention(stacks, f"Attention of {f'{_quoted(context)} → ' if context else ''}{_quoted(prompt)}")


def _quoted(text: str) -> str:
    return f"“{text if len(text) <= 60 else text[:60] + '…'}”"


def _of_decoder(model: DTransformer, tokenizer: Tokenizer, prompt: str, bos: bool | None) -> Stack:
    from transformulary.generate.continuation import read_prompt
    from transformulary.nn import attention_weights

    x = read_prompt(tokenizer, bos, prompt)
    return whole(_spelled(tokenizer, x), _arrays(attention_weights(model, *_rows(model, x))))


def _of_encoder(model: Encoder, tokenizer: Tokenizer, text: str) -> Stack:
    from transformulary.nn import attention_weights

    row = tokenizer.framed(text)
    if not row.ids:
        raise AlgorithmError("the text is empty: it has no token to look at.")
    sequences = _rows(model, row.ids, *([row.segments] if model.config.segments else []))
    weights = _arrays(attention_weights(model, *sequences))
    return whole(_spelled(tokenizer, row.ids), weights, kind="encoder", line="9.5")


def _of_both(model: EDTransformer, tokenizer: Tokenizer, context: str, prompt: str, begin: int | None) -> list[Stack]:
    from transformulary.nn import attention_weights

    if begin is None:
        raise ConfigError("begin is not given: an encoder-decoder's answer begins with a token of its own.")
    z, answer = tokenizer.framed(context).ids, tokenizer.answer(prompt)
    x = [begin, *(answer[:-1] if answer[-1:] == [tokenizer.eos_token] else answer)]
    if not z:
        raise AlgorithmError("the context is empty: it has no token to look at.")
    found = attention_weights(model, *_rows(model, z, x))
    source, target = _spelled(tokenizer, z), _spelled(tokenizer, x)
    return [
        whole(queries, _arrays(weights), keys, kind, line)
        for (kind, line), queries, keys, weights in zip(
            LINES[type(model.config)].items(), (source, target, target), (source, target, source), found, strict=True
        )
    ]


#: Which lines of an encoder-decoder look: of Algorithm 8, and of Algorithm 8a.
LINES: dict[type[Config], dict[str, str]] = {
    EDTransformerConfig: {"encoder": "8.5", "decoder": "8.14", "cross": "8.16"},
    PreEDTransformerConfig: {"encoder": "8a.6", "decoder": "8a.16", "cross": "8a.18"},
}


def _rows(model: Transformer, *sequences: list[int]) -> list[Tensor]:
    import torch

    return [torch.tensor([ids], device=model.W_e.weight.device) for ids in sequences]


def _spelled(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    return [tokenizer.spelled(i) for i in ids]


def _arrays(layers: list[Tensor]) -> list[NDArray[np.float32]]:
    return [weights[0].float().cpu().numpy() for weights in layers]

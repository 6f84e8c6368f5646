"""The attention of one prompt, ready to be looked at."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from transformulary.errors import DataError
from transformulary.files import write_atomically
from transformulary.view.image import attention_png
from transformulary.view.page import attention_page

if TYPE_CHECKING:
    from transformulary.nn import DTransformer
    from transformulary.tokens import Tokenizer

#: More weights than these are not put into a notebook, which keeps every output in memory and in its file.
INLINE = 4_000_000


@dataclass(frozen=True)
class Attention:
    """Weights of some heads for one prompt; a notebook shows it as the page of `attention_page`.

    tokens   the ell tokens, as text
    weights  one array (H, ell, ell) per layer, rows = queries
    layers   the numbers of these layers, from 1
    heads    the numbers of these heads, from 1
    title    heading of the page or picture
    """

    tokens: list[str]
    weights: list[NDArray[np.float32]]
    layers: Sequence[int]
    heads: Sequence[int]
    title: str

    def only(self, layer: int | None = None, head: int | None = None) -> Attention:
        """The same with one layer, one head, or both; None keeps all.

        Raises:
            DataError: there is no such layer or head.
        """
        layers, heads = _chosen("layer", layer, self.layers), _chosen("head", head, self.heads)
        columns = [self.heads.index(h) for h in heads]
        weights = [self.weights[self.layers.index(l)][columns] for l in layers]
        return Attention(self.tokens, weights, layers, heads, self.title)

    def page(self) -> str:
        """One self-contained HTML page; see `attention_page`."""
        return attention_page(self.tokens, self.weights, self.title, self.layers, self.heads)

    def png(self) -> bytes:
        """One PNG; see `attention_png`."""
        return attention_png(self.tokens, self.weights, self.title, self.layers, self.heads)

    def save(self, path: str | Path) -> None:
        """Write the page or the picture, as the name ends in .html or .png.

        Raises:
            DataError: the name ends otherwise.
            MissingExtra: a PNG needs matplotlib.
            OSError: the file cannot be written.
        """
        write_atomically(path, FORMATS[suffix(path)](self))

    def _repr_html_(self) -> str:
        if (n := sum(w.size for w in self.weights)) > INLINE:
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


def _chosen(name: str, number: int | None, numbers: Sequence[int]) -> Sequence[int]:
    if number is not None and number not in numbers:
        raise DataError(f"there is no {name} {number}: the {name}s are {numbers[0]} to {numbers[-1]}, counted from 1.")
    return numbers if number is None else [number]


def attention(model: DTransformer, tokenizer: Tokenizer, prompt: str, bos: bool | None = None) -> Attention:
    """What every head of every layer looks at while the model reads a prompt.

    The tokens are those that `generate` would continue; `bos` says, as there, whether bos_token begins them.

    Raises:
        TokenError: the vocabulary cannot spell the prompt, or has no bos_token to begin it with.
        AlgorithmError: there is no token, or there are more than ell_max where positions are learned.

    Source: Algorithm 4, line 6, in Algorithm 10, line 6.
    """
    import torch

    from transformulary.generate.continuation import read_prompt
    from transformulary.nn import attention_weights

    x = read_prompt(tokenizer, bos, prompt)
    weights = attention_weights(model, torch.tensor([x], device=model.W_e.weight.device))
    c = model.config
    title = f"Attention of “{prompt if len(prompt) <= 60 else prompt[:60] + '…'}”"
    return Attention(
        [tokenizer.decode([i]) for i in x],
        [w[0].float().cpu().numpy() for w in weights],
        range(1, c.L + 1),
        range(1, c.H + 1),
        title,
    )

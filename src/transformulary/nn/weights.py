"""The attention weights that a model has used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformulary.nn.attention import MHAttention
from transformulary.nn.dtransformer import DTransformer
from transformulary.nn.edtransformer import EDTransformer
from transformulary.nn.etransformer import Encoder
from transformulary.nn.transformer import evaluating

Layers = list[Float[Tensor, "B H ell_x ell_z"]]


class EDWeights(NamedTuple):
    """The three kinds of attention of Algorithm 8: lines 5, 14 and 16."""

    encoder: Layers
    decoder: Layers
    cross: Layers


@overload
def attention_weights(model: DTransformer | Encoder, *sequences: Tensor, **real: Tensor) -> Layers: ...
@overload
def attention_weights(model: EDTransformer, *sequences: Tensor, **real: Tensor) -> EDWeights: ...
def attention_weights(model: Any, *sequences: Tensor, **real: Tensor) -> Any:
    """The attention weights of each layer, `softmax` of line 6 of Algorithm 4, when the model reads these sequences.

    Row t_x of a matrix holds the weights with which token t_x looks at every token; it sums to 1, or is
    all 0 where the token may look at nothing.  Dropout leaves nothing out here: it is switched off meanwhile.

    Args:
        model: any of Algorithms 8 to 10.
        sequences, real: as for its `forward`.

    Returns:
        One (B, H, ell_x, ell_z) for each layer; of an encoder-decoder, three lists of them.

    Raises AlgorithmError as `forward` does.
    """
    with evaluating(model), torch.no_grad(), watched(model) as seen:
        model(*sequences, **real)
    if isinstance(model, EDTransformer):
        layers = ((model.encoder, "attention"), (model.decoder, "attention"), (model.decoder, "cross"))
        return EDWeights(*([seen[getattr(layer, name)] for layer in stack] for stack, name in layers))
    return [seen[layer.attention] for layer in model.layers]


@contextmanager
def watched(model: nn.Module) -> Iterator[dict[nn.Module, Tensor]]:
    """Inside, every attention also says what its weights were."""
    seen: dict[nn.Module, Tensor] = {}

    def ask(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return args, {**kwargs, "weights": True}

    def show(module: nn.Module, args: Any, output: Any) -> Any:
        Y, seen[module] = output
        return Y

    with ExitStack() as hooks:
        for module in model.modules():
            if isinstance(module, MHAttention):
                hooks.enter_context(module.register_forward_pre_hook(ask, with_kwargs=True))
                hooks.enter_context(module.register_forward_hook(show))
        yield seen

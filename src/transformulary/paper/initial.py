"""Where the training of a decoder begins: what its parameters are, and the order in which chance gives them.

The fast model draws from one generator in the order of its own construction, which it shares with no other part of
this package.  So that the order can be said without building the model it is here too: of every matrix in the table of
parameters, one that ORDER lacks is an error.  A test draws as this says, and finds what `train.initial_model` has.
"""

from __future__ import annotations

from transformulary.paper.config import DTransformerConfig
from transformulary.paper.parameters import Shapes, parameters, split

#: Matrices in the order of the fast model's construction: the tables, a layer, the unembedding.
ORDER = (
    ("W_e", "W_p"),
    ("W_q", "W_k", "W_v", "W_r", "W_o", "W_mlp1", "W_mlp3", "W_mlp2"),
    ("W_u",),
)
#: What one matrix holds, of all heads, where they have biases alike.
JOINT = ("W_q", "W_k", "W_v")


def drawn(config: DTransformerConfig) -> tuple[list[tuple[str, ...]], ...]:
    """What is drawn before the layers, in every layer, and after them; names that stand together are one matrix.

    The rows of a matrix that every head has are those of the first head, then of the second, and so on.
    """
    matrices = [name for name, shape in _arrays(config) if len(shape.split()) == 2]
    unknown = sorted({*matrices} - {name for part in ORDER for name in part})
    assert not unknown, f"when is {unknown} drawn?"
    joint = config.joint
    parts = ([name for name in part if name in matrices] for part in ORDER)
    return tuple(
        [JOINT if joint and name == JOINT[0] else (name,) for name in part if not joint or name not in JOINT[1:]]
        for part in parts
    )


def constant(config: DTransformerConfig) -> tuple[list[str], list[str]]:
    """The vectors that begin as 0, and those that begin as 1."""
    vectors = [name for name, shape in _arrays(config) if len(shape.split()) == 1]
    return [v for v in vectors if not v.startswith("gamma")], [v for v in vectors if v.startswith("gamma")]


def _arrays(config: DTransformerConfig) -> list[tuple[str, str]]:
    """(name, shape) of every parameter, those of a bundle too, without what counts them."""

    def each(table: Shapes) -> list[tuple[str, str]]:
        return [
            found
            for name, shape in table.items()
            for found in ([(split(name)[0], shape)] if isinstance(shape, str) else each(shape))
        ]

    return each(parameters(config))

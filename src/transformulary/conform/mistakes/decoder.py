"""The known mistakes of decoders, Algorithm 10."""

from __future__ import annotations

from transformulary.conform.mistakes.components import (
    NORM_FORMULA,
    PROJECTIONS,
    QUERIES_KEYS,
    ROTATION,
    SCORES,
)
from transformulary.conform.mistakes.mistake import Mistake, mistake, numbered
from transformulary.conform.mistakes.parts import (
    activation,
    attention,
    causal_mask,
    embedding,
    mlp,
    norm,
    normed,
    normed_at,
    other_norms,
    output,
    place,
    residual,
)

CALL = "MHAttention(X_tilde, X_tilde, theta.W[l], c.mask[l % len(c.mask)], c)"
ATTENDS = place("10.6", X="X", read="X_tilde", asked="X_tilde", unnormed="X", call=CALL)
IN_MLP = place("10.8", X="X", read="X_tilde", one="mlp1", two="mlp2", gate="mlp3")
#: The lines that norm; first one of a layer.
NORMED = tuple(normed_at(f"10.{n}", k) for n, k in (("5", "_1[l]"), ("7", "_2[l]"), ("10", ""), ("3a", "_x")))
#: What attention read in the layer of line 7: what the layer before gives, or the embeddings.
BEFORE = "_watch.before(f'10.8[l={l}]', '10.3a', '10.3')"
#: The lines whose values a run keeps for that.
KEPT = frozenset({"10.3", "10.3a", "10.8"})
FIRST, SECOND = other_norms({"10.5": "1", "10.7": "2"})

#: In the order of the lines; what all models call comes where the first of the lines stands that call it.
MISTAKES: tuple[Mistake, ...] = (
    *embedding(place("10.2", ell="ell", W_p="theta.W_p"), formulas=False),
    *norm(*NORMED),
    FIRST,
    *attention(ATTENDS), *residual("10.6", "MHAttention", "what attention gives"),
    *causal_mask("10.6"),
    *numbered("4", "window", "tokens see a window of NUMBER tokens, themselves among them", "Mask", "windowed(Mask, NUMBER)", numbers=(4,), whole=True, at="10.6"),
    mistake("10.6", "mask-cycle", "the masks of the layers alternate the other way round", "c.mask[l % len(c.mask)]", "c.mask[(l + 1) % len(c.mask)]"),
    mistake("10.7", "parallel", "the MLP reads what attention reads: both stand beside each other", normed("_2[l]"), "X_tilde"),
    mistake("10.7", "parallel-norm", "the MLP reads the second norm of the X that attention reads: both stand beside each other", normed("_2[l]"), normed("_2[l]", BEFORE)),
    SECOND,
    *PROJECTIONS, *QUERIES_KEYS, *ROTATION, *SCORES, *NORM_FORMULA,
    *activation(IN_MLP), *mlp(IN_MLP), *residual("10.8", "theta.W_mlp2", "what the MLP gives"),
    *output("10.11"),
)  # fmt: skip

#: What a norm computes, in one of the lines of Algorithm 10 that have one: code may have a norm of its own in each.
NORMS = (
    *(m.inside(line) for m in NORM_FORMULA for line in ("10.3a", "10.5", "10.6", "10.7", "10.10")),
    *(m for where in NORMED for m in norm(where)),
)

#: Norms elsewhere: a whole model of another order of lines.  What stands after line 8 is written before what reads it.
ORDER = tuple(
    mistake(
        "10.5", key, f"the norms stand after the residual sums (post-norm) and should stand before them (pre-norm){more}",
        normed("_1[l]"), f"({normed('_2[l - 1]')} if l else X)",
        "10.6", "X + MHAttention", "X_tilde + MHAttention",
        "10.7", "theta.gamma_2[l], theta.beta_2[l]", "theta.gamma_1[l], theta.beta_1[l]",
        "10.8", "X + theta.W_mlp2", "X_tilde + theta.W_mlp2",
        "10.10", normed(""), last,
    )
    for key, more, last in (
        ("post-norm", "; the final norm is missing", normed("_2[c.L - 1]")),
        ("post-norm-final", "", f"(lambda X: {normed('')})({normed('_2[c.L - 1]')})"),
    )
)  # fmt: skip

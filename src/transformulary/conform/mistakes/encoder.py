"""The known mistakes of encoders: Algorithm 9, and 9c on top of it."""

from __future__ import annotations

from transformulary.conform.mistakes.components import (
    BUCKETS,
    NORM_FORMULA,
    POSITIONS,
    PROJECTIONS,
    QUERIES_KEYS,
    ROTATION,
    SCORES,
)
from transformulary.conform.mistakes.mistake import Mistake, mistake
from transformulary.conform.mistakes.parts import (
    activation,
    attention,
    embedding,
    mlp,
    norm,
    normed,
    normed_at,
    other_norms,
    output,
    place,
)

CALL = "MHAttention(X, X, theta.W[l], Full(), c)"
IN_MLP = place("9.7", X="X", read="X", one="mlp1", two="mlp2", gate="mlp3")
PROJECTION = place("9.10")
W_S = "theta.W_s[:, s[t]]"

SEGMENTS = (
    mistake("9.2a", "no-segments", "no segment embedding is added", W_S, "0"),
    mistake("9.2a", "segments-swapped", "the segments are swapped", W_S, "theta.W_s[:, c.segments - 1 - s[t]]"),
    mistake("9.2a", "segments-first", "every token is in the first segment", W_S, "theta.W_s[:, 0]"),
    mistake("9.2a", "segments-last", "every token is in the last segment", W_S, "theta.W_s[:, c.segments - 1]"),
    mistake("9.2a", "segments-of-next", "a token has the segment of the one after it", W_S, "theta.W_s[:, s[min(t + 1, ell - 1)]]"),
)  # fmt: skip

HEAD = (
    mistake("9.10", "no-b_f", "the bias b_f is missing", "+ theta.b_f[:, None]", "+ 0"),
    mistake("9.10", "tanh-for-activation", "tanh stands for the activation", "ACTIVATION[c.activation](", "tanh("),
    mistake("9.10", "no-W_f", "the projection W_f is missing", "theta.W_f @ X", "fitting(X, theta.W_f)"),
    mistake("9.10", "W_f-transposed", "the square matrix W_f is transposed", "theta.W_f @ X", "theta.W_f.T @ fitting(X, theta.W_f)"),
    mistake(
        "9.10", "no-transform", "the projection and its norm are missing: the unembedding reads what the layers give",
        "ACTIVATION[c.activation](theta.W_f @ X + theta.b_f[:, None])", "fitting(X, theta.W_f)",
        "9.11", normed(""), "X",
    ),
    mistake(
        "9.10", "norm-before-activation", "the norm stands before the activation",
        "ACTIVATION[c.activation](theta.W_f @ X + theta.b_f[:, None])", "theta.W_f @ X + theta.b_f[:, None]",
        "9.11", normed(""), f"ACTIVATION[c.activation]({normed('')})",
    ),
)  # fmt: skip

CLASSES = (
    mistake("9c.1", "pooled-last", "the last token is taken, not the first", "X[:, 0]", "X[:, X.shape[1] - 1]"),
    mistake("9c.1", "pooled-mean", "the mean of the tokens is taken, not the first", "X[:, 0]", "X.mean(axis=1)"),
    mistake("9c.1", "no-tanh", "tanh is missing", "tanh(", "("),
    mistake("9c.1", "relu-for-tanh", "ReLU stands for tanh", "tanh(", "ReLU("),
    mistake("9c.1", "no-b_pool", "the bias b_pool is missing", "+ b_pool", "+ 0"),
    mistake("9c.1", "W_pool-transposed", "the square matrix W_pool is transposed", "W_pool @", "W_pool.T @"),
    mistake("9c.1", "no-pooler", "W_pool and tanh are missing: the classes are of what the layers give", "tanh(W_pool @ X[:, 0] + b_pool)", "X[:, 0]"),
    mistake("9c.2", "no-b_c", "the bias b_c is missing", "+ b_c", "+ 0"),
    mistake("9c.2", "softmax-twice-2", "softmax is applied twice", "softmax(W_c @ e + b_c)", "softmax(softmax(W_c @ e + b_c))"),
)  # fmt: skip

#: In the order of the lines; what all models call comes where the first of the lines stands that call it.
MISTAKES: tuple[Mistake, ...] = (
    *embedding(place("9.2", ell="ell", W_p="theta.W_p")),
    *SEGMENTS,
    *norm(normed_at("9.3a", "_x"), mark="-{label}"),
    *attention(place("9.5", X="X", read="X", asked="X", unnormed="X", call=CALL), pre=False),
    mistake("9.5", "causal-in-encoder", "there is a causal mask, and every token of an encoder sees all", "Full()", "Causal()"),
    *PROJECTIONS, *QUERIES_KEYS, *ROTATION, *SCORES, *BUCKETS, *POSITIONS,
    *norm(normed_at("9.6", "_1[l]"), mark="-{label}"),
    *other_norms({"9.6": "1", "9.8": "2"}),
    *NORM_FORMULA,
    *activation(IN_MLP, PROJECTION), *mlp(IN_MLP, pre=False),
    *norm(normed_at("9.8", "_2[l]"), mark="-{label}"),
    *HEAD,
    *norm(normed_at("9.11", ""), mark="-{label}"),
    *output("9.12"),
    *CLASSES,
)  # fmt: skip

#: What a norm or an activation computes, in one line alone: code may have one of its own in each.
ALONE = (
    *(m.inside(line) for m in NORM_FORMULA for line in ("9.3a", "9.5", "9.6", "9.8", "9.11")),
    *(m for where in (IN_MLP, PROJECTION) for m in activation(where)),
)

#: Norms elsewhere: a whole model of another order of lines.
ORDER = (
    mistake(
        "9.5", "pre-norm", "the norms stand before attention and MLP (pre-norm) and should stand after the residual sums (post-norm)",
        "MHAttention(X, X,", f"MHAttention({normed('_1[l]')}, {normed('_1[l]')},",
        "9.6", normed("_1[l]"), "X",
        "9.7", "theta.W_mlp1[l] @ X", f"theta.W_mlp1[l] @ {normed('_2[l]')}",
        "9.8", normed("_2[l]"), "X",
    ),
    mistake(
        "9.5", "norm-of-parts", "the norms are of what attention and MLP give, before it is added, and should be of the sums",
        "X + " + CALL, f"X + (lambda X: {normed('_1[l]')})({CALL})",
        "9.6", normed("_1[l]"), "X",
        "9.7", "X + theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X + theta.b_mlp1[l][:, None]) + theta.b_mlp2[l][:, None]",
        f"X + (lambda X: {normed('_2[l]')})(theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X + theta.b_mlp1[l][:, None]) + theta.b_mlp2[l][:, None])",
        "9.8", normed("_2[l]"), "X",
    ),
)  # fmt: skip

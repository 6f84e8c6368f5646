"""The known mistakes of decoders: by line of the paper, each a small replacement of one statement.

A mistake is a `Variant` of the oracle with a sentence: what an implementation does, and what it should do.
To add one, add a row: the line, its name, the sentence, and which part of the line's expression (as
`ast.unparse` spells it) becomes what.  A second line of the same mistake is a further pair of entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from transformulary.conform import wrong
from transformulary.oracle.lines import Line, line_at
from transformulary.oracle.watch import Variant
from transformulary.oracle.whole import CLASSES, NUMBERS
from transformulary.paper import Full


@dataclass(frozen=True)
class Mistake(Variant):
    """A known mistake: `says` completes "line ...: " in a report; `line` is where a reader should look.

    Some have a number: the table holds those with common numbers, and `having` makes the one with any other.
    `right` is what the model's configuration calls that number, if it does.
    """

    says: str = ""
    line: str = ""
    number: float = 0.0
    right: str = ""
    having: Callable[[float], Mistake] | None = field(default=None, compare=False)

    @property
    def layered(self) -> bool:
        """Whether it is in a line that every layer has."""
        where = self.within or self.line
        return not is_whole(where) or bool(line_at(where).layers)

    def inside(self, line: str) -> Mistake:
        """The same mistake, made in one line of the outermost algorithm only."""
        return replace(self, within=line, having=self.having and _inside(self.having, line))


@cache
def _inside(having: Callable[[float], Mistake], line: str) -> Callable[[float], Mistake]:
    return lambda number: having(number).inside(line)


def _mistake(line: str, key: str, says: str, *changes: str) -> Mistake:
    """changes: old, new for the line itself; then, for further lines, label, old, new."""
    table = {line: (changes[0], changes[1])}
    rest = changes[2:]
    table |= {rest[k]: (rest[k + 1], rest[k + 2]) for k in range(0, len(rest), 3)}
    return Mistake(key, table, says, line)


def _mask(key: str, says: str, mask: str, *changes: str) -> Mistake:
    """Another mask than line 6 of Algorithm 10 says, put into Algorithm 4, so that a head alone shows it too."""
    return replace(_mistake("4", key, says, "Mask", mask, *changes), line="10.6")


def _numbered(
    line: str, key: str, says: str, old: str, new: str, *numbers: float, right: str = ""
) -> tuple[Mistake, ...]:
    """A mistake with each of some numbers, which stand where `says` and `new` have NUMBER; `right` as in `Mistake`."""

    def having(number: float) -> Mistake:
        shown, exact = f"{number:.12g}", repr(float(number))
        of = _mistake(line, f"{key}-{shown}", says.replace("NUMBER", shown), old, new.replace("NUMBER", exact))
        return replace(of, number=number, having=having, right=right)

    return tuple(map(having, numbers))


ACT = "ACTIVATION[c.activation]("
POS = "POSITION[c.positions](t, theta, c)"
SCALED = "S / SCALE[c.scale](d_attn)"
HEAD, KV = "W_qkv(W, h, h // (H // H_kv))", "h // (H // H_kv)"
Q, K, V = (f"W_qkv.W_{q} @ {of} + W_qkv.b_{q}[:, None]" for q, of in zip("qkv", "XZZ", strict=True))
#: Heads that are split without putting them before the tokens: what each head then has instead of its numbers.
UNSPLIT = (
    "5.1", HEAD, f"among_heads({HEAD}, W, h, {KV})",
    "4.1", Q, "unsplit(W_qkv, 'q', X)", "4.2", K, "unsplit(W_qkv, 'k', Z)", "4.3", V, "unsplit(W_qkv, 'v', Z)",
)  # fmt: skip

EMBEDDING = (
    _mistake("10.2", "no-positions", "no positional embedding is added", POS, "0"),
    _mistake("10.2", "positions-from-1", "positions are counted one too high", POS, POS.replace("t,", "embedded(t + 1, c),")),
    _mistake("10.2", "positions-from-2", "positions are counted two too high", POS, POS.replace("t,", "embedded(t + 2, c),")),
    _mistake("10.2", "positions-before", "positions are counted one too low, so the first token has the last position", POS, POS.replace("t,", "(t - 1) % c.ell_max,")),
    _mistake("10.2", "positions-right", "positions are aligned to the right: the last token has the last position", POS, POS.replace("t,", "c.ell_max - ell + t,")),
    _mistake("10.2", "position-stuck", "every token has the position of the first", POS, POS.replace("t,", "0,")),
    _mistake(
        "10.2", "embedding-scaled", "the token embedding is multiplied by sqrt(d_e)",
        "SCALE[c.embedding_scale](c.d_e) *", "sqrt(c.d_e) *",
    ),
    _mistake(
        "10.2", "embedding-unscaled", "the token embedding is not multiplied by sqrt(d_e)",
        "SCALE[c.embedding_scale](c.d_e) *", "1 *",
    ),
)  # fmt: skip

SCORES = (
    _mistake("4.6", "no-scale", "scores are not divided by sqrt(d_attn)", SCALED, "S"),
    _mistake("4.6", "scale-added", "scores are divided by sqrt(d_attn), and this model does not", SCALED, "S / sqrt(d_attn)"),
    _mistake("4.6", "scale-no-root", "scores are divided by d_attn instead of its root", SCALED, "S / d_attn"),
    _mistake("4.6", "scale-inverted", "scores are multiplied by sqrt(d_attn) instead of divided", SCALED, "S * sqrt(d_attn)"),
    _mistake("4.6", "scale-of-d_e", "scores are divided by sqrt(d_e) instead of sqrt(d_attn)", SCALED, "S / sqrt(X.shape[0])"),
    _mistake("4.6", "scale-d_e-no-root", "scores are divided by d_e instead of sqrt(d_attn)", SCALED, "S / X.shape[0]"),
    _mistake("4.6", "softmax-over-queries", "softmax normalises over the queries instead of the keys", f"softmax({SCALED})", f"softmax(({SCALED}).T).T"),
    _mistake("4.6", "no-softmax", "softmax is missing", f"softmax({SCALED})", f"where(Mask(t_z, t_x), {SCALED}, 0)"),
    _mistake("4.6", "mask-after-softmax", "masked weights are set to 0 after softmax, so weights do not sum to 1", f"softmax({SCALED})", f"where(Mask(t_z, t_x), softmax({SCALED}), 0)", "4.5", "where(Mask(t_z, t_x), S, -inf)", "S"),
    _mistake("4.5", "mask-zero", "masked scores become 0 instead of minus infinity", "-inf", "0"),
    *_numbered("4.6", "scale-by", "scores are divided by NUMBER", SCALED, "S / NUMBER", 8),
    *_numbered("4.5", "mask-finite", "masked scores become -NUMBER, which is not small enough", "-inf", "-NUMBER * SCALE[c.scale](d_attn)", 1, 5, 10, 20, 100),
    *_numbered("4.5", "mask-unscaled", "masked scores become -NUMBER before they are divided by sqrt(d_attn), which is not small enough", "-inf", "-NUMBER", 10, 50),
    _mistake("4.5", "mask-strict-finite", "the mask leaves out the token itself, and the first token attends to all alike", "where(Mask(t_z, t_x), S, -inf)", "where(Mask(t_z, t_x) & (t_z != t_x), S, -1e9)"),
    _mistake("4.6", "mask-strict-nan", "the mask leaves out the token itself, so that the first token is no number", f"softmax({SCALED})", f"softmax_or_nan(where(Mask(t_z, t_x) & (t_z != t_x), {SCALED}, -inf))"),
    _mistake("4.5", "mask-added", "-10000 is added to masked scores, and the scores are that large", "-inf", "S - 10000.0"),
)  # fmt: skip

PROJECTIONS = (
    _mistake("4.1", "q-k-swapped", "the projections of queries and keys are swapped", "W_qkv.W_q @ X + W_qkv.b_q", "W_qkv.W_k @ X + W_qkv.b_k", "4.2", "W_qkv.W_k @ Z + W_qkv.b_k", "W_qkv.W_q @ Z + W_qkv.b_q"),
    _mistake("4.2", "k-v-swapped", "the projections of keys and values are swapped", "W_qkv.W_k @ Z + W_qkv.b_k", "alike(W_qkv).W_v @ Z + W_qkv.b_v", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_k @ Z + W_qkv.b_k"),
    _mistake("4.1", "q-v-swapped", "the projections of queries and values are swapped", "W_qkv.W_q @ X + W_qkv.b_q", "alike(W_qkv).W_v @ X + W_qkv.b_v", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_q @ Z + W_qkv.b_q"),
    _mistake("4.1", "order-kvq", "queries, keys and values are taken in the order K, V, Q", "W_qkv.W_q @ X + W_qkv.b_q", "alike(W_qkv).W_k @ X + W_qkv.b_k", "4.2", "W_qkv.W_k @ Z + W_qkv.b_k", "alike(W_qkv).W_v @ Z + W_qkv.b_v", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_q @ Z + W_qkv.b_q"),
    _mistake("4.1", "order-vqk", "queries, keys and values are taken in the order V, Q, K", "W_qkv.W_q @ X + W_qkv.b_q", "alike(W_qkv).W_v @ X + W_qkv.b_v", "4.2", "W_qkv.W_k @ Z + W_qkv.b_k", "alike(W_qkv).W_q @ Z + W_qkv.b_q", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_k @ Z + W_qkv.b_k"),
    _mistake("4.1", "b_q-doubled", "the bias b_q is added twice", "+ W_qkv.b_q[:, None]", "+ 2 * W_qkv.b_q[:, None]"),
    _mistake("4.3", "b_v-doubled", "the bias b_v is added twice", "+ W_qkv.b_v[:, None]", "+ 2 * W_qkv.b_v[:, None]"),
    _mistake("4.2", "no-b_k", "the bias b_k is missing", "+ W_qkv.b_k[:, None]", "+ 0"),
    _mistake("4.1", "no-b_q", "the bias b_q is missing", "+ W_qkv.b_q[:, None]", "+ 0"),
    _mistake("4.3", "no-b_v", "the bias b_v is missing", "+ W_qkv.b_v[:, None]", "+ 0"),
    _mistake("5.1", "W_q-transposed", "the square matrix W_q is transposed", "W_qkv(W,", "W_qkv(transposed(W, 'W_q'),"),
    _mistake("5.1", "W_k-transposed", "the square matrix W_k is transposed", "W_qkv(W,", "W_qkv(transposed(W, 'W_k'),"),
    _mistake("5.1", "W_v-transposed", "the square matrix W_v is transposed", "W_qkv(W,", "W_qkv(transposed(W, 'W_v'),"),
    _mistake("5.1", "all-transposed", "the square matrices W_q, W_k, W_v and W_o are all transposed", "W_qkv(W,", "W_qkv(transposed(transposed(transposed(W, 'W_q'), 'W_k'), 'W_v'),", "5.4", "W.W_o @ Y", "W.W_o.T @ fitting(Y, X)"),
    _mistake("5.1", "heads-interleaved", "heads take every H-th row of the projections instead of a block of rows", "W_qkv(W,", "W_qkv(interleaved_heads(W),"),
    _mistake("5.1", "heads-unsplit", "queries, keys and values are split into heads without putting the heads before the tokens", *UNSPLIT[1:]),
    _mistake("5.1", "heads-unsplit-unmerged", "the heads are neither put before the tokens where they are split nor behind them where they are joined", *UNSPLIT[1:], "5.3", "rows(Y)", "unmerged(Y)"),
    _mistake("5.1", "groups-by-remainder", "query head h uses key/value head h mod H_kv instead of its block's", "h // (H // H_kv)", "h % H_kv"),
    _mistake("5.3", "heads-not-merged", "heads are not put behind the tokens before they are joined", "rows(Y)", "unmerged(Y)"),
    _mistake("5.3", "heads-merged-interleaved", "heads are joined number by number instead of one below the other", "rows(Y)", "by_number(Y)"),
    _mistake("5.3", "heads-reversed", "heads are joined in reverse order", "rows(Y)", "rows(Y[::-1])"),
    _mistake("5.4", "W_o-transposed", "the square matrix W_o is transposed", "W.W_o @ Y", "W.W_o.T @ fitting(Y, X)"),
    _mistake("5.4", "no-W_o", "the output projection W_o is missing", "W.W_o @ Y", "fitting(Y, X)"),
    _mistake("5.4", "no-b_o", "the bias b_o is missing", "+ W.b_o[:, None]", "+ 0"),
    _mistake("5.4", "b_o-doubled", "the bias b_o is added twice", "W.b_o[:, None]", "2 * W.b_o[:, None]"),
    _mistake("5.4", "b_o-per-head", "the bias b_o is added once per head", "W.b_o[:, None]", "len(W.W_q) * W.b_o[:, None]"),
)  # fmt: skip


ROTATION = (
    _mistake("4r.4", "rope-neighbours", "neighbouring numbers are rotated together, and these weights pair halves", "stacked(a, b)", "c.attention_factor * neighbours(q, omega, ell)"),
    _mistake("4.3a", "rope-rows", "the rows of W_q and W_k are in the order for a rotation of neighbours, and halves are rotated", "rotate(Q[:, t],", "rotate(in_pairs(Q[:, t]),", "4.3b", "rotate(K[:, t],", "rotate(in_pairs(K[:, t]),"),
    *_numbered("4r.1", "rope-base", "the base of the rotation is NUMBER", "c.base **", "NUMBER **", 10000, 500000, 1000000, right="base"),
    *_numbered("4r.1", "rope-slower", "positions of the rotation are divided by NUMBER", "c.base **", "1 / NUMBER * c.base **", 4),
    _mistake("4r.1", "rope-d_e", "frequencies are spread over d_e instead of d_attn", "/ d_attn)", "/ c.d_e)"),
    _mistake("4r.2", "rope-backwards", "the rotation goes the other way round", ") - q[", ") + q[", "4r.3", ") + q[", ") - q["),
    _mistake("4.3a", "rope-not-on-q", "queries are not rotated", "rotate(Q[:, t], t, ell_z, c)", "Q[:, t]"),
    _mistake("4.3b", "rope-not-on-k", "keys are not rotated", "rotate(K[:, t], t, ell_z, c)", "K[:, t]"),
    _mistake("4.3a", "rope-q-from-1", "queries are rotated by one position more than keys", "rotate(Q[:, t], t, ell_z, c)", "rotate(Q[:, t], t + 1, ell_z, c)"),
    _mistake("4.3", "rope-on-v", "values are rotated too", "W_qkv.W_v @ Z + W_qkv.b_v[:, None]", "columns((rotate((alike(W_qkv).W_v @ Z + W_qkv.b_v[:, None])[:, t], t, ell_z, c) for t in range(ell_z)))"),
)  # fmt: skip

Q_NORMED = "columns((NORM[c.norm](Q[:, t], W_qkv.gamma_q, W_qkv.beta_q, c) for t in range(ell_x)))"
K_NORMED = "columns((NORM[c.norm](K[:, t], W_qkv.gamma_k, W_qkv.beta_k, c) for t in range(ell_z)))"

QUERIES_KEYS = (
    _mistake("4.1a", "no-q-norm", "the norm of the queries is missing", Q_NORMED, "Q"),
    _mistake("4.2a", "no-k-norm", "the norm of the keys is missing", K_NORMED, "K"),
    _mistake("4.1a", "q-k-norms-swapped", "the norms of queries and keys use each other's parameters", "W_qkv.gamma_q, W_qkv.beta_q", "W_qkv.gamma_k, W_qkv.beta_k", "4.2a", "W_qkv.gamma_k, W_qkv.beta_k", "W_qkv.gamma_q, W_qkv.beta_q"),
    _mistake("4.1a", "qk-norm-after-rotation", "queries and keys are normed after their rotation, not before", Q_NORMED, "Q", "4.2a", K_NORMED, "K", "4.3a", "rotate(Q[:, t], t, ell_z, c)", "NORM[c.norm](rotate(Q[:, t], t, ell_z, c), W_qkv.gamma_q, W_qkv.beta_q, c)", "4.3b", "rotate(K[:, t], t, ell_z, c)", "NORM[c.norm](rotate(K[:, t], t, ell_z, c), W_qkv.gamma_k, W_qkv.beta_k, c)"),
)  # fmt: skip

NORM_FORMULA = (
    _mistake("6.2", "sample-variance", "the variance divides by d_e - 1 instead of d_e", "/ d_e", "/ (d_e - 1)"),
    _mistake("6.3", "eps-outside", "eps is added outside the root", "sqrt(v + c.eps)", "(sqrt(v) + c.eps)"),
    _mistake("6.3", "no-eps", "eps is missing", "v + c.eps", "v"),
    _mistake("6.3", "norm-of-half", "what the norm reads is rounded to float16", "(e - m)", "(half(e) - m)", "6.1", "e[i] / d_e for i in range(d_e)", "x / d_e for x in half(e)", "6.2", "(e[i] - m) ** 2 / d_e for i in range(d_e)", "(x - m) ** 2 / d_e for x in half(e)"),
    _mistake("6.3", "norm-of-bfloat16", "what the norm reads is rounded to bfloat16", "(e - m)", "(bfloat16(e) - m)", "6.1", "e[i] / d_e for i in range(d_e)", "x / d_e for x in bfloat16(e)", "6.2", "(e[i] - m) ** 2 / d_e for i in range(d_e)", "(x - m) ** 2 / d_e for x in bfloat16(e)"),
    *_numbered("6.3", "eps", "eps is NUMBER", "c.eps", "NUMBER", 1e-3, 1e-5, 1e-6, 1e-8, 1e-12, right="eps"),
    _mistake("6.3", "rms-for-layer-norm", "RMSnorm instead of layer norm: the mean is not removed", "(e - m) /", "e /", "6.2", "(e[i] - m) ** 2", "e[i] ** 2"),
    _mistake("6.3", "mean-not-removed", "the mean is left in the numerator", "(e - m) /", "e /"),
    _mistake("6.3", "no-gamma", "the scale gamma is missing", "* gamma", "* 1"),
    _mistake("6.3", "gamma-plus-1", "the scale is 1 + gamma", "* gamma", "* (1 + gamma)"),
    _mistake("6.3", "no-beta", "the offset beta is missing", "+ beta", "+ 0"),
    _mistake("6.3", "norm-in-half", "the norm is computed in half precision", "(e - m) / sqrt(v + c.eps)", "half(half(e - m) / half(sqrt(v + c.eps)))"),
    _mistake("6r.3", "rms-eps-outside", "eps is added outside the root", "sqrt(v + c.eps)", "(sqrt(v) + c.eps)"),
    _mistake("6r.3", "rms-no-eps", "eps is missing", "v + c.eps", "v"),
    _mistake("6r.3", "rms-of-half", "what the norm reads is rounded to float16", "e /", "half(e) /", "6r.2", "e[i] ** 2 / d_e for i in range(d_e)", "x ** 2 / d_e for x in half(e)"),
    _mistake("6r.3", "rms-of-bfloat16", "what the norm reads is rounded to bfloat16", "e /", "bfloat16(e) /", "6r.2", "e[i] ** 2 / d_e for i in range(d_e)", "x ** 2 / d_e for x in bfloat16(e)"),
    *_numbered("6r.3", "rms-eps", "eps is NUMBER", "c.eps", "NUMBER", 1e-3, 1e-5, 1e-6, 1e-8, 1e-12, right="eps"),
    _mistake("6r.3", "rms-no-gamma", "the scale gamma is missing", "* gamma", "* 1"),
    _mistake("6r.3", "rms-gamma-plus-1", "the scale is 1 + gamma", "* gamma", "* (1 + gamma)"),
    _mistake("6r.3", "layer-norm-for-rms", "layer norm instead of RMSnorm: the mean is removed", "e / sqrt(v", "(e - sum(e) / d_e) / sqrt(v", "6r.2", "e[i] ** 2", "(e[i] - sum(e) / d_e) ** 2"),
    _mistake("6r.2", "rms-sample-variance", "the mean of the squares divides by d_e - 1 instead of d_e", "/ d_e", "/ (d_e - 1)"),
    _mistake("6r.3", "rms-in-half", "the norm is computed in half precision", "e / sqrt(v + c.eps)", "half(half(e) / half(sqrt(v + c.eps)))"),
)  # fmt: skip


def _normed(parameters: str) -> str:
    return f"columns((NORM[c.norm](X[:, t], {parameters}, c) for t in range(ell)))"


def _norm_line(line: str, gamma: str, beta: str) -> tuple[Mistake, ...]:
    """The mistakes that lines 5, 7 and 10 share: a norm that is missing or of the wrong numbers."""
    usual = _normed(f"{gamma}, {beta}")
    of, n = f"(X, {gamma}, {beta}, c)", line.partition(".")[2]
    return (
        _mistake(line, f"no-norm-{n}", "the norm is missing", usual, "X"),
        _mistake(line, f"whole-norm-{n}", "mean and variance are of all tokens together", usual, f"whole_norm{of}"),
        _mistake(line, f"norm-over-tokens-{n}", "each coordinate is normalised over the tokens", usual, f"norm_over_tokens{of}"),
        _mistake(line, f"norm-twice-{n}", "the norm is applied twice", "NORM[c.norm](X[:, t],", f"NORM[c.norm](NORM[c.norm](X[:, t], {gamma}, {beta}, c),"),
    )  # fmt: skip


BLOCK = (
    *_norm_line("10.5", "theta.gamma_1[l]", "theta.beta_1[l]"),
    _mistake("10.5", "norm-2-for-1", "the parameters of the second norm are used", "theta.gamma_1[l], theta.beta_1[l]", "theta.gamma_2[l], theta.beta_2[l]"),
    _mistake("10.6", "residual-overwritten-6", "attention is added to the normed X, which overwrites the residual stream", "X + MHAttention", "X_tilde + MHAttention"),
    _mistake("10.6", "no-residual-6", "the residual connection around attention is missing", "X + MHAttention", "MHAttention"),
    _mistake("10.6", "no-attention", "the attention is left out", "MHAttention(X_tilde, X_tilde, theta.W[l], c.mask[l % len(c.mask)], c)", "0 * X"),
    _mistake("10.6", "attention-on-X", "attention reads X instead of its norm", "MHAttention(X_tilde, X_tilde,", "MHAttention(X, X,"),
    _mask("no-mask", "there is no causal mask", "Full()", "4.5", "where(Mask(t_z, t_x), S, -inf)", "S"),
    _mask("mask-transposed", "the mask is transposed: tokens look at later ones", "turned(Mask)"),
    _mask("mask-strict", "the mask leaves out the token itself", "strict(Mask)"),
    _mask("mask-ahead", "the mask lets a token see one token ahead", "ahead(Mask)"),
    _mask("mask-inverted", "the mask is inverted: tokens see what they may not, and the last one, which then has nobody, sees all alike", "inverted(Mask)", "4.5", "-inf", "-1e9"),
    _mask("mask-inverted-nan", "the mask is inverted: tokens see what they may not, and the last one, which then has nobody, is no number", "inverted(Mask)", "4.6", f"softmax({SCALED})", f"softmax_or_nan({SCALED})"),
    _mask("window-wider", "the window is one token too wide", "wider(Mask, 1)"),
    _mask("window-narrower", "the window is one token too narrow", "wider(Mask, -1)"),
    _mistake("10.6", "mask-cycle", "the masks of the layers alternate the other way round", "c.mask[l % len(c.mask)]", "c.mask[(l + 1) % len(c.mask)]"),
    *_norm_line("10.7", "theta.gamma_2[l]", "theta.beta_2[l]"),
    _mistake("10.7", "parallel", "the MLP reads what attention reads: both stand beside each other", _normed("theta.gamma_2[l], theta.beta_2[l]"), "X_tilde"),
    _mistake("10.7", "norm-1-for-2", "the parameters of the first norm are used", "theta.gamma_2[l], theta.beta_2[l]", "theta.gamma_1[l], theta.beta_1[l]"),
)  # fmt: skip

MLP = (
    *(
        _mistake("10.8", f"act-{name}", f"the activation is {says}", ACT, f"{name}(")
        for name, says in {
            "GELU": "the exact form of GELU", "GELU_tanh": "the tanh form of GELU", "ReLU": "ReLU", "SiLU": "SiLU",
            "quick_gelu": "x sigmoid(1.702 x), the quick form of GELU",
        }.items()
    ),
    _mistake("10.8", "no-activation", "the activation is missing", ACT, "("),
    _mistake("10.8", "mlp-on-X", "the MLP reads X instead of its norm", "theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X_tilde", "theta.W_mlp2[l] @ ACTIVATION[c.activation](theta.W_mlp1[l] @ X"),
    _mistake("10.8", "gated-mlp-on-X", "the MLP reads X instead of its norm", "theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None]) * (theta.W_mlp3[l] @ X_tilde", "theta.W_mlp1[l] @ X + theta.b_mlp1[l][:, None]) * (theta.W_mlp3[l] @ X"),
    _mistake("10.8", "gate-up-swapped", "the gate W_mlp1 and W_mlp3 are swapped", "(ACTIVATION[c.activation](theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None]) * (theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None]))", "((theta.W_mlp1[l] @ X_tilde + theta.b_mlp1[l][:, None]) * ACTIVATION[c.activation](theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None]))"),
    _mistake("10.8", "no-gate", "the gate is missing", " * (theta.W_mlp3[l] @ X_tilde + theta.b_mlp3[l][:, None])", ""),
    _mistake("10.8", "no-b_mlp1", "the bias b_mlp1 is missing", "+ theta.b_mlp1[l][:, None]", "+ 0"),
    _mistake("10.8", "no-b_mlp2", "the bias b_mlp2 is missing", "+ theta.b_mlp2[l][:, None]", "+ 0"),
    _mistake("10.8", "b_mlp1-doubled", "the bias b_mlp1 is added twice", "+ theta.b_mlp1[l][:, None]", "+ 2 * theta.b_mlp1[l][:, None]"),
    _mistake("10.8", "b_mlp2-doubled", "the bias b_mlp2 is added twice", "+ theta.b_mlp2[l][:, None]", "+ 2 * theta.b_mlp2[l][:, None]"),
    _mistake("10.8", "residual-overwritten-8", "the MLP is added to the normed X, which overwrites the residual stream", "X + theta.W_mlp2", "X_tilde + theta.W_mlp2"),
    _mistake("10.8", "no-residual-8", "the residual connection around the MLP is missing", "X + theta.W_mlp2", "theta.W_mlp2"),
    _mistake("10.8", "no-mlp", "the MLP is left out", "X + theta.W_mlp2", "X if True else X + theta.W_mlp2"),
)  # fmt: skip

OUTPUT = (
    *_norm_line("10.10", "theta.gamma", "theta.beta"),
    _mistake("10.11", "W_u-untied", "the unembedding is not W_e transposed, as this model ties it", "W_u @ X", "W_u[::-1] @ X"),
    _mistake("10.11", "logits-scaled", "X is divided by sqrt(d_e) before the unembedding", "W_u @ X", "W_u @ (X / sqrt(len(X)))"),
    _mistake("10.11", "norm-after-final", "one more norm, without parameters, stands before the unembedding", "W_u @ X", "W_u @ columns((NORM[c.norm](X[:, t], 1, 0, c) for t in range(ell)))"),
    _mistake("10.11", "no-b_u", "the output bias b_u is missing", "+ theta.b_u[:, None]", "+ 0"),
    _mistake("10.11", "softmax-twice", "softmax is applied twice", "softmax(W_u @ X + theta.b_u[:, None])", "softmax(softmax(W_u @ X + theta.b_u[:, None]))"),
    _mistake("10.11", "logits-for-P", "these are logits, not probabilities (if that is meant: 10.11:W_u is the path of logits in dumps, and code declares OUTPUT = 'logits')", "softmax(W_u @ X + theta.b_u[:, None])", "W_u @ X + theta.b_u[:, None]"),
    _mistake("10.11", "softmax-over-tokens", "softmax normalises over the tokens instead of the vocabulary", "softmax(W_u @ X + theta.b_u[:, None])", "softmax((W_u @ X + theta.b_u[:, None]).T).T"),
)  # fmt: skip

#: Norms elsewhere: a whole model of another order of lines.  What stands after line 8 is written before what reads it.
ORDER = tuple(
    _mistake(
        "10.5", key, f"the norms stand after the residual sums (post-norm) and should stand before them (pre-norm){more}",
        _normed("theta.gamma_1[l], theta.beta_1[l]"), f"({_normed('theta.gamma_2[l - 1], theta.beta_2[l - 1]')} if l else X)",
        "10.6", "X + MHAttention", "X_tilde + MHAttention",
        "10.7", "theta.gamma_2[l], theta.beta_2[l]", "theta.gamma_1[l], theta.beta_1[l]",
        "10.8", "X + theta.W_mlp2", "X_tilde + theta.W_mlp2",
        "10.10", _normed("theta.gamma, theta.beta"), last,
    )
    for key, more, last in (
        ("post-norm", "; the final norm is missing", _normed("theta.gamma_2[c.L - 1], theta.beta_2[c.L - 1]")),
        ("post-norm-final", "", f"(lambda X: {_normed('theta.gamma, theta.beta')})({_normed('theta.gamma_2[c.L - 1], theta.beta_2[c.L - 1]')})"),
    )
)  # fmt: skip

#: Every known mistake of a decoder, in the order of the lines.
MISTAKES: tuple[Mistake, ...] = (
    *EMBEDDING, *BLOCK, *PROJECTIONS, *QUERIES_KEYS, *ROTATION, *SCORES, *NORM_FORMULA, *MLP, *OUTPUT,
)  # fmt: skip

BY_KEY = {mistake.key: mistake for mistake in (*MISTAKES, *ORDER)}

#: What a norm computes, in one of the lines of Algorithm 10 that have one: code may have a norm of its own in each.
NORMS = tuple(m.inside(line) for m in NORM_FORMULA for line in ("10.3a", "10.5", "10.6", "10.7", "10.10"))


@dataclass(frozen=True)
class Known:
    """The known mistakes of one algorithm, in the order of its lines.

    mistakes  each made wherever it can be
    alone     the same made in one line only: code may have a norm, say, of its own in each
    order     other orders of the lines
    """

    mistakes: tuple[Mistake, ...]
    alone: tuple[Mistake, ...]
    order: tuple[Mistake, ...]


#: Algorithm -> its known mistakes.
KNOWN = {"10": Known(MISTAKES, NORMS, ORDER)}


def is_whole(line: str) -> bool:
    """Whether a line is of an algorithm that is a whole model: "10.5", not "4.6"."""
    return line.partition(".")[0] in (*NUMBERS.values(), CLASSES)


def acts_at(mistake: Mistake, line: Line) -> bool:
    """Whether a mistake can change the value of a line of the outermost algorithm, computed from right inputs."""
    if mistake.within:
        return mistake.within == line.name
    return line.name in mistake.changes or any(n.partition(".")[0] in line.calls for n in mistake.changes)


#: What their expressions use beside the oracle's own names.
NAMES: dict[str, Any] = {name: value for name, value in vars(wrong).items() if callable(value)} | {"Full": Full}

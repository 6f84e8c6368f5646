"""The known mistakes of what all models call: Algorithms 4, 4r, 5, 6 and 6r, and the formulas of positions."""

from __future__ import annotations

from transformulary.conform.mistakes.mistake import Mistake, mistake, numbered

SCALED = "S / SCALE[c.scale](d_attn)"
HEAD, KV = "W_qkv(W, h, h // (H // H_kv))", "h // (H // H_kv)"
Q, K, V = (f"W_qkv.W_{q} @ {of} + W_qkv.b_{q}[:, None]" for q, of in zip("qkv", "XZZ", strict=True))
BY_GROUP, BY_REMAINDER = HEAD, "W_qkv(W, h, h % H_kv)"
#: Heads that are split without putting them before the tokens: what each head then has instead of its numbers.
UNSPLIT = (
    "5.1", HEAD, f"among_heads({HEAD}, W, h, {KV})",
    "4.1", Q, "unsplit(W_qkv, 'q', X)", "4.2", K, "unsplit(W_qkv, 'k', Z)", "4.3", V, "unsplit(W_qkv, 'v', Z)",
)  # fmt: skip

SCORES = (
    mistake("4.6", "no-scale", "scores are not divided by sqrt(d_attn)", SCALED, "S"),
    mistake("4.6", "scale-added", "scores are divided by sqrt(d_attn), and this model does not", SCALED, "S / sqrt(d_attn)"),
    mistake("4.6", "scale-no-root", "scores are divided by d_attn instead of its root", SCALED, "S / d_attn"),
    mistake("4.6", "scale-inverted", "scores are multiplied by sqrt(d_attn) instead of divided", SCALED, "S * sqrt(d_attn)"),
    mistake("4.6", "scale-of-d_e", "scores are divided by sqrt(d_e) instead of sqrt(d_attn)", SCALED, "S / sqrt(X.shape[0])"),
    mistake("4.6", "scale-d_e-no-root", "scores are divided by d_e instead of sqrt(d_attn)", SCALED, "S / X.shape[0]"),
    mistake("4.6", "softmax-over-queries", "softmax normalises over the queries instead of the keys", f"softmax({SCALED})", f"softmax(({SCALED}).T).T"),
    mistake("4.6", "no-softmax", "softmax is missing", f"softmax({SCALED})", f"where(Mask(t_z, t_x), {SCALED}, 0)"),
    mistake("4.6", "mask-after-softmax", "masked weights are set to 0 after softmax, so weights do not sum to 1", f"softmax({SCALED})", f"where(Mask(t_z, t_x), softmax({SCALED}), 0)", "4.5", "where(Mask(t_z, t_x), S, -inf)", "S"),
    mistake("4.5", "mask-zero", "masked scores become 0 instead of minus infinity", "-inf", "0"),
    *numbered("4.6", "scale-by", "scores are divided by NUMBER", SCALED, "S / NUMBER", numbers=(8,)),
    *numbered("4.5", "mask-finite", "masked scores become -NUMBER, which is not small enough", "-inf", "-NUMBER * SCALE[c.scale](d_attn)", numbers=(1, 5, 10, 20, 100,)),
    *numbered("4.5", "mask-unscaled", "masked scores become -NUMBER before they are divided by sqrt(d_attn), which is not small enough", "-inf", "-NUMBER", numbers=(10, 50,)),
    mistake("4.5", "mask-strict-finite", "the mask leaves out the token itself, and the first token attends to all alike", "where(Mask(t_z, t_x), S, -inf)", "where(Mask(t_z, t_x) & (t_z != t_x), S, -1e9)"),
    mistake("4.6", "mask-strict-nan", "the mask leaves out the token itself, so that the first token is no number", f"softmax({SCALED})", f"softmax_or_nan(where(Mask(t_z, t_x) & (t_z != t_x), {SCALED}, -inf))"),
    *numbered("4.5", "mask-added", "NUMBER is subtracted from masked scores, which is not enough", "-inf", "S - NUMBER * SCALE[c.scale](d_attn)", numbers=(10, 100, 10000)),
    *numbered("4.6", "scores-capped", "scores are capped softly, at NUMBER: NUMBER tanh(score / NUMBER)", SCALED, f"capped({SCALED}, NUMBER)", numbers=(50,)),
    mistake("4.6", "alibi", "a multiple of the distance is subtracted from the scores (ALiBi), which this model does not do", SCALED, f"{SCALED} - W_qkv.slope * abs(t_x - t_z)", "5.1", HEAD, f"sloped({HEAD}, 2 ** (-8 * (h + 1) / H))"),
    mistake("4.6", "softmax-plus-1", "1 is added to the sum below softmax, so weights do not sum to 1", f"softmax({SCALED})", f"softmax_plus_1({SCALED})"),
)  # fmt: skip

PROJECTIONS = (
    mistake("4.1", "q-k-swapped", "the projections of queries and keys are swapped", "W_qkv.W_q @ X + W_qkv.b_q", "W_qkv.W_k @ X + W_qkv.b_k", "4.2", "W_qkv.W_k @ Z + W_qkv.b_k", "W_qkv.W_q @ Z + W_qkv.b_q"),
    mistake("4.2", "k-v-swapped", "the projections of keys and values are swapped", "W_qkv.W_k @ Z + W_qkv.b_k", "alike(W_qkv).W_v @ Z + W_qkv.b_v", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_k @ Z + W_qkv.b_k"),
    mistake("4.1", "q-v-swapped", "the projections of queries and values are swapped", "W_qkv.W_q @ X + W_qkv.b_q", "alike(W_qkv).W_v @ X + W_qkv.b_v", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_q @ Z + W_qkv.b_q"),
    mistake("4.1", "order-kvq", "queries, keys and values are taken in the order K, V, Q", "W_qkv.W_q @ X + W_qkv.b_q", "alike(W_qkv).W_k @ X + W_qkv.b_k", "4.2", "W_qkv.W_k @ Z + W_qkv.b_k", "alike(W_qkv).W_v @ Z + W_qkv.b_v", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_q @ Z + W_qkv.b_q"),
    mistake("4.1", "order-vqk", "queries, keys and values are taken in the order V, Q, K", "W_qkv.W_q @ X + W_qkv.b_q", "alike(W_qkv).W_v @ X + W_qkv.b_v", "4.2", "W_qkv.W_k @ Z + W_qkv.b_k", "alike(W_qkv).W_q @ Z + W_qkv.b_q", "4.3", "W_qkv.W_v @ Z + W_qkv.b_v", "alike(W_qkv).W_k @ Z + W_qkv.b_k"),
    mistake("4.1", "b_q-doubled", "the bias b_q is added twice", "+ W_qkv.b_q[:, None]", "+ 2 * W_qkv.b_q[:, None]"),
    mistake("4.3", "b_v-doubled", "the bias b_v is added twice", "+ W_qkv.b_v[:, None]", "+ 2 * W_qkv.b_v[:, None]"),
    mistake("4.2", "no-b_k", "the bias b_k is missing", "+ W_qkv.b_k[:, None]", "+ 0"),
    mistake("4.1", "no-b_q", "the bias b_q is missing", "+ W_qkv.b_q[:, None]", "+ 0"),
    mistake("4.3", "no-b_v", "the bias b_v is missing", "+ W_qkv.b_v[:, None]", "+ 0"),
    mistake("5.1", "W_q-transposed", "the square matrix W_q is transposed", "W_qkv(W,", "W_qkv(transposed(W, 'W_q'),"),
    mistake("5.1", "W_k-transposed", "the square matrix W_k is transposed", "W_qkv(W,", "W_qkv(transposed(W, 'W_k'),"),
    mistake("5.1", "W_v-transposed", "the square matrix W_v is transposed", "W_qkv(W,", "W_qkv(transposed(W, 'W_v'),"),
    mistake("5.1", "all-transposed", "the square matrices W_q, W_k, W_v and W_o are all transposed", "W_qkv(W,", "W_qkv(transposed(transposed(transposed(W, 'W_q'), 'W_k'), 'W_v'),", "5.4", "W.W_o @ Y", "W.W_o.T @ fitting(Y, X)"),
    mistake("5.1", "heads-interleaved", "heads take every H-th row of the projections instead of a block of rows", "W_qkv(W,", "W_qkv(interleaved_heads(W),"),
    mistake("5.1", "heads-unsplit", "queries, keys and values are split into heads without putting the heads before the tokens", *UNSPLIT[1:]),
    mistake("5.1", "heads-unsplit-unmerged", "the heads are neither put before the tokens where they are split nor behind them where they are joined", *UNSPLIT[1:], "5.3", "rows(Y)", "unmerged(Y)"),
    mistake("5.1", "qkv-by-head", "the fused matrix of queries, keys and values is read head by head (of each group: queries, key, value), and these weights have all queries first, then all keys, then all values", "W_qkv(W,", "W_qkv(by_head(W),"),
    mistake("5.1", "qkv-by-kind", "the fused matrix of queries, keys and values is read as all queries, all keys, all values, and these weights lie head by head (of each group: queries, key, value)", "W_qkv(W,", "W_qkv(by_kind(W),"),
    mistake("5.1", "groups-by-remainder", "query head h uses key/value head h mod H_kv instead of its block's", "h // (H // H_kv)", "h % H_kv"),
    mistake("5.1", "keys-by-remainder", "query head h uses the keys of head h mod H_kv, and the values of its block's", HEAD, f"with_values({BY_REMAINDER}, {BY_GROUP})"),
    mistake("5.1", "values-by-remainder", "query head h uses the values of head h mod H_kv, and the keys of its block's", HEAD, f"with_values({BY_GROUP}, {BY_REMAINDER})"),
    mistake("5.1", "multi-query", "every query head uses the first key/value head", "h // (H // H_kv)", "0"),
    mistake("5.3", "heads-not-merged", "heads are not put behind the tokens before they are joined", "rows(Y)", "unmerged(Y)"),
    mistake("5.3", "heads-merged-interleaved", "heads are joined number by number instead of one below the other", "rows(Y)", "by_number(Y)"),
    mistake("5.3", "heads-reversed", "heads are joined in reverse order", "rows(Y)", "rows(Y[::-1])"),
    mistake("5.4", "W_o-transposed", "the square matrix W_o is transposed", "W.W_o @ Y", "W.W_o.T @ fitting(Y, X)"),
    mistake("5.4", "no-W_o", "the output projection W_o is missing", "W.W_o @ Y", "fitting(Y, X)"),
    mistake("5.4", "no-b_o", "the bias b_o is missing", "+ W.b_o[:, None]", "+ 0"),
    mistake("5.4", "b_o-doubled", "the bias b_o is added twice", "W.b_o[:, None]", "2 * W.b_o[:, None]"),
    mistake("5.4", "b_o-per-head", "the bias b_o is added once per head", "W.b_o[:, None]", "len(W.W_q) * W.b_o[:, None]"),
)  # fmt: skip


def _partly(Q: str, share: float) -> str:
    """A query or a key of which only the first numbers are rotated, with frequencies of so many."""
    first = f"part(d_attn, {share})"
    return f"stacked(rotate({Q}[:{first}, t], t, ell_z, c), {Q}[{first}:, t])"


#: What is wrong in both, queries and keys, stands before what is wrong in one of them.
ROTATION = (
    mistake("4r.4", "rope-missing", "neither queries nor keys are rotated", "stacked(a, b)", "q"),
    *numbered("4.3a", "rope-from", "positions of the rotation are counted NUMBER too high (the same for queries and keys: attention, which compares them, does not see it)", "rotate(Q[:, t], t,", "rotate(Q[:, t], t + NUMBER,", "4.3b", "rotate(K[:, t], t,", "rotate(K[:, t], t + NUMBER,", numbers=(1, 2)),
    mistake("4r.4", "rope-neighbours", "neighbouring numbers are rotated together, and these weights pair halves", "stacked(a, b)", "c.attention_factor * neighbours(q, omega, ell)"),
    mistake("4.3a", "rope-rows", "the rows of W_q and W_k are in the order for a rotation of neighbours, and halves are rotated", "rotate(Q[:, t],", "rotate(in_pairs(Q[:, t]),", "4.3b", "rotate(K[:, t],", "rotate(in_pairs(K[:, t]),"),
    *numbered("4r.1", "rope-base", "the base of the rotation is NUMBER", "c.base **", "NUMBER **", numbers=(10000, 500000, 1000000,), right="base"),
    *numbered("4r.1", "rope-slower", "positions of the rotation are divided by NUMBER", "c.base **", "1 / NUMBER * c.base **", numbers=(4,)),
    mistake("4r.1", "rope-exponent", "the exponent of the frequencies is i / d_attn instead of 2 i / d_attn", "(-2 * i / d_attn)", "(-i / d_attn)"),
    mistake("4r.1", "rope-d_e", "frequencies are spread over d_e instead of d_attn", "/ d_attn)", "/ c.d_e)"),
    mistake("4r.2", "rope-backwards", "the rotation goes the other way round", ") - q[", ") + q[", "4r.3", ") + q[", ") - q["),
    mistake("4r.2", "rope-cos-sin", "cosines and sines of the rotation are swapped", "cos(omega[i] * ell) - q[i + d_attn // 2] * sin(", "sin(omega[i] * ell) - q[i + d_attn // 2] * cos(", "4r.3", "cos(omega[i] * ell) + q[i] * sin(", "sin(omega[i] * ell) + q[i] * cos("),
    *(
        mistake("4.3a", f"rope-{of}", f"only the first {of} of the numbers of a head is rotated", "rotate(Q[:, t], t, ell_z, c)", _partly("Q", share), "4.3b", "rotate(K[:, t], t, ell_z, c)", _partly("K", share))
        for of, share in (("half", 1 / 2), ("quarter", 1 / 4))
    ),
    mistake("4.3a", "rope-not-on-q", "queries are not rotated", "rotate(Q[:, t], t, ell_z, c)", "Q[:, t]"),
    mistake("4.3b", "rope-not-on-k", "keys are not rotated", "rotate(K[:, t], t, ell_z, c)", "K[:, t]"),
    mistake("4.3a", "rope-q-from-1", "queries are rotated by one position more than keys", "rotate(Q[:, t], t, ell_z, c)", "rotate(Q[:, t], t + 1, ell_z, c)"),
    mistake("4.3", "rope-on-v", "values are rotated too", "W_qkv.W_v @ Z + W_qkv.b_v[:, None]", "columns((rotate((alike(W_qkv).W_v @ Z + W_qkv.b_v[:, None])[:, t], t, ell_z, c) for t in range(ell_z)))"),
)  # fmt: skip

Q_NORMED = "columns((NORM[c.norm](Q[:, t], W_qkv.gamma_q, W_qkv.beta_q, c) for t in range(ell_x)))"
K_NORMED = "columns((NORM[c.norm](K[:, t], W_qkv.gamma_k, W_qkv.beta_k, c) for t in range(ell_z)))"

QUERIES_KEYS = (
    mistake("4.1a", "no-q-norm", "the norm of the queries is missing", Q_NORMED, "Q"),
    mistake("4.2a", "no-k-norm", "the norm of the keys is missing", K_NORMED, "K"),
    mistake("4.1a", "q-k-norms-swapped", "the norms of queries and keys use each other's parameters", "W_qkv.gamma_q, W_qkv.beta_q", "W_qkv.gamma_k, W_qkv.beta_k", "4.2a", "W_qkv.gamma_k, W_qkv.beta_k", "W_qkv.gamma_q, W_qkv.beta_q"),
    mistake("4.1a", "qk-norm-after-rotation", "queries and keys are normed after their rotation, not before", Q_NORMED, "Q", "4.2a", K_NORMED, "K", "4.3a", "rotate(Q[:, t], t, ell_z, c)", "NORM[c.norm](rotate(Q[:, t], t, ell_z, c), W_qkv.gamma_q, W_qkv.beta_q, c)", "4.3b", "rotate(K[:, t], t, ell_z, c)", "NORM[c.norm](rotate(K[:, t], t, ell_z, c), W_qkv.gamma_k, W_qkv.beta_k, c)"),
)  # fmt: skip

NORM_FORMULA = (
    mistake("6.2", "sample-variance", "the variance divides by d_e - 1 instead of d_e", "/ d_e", "/ (d_e - 1)"),
    mistake("6.3", "eps-outside", "eps is added outside the root", "sqrt(v + c.eps)", "(sqrt(v) + c.eps)"),
    mistake("6.3", "no-eps", "eps is missing", "v + c.eps", "v"),
    mistake("6.3", "norm-of-half", "what the norm reads is rounded to float16", "(e - m)", "(half(e) - m)", "6.1", "e[i] / d_e for i in range(d_e)", "x / d_e for x in half(e)", "6.2", "(e[i] - m) ** 2 / d_e for i in range(d_e)", "(x - m) ** 2 / d_e for x in half(e)"),
    mistake("6.3", "norm-of-bfloat16", "what the norm reads is rounded to bfloat16", "(e - m)", "(bfloat16(e) - m)", "6.1", "e[i] / d_e for i in range(d_e)", "x / d_e for x in bfloat16(e)", "6.2", "(e[i] - m) ** 2 / d_e for i in range(d_e)", "(x - m) ** 2 / d_e for x in bfloat16(e)"),
    *numbered("6.3", "eps", "eps is NUMBER", "c.eps", "NUMBER", numbers=(1e-3, 1e-5, 1e-6, 1e-8, 1e-12,), right="eps"),
    mistake("6.3", "rms-for-layer-norm", "RMSnorm instead of layer norm: the mean is not removed", "(e - m) /", "e /", "6.2", "(e[i] - m) ** 2", "e[i] ** 2"),
    mistake("6.3", "mean-not-removed", "the mean is left in the numerator", "(e - m) /", "e /"),
    mistake("6.3", "no-gamma", "the scale gamma is missing", "* gamma", "* 1"),
    mistake("6.3", "gamma-plus-1", "the scale is 1 + gamma", "* gamma", "* (1 + gamma)"),
    mistake("6.3", "no-beta", "the offset beta is missing", "+ beta", "+ 0"),
    mistake("6.3", "beta-inside", "beta is added before gamma is multiplied with, not after it", "(e - m) / sqrt(v + c.eps) * gamma + beta", "((e - m) / sqrt(v + c.eps) + beta) * gamma"),
    mistake("6.3", "norm-in-half", "the norm is computed in half precision", "(e - m) / sqrt(v + c.eps)", "half(half(e - m) / half(sqrt(v + c.eps)))"),
    mistake("6r.3", "rms-eps-outside", "eps is added outside the root", "sqrt(v + c.eps)", "(sqrt(v) + c.eps)"),
    mistake("6r.3", "rms-no-eps", "eps is missing", "v + c.eps", "v"),
    mistake("6r.3", "rms-of-half", "what the norm reads is rounded to float16", "e /", "half(e) /", "6r.2", "e[i] ** 2 / d_e for i in range(d_e)", "x ** 2 / d_e for x in half(e)"),
    mistake("6r.3", "rms-of-bfloat16", "what the norm reads is rounded to bfloat16", "e /", "bfloat16(e) /", "6r.2", "e[i] ** 2 / d_e for i in range(d_e)", "x ** 2 / d_e for x in bfloat16(e)"),
    mistake("6r.2", "rms-mean-in-bfloat16", "the mean of the squares is computed in bfloat16", "sum((e[i] ** 2 / d_e for i in range(d_e)))", "bfloat16(sum(bfloat16(bfloat16(e) ** 2) / d_e))"),
    *numbered("6r.3", "rms-eps", "eps is NUMBER", "c.eps", "NUMBER", numbers=(1e-3, 1e-5, 1e-6, 1e-8, 1e-12,), right="eps"),
    mistake("6r.3", "rms-no-gamma", "the scale gamma is missing", "* gamma", "* 1"),
    mistake("6r.3", "rms-gamma-plus-1", "the scale is 1 + gamma", "* gamma", "* (1 + gamma)"),
    mistake("6r.3", "layer-norm-for-rms", "layer norm instead of RMSnorm: the mean is removed", "e / sqrt(v", "(e - sum(e) / d_e) / sqrt(v", "6r.2", "e[i] ** 2", "(e[i] - sum(e) / d_e) ** 2"),
    mistake("6r.2", "rms-sum", "the squares are summed instead of averaged (the L2 norm)", " / d_e", ""),
    mistake("6r.2", "rms-sample-variance", "the mean of the squares divides by d_e - 1 instead of d_e", "/ d_e", "/ (d_e - 1)"),
    mistake("6r.3", "rms-in-half", "the norm is computed in half precision", "e / sqrt(v + c.eps)", "half(half(e) / half(sqrt(v + c.eps)))"),
)  # fmt: skip

_HALVES, _PAIRS = ("2h.1", "2h.2"), ("2v.1", "2v.2")


def _sinusoids(first: str, second: str) -> tuple[Mistake, ...]:
    """Of the formula whose lines 1 and 2 these are."""
    own = first.partition(".")[0]
    return (
        mistake(first, f"{own}-exponent", "the exponent of 10000 is i / d_e instead of 2 i / d_e", "(2 * i / c.d_e)", "(i / c.d_e)", second, "(2 * i / c.d_e)", "(i / c.d_e)"),
        mistake(first, f"{own}-sin-cos", "sines and cosines are swapped", "sin(", "cos(", second, "cos(", "sin("),
        *numbered(first, f"{own}-base", "the base of the wavelengths is NUMBER instead of 10000", "10000 **", "NUMBER **", second, "10000 **", "NUMBER **", numbers=(100, 1000)),
    )  # fmt: skip


POSITIONS = (*_sinusoids(*_HALVES), *_sinusoids(*_PAIRS))

BUCKET = "bucket(t_z - t_x, Mask)"
BUCKETS = (
    mistake("4.4", "buckets-backwards", "the distance is counted the other way round, from the key to the query", BUCKET, BUCKET.replace("t_z - t_x", "t_x - t_z")),
    mistake("4.4", "no-buckets", "the bias of the distance is missing", f"+ W_qkv.B[{BUCKET}]", "+ 0"),
    mistake("4.4", "buckets-exact", "far distances share no buckets: each has its own, up to the last", BUCKET, BUCKET.replace("bucket(", "bucket_of(").replace("Mask)", "Mask, 10**9)")),
    *(
        mistake("4.4", f"buckets-up-to-{most}", f"distances are told apart up to {most}, and these weights are of buckets up to 128", BUCKET, BUCKET.replace("bucket(", "bucket_of(").replace("Mask)", f"Mask, {most})"))
        for most in (16, 20, 32, 64, 100, 127, 256, 512)
    ),
    mistake("4.4", "bucketed-scale-added", "scores are divided by sqrt(d_attn) before the bias is added, and this model does not", "K[:, t_z].T @ Q[:, t_x] + W_qkv.B", "K[:, t_z].T @ Q[:, t_x] / sqrt(d_attn) + W_qkv.B"),
    mistake("4.4", "bucketed-scale-no-root", "scores are divided by d_attn before the bias is added, and this model does not", "K[:, t_z].T @ Q[:, t_x] + W_qkv.B", "K[:, t_z].T @ Q[:, t_x] / d_attn + W_qkv.B"),
    mistake("4.4", "buckets-half", "there are half as many buckets", BUCKET, BUCKET.replace("bucket(", "bucket_of(").replace("Mask)", "Mask, 128, 16)")),
)  # fmt: skip

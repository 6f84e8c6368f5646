"""Mistakes that are made likewise in lines of several algorithms: templates, filled with the names of a line.

A place names what stands in its line: X, the stream; read, what attention or the MLP reads; ell; gamma and beta; of an
MLP the numbers of its matrices, one, two and gate; a call of MHAttention; what the softmax of the last line is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from transformulary.conform.mistakes.components import SCALED
from transformulary.conform.mistakes.mistake import Mistake, Where, at, mistake, numbered

POS = "POSITION[c.positions](t, theta.W_p, c)"
_POS = "POSITION[c.positions](t, {W_p}, c)"
SCALE = "SCALE[c.embedding_scale](c.d_e) *"
NORMED = "columns((NORM[c.norm]({X}[:, t], {gamma}, {beta}, c) for t in range({ell})))"
ACT = "ACTIVATION[c.activation]("


def place(line: str, **names: str) -> Where:
    """A line, "8.7", with what its templates call there."""
    return {"line": line, "label": line.partition(".")[2], **names}


def normed(k: str, X: str = "X", ell: str = "ell") -> str:
    """The norm of a stream with parameters whose names end so: "_1[l]"."""
    return NORMED.format(X=X, gamma=f"theta.gamma{k}", beta=f"theta.beta{k}", ell=ell)


def _filled(places: Iterable[Where], templates: Iterable[tuple[str, str, str, str]]) -> tuple[Mistake, ...]:
    places = list(places)
    return tuple(at(places, *template) for template in templates)


_EMBEDDING = (
    ("no-positions", "no positional embedding is added", _POS, "0"),
    ("positions-from-1", "positions are counted one too high", _POS, _POS.replace("t,", "embedded(t + 1, c),")),
    ("positions-from-2", "positions are counted two too high", _POS, _POS.replace("t,", "embedded(t + 2, c),")),
    ("positions-before", "positions are counted one too low, so the first token has the last position", _POS, _POS.replace("t,", "(t - 1) % c.ell_max,")),
    ("positions-right", "positions are aligned to the right: the last token has the last position", _POS, _POS.replace("t,", "c.ell_max - {ell} + t,")),
    ("positions-reversed", "positions are counted from the end: the last token has the first position", _POS, _POS.replace("t,", "{ell} - 1 - t,")),
    ("positions-doubled", "the positional embedding is added twice", _POS, "2 * " + _POS),
    ("position-stuck", "every token has the position of the first", _POS, _POS.replace("t,", "0,")),
    ("embedding-scaled", "the token embedding is multiplied by sqrt(d_e)", SCALE, "sqrt(c.d_e) *"),
    ("embedding-unscaled", "the token embedding is not multiplied by sqrt(d_e)", SCALE, "1 *"),
)  # fmt: skip


#: Those that only models were seen to make that scale their embeddings, or have formulas for positions.
_SCALED = (
    ("embedding-scaled-twice", "the token embedding is multiplied by sqrt(d_e) twice", SCALE, "c.d_e *"),
    ("positions-scaled", "positions are multiplied by sqrt(d_e) as well", _POS, "sqrt(c.d_e) * " + _POS),
    *(
        (f"positions-{kind}", f"positions are sinusoids {says}", _POS, f"as_sinusoid(POSITION, 'sinusoid{suffix}', t, {{W_p}}, c)")
        for kind, suffix, says in (
            ("interleaved", "_vaswani", "with sines and cosines in turn, from 0 (the original Transformer's)"),
            ("halves", "_halves", "with all sines before all cosines, from 0 (Marian's)"),
            ("t2t", "_t2t", "with wavelengths up to 10000 itself (Tensor2Tensor's)"),
            ("as-printed", "", "as the paper prints them, with the base ell_max"),
        )
    ),
)  # fmt: skip


def embedding(*places: Where, formulas: bool = True) -> tuple[Mistake, ...]:
    """Of lines that embed tokens; ell, W_p.  formulas: models of this kind have scales and sinusoids."""
    return _filled(places, (*_EMBEDDING, *(_SCALED if formulas else ())))


def normed_at(line: str, k: str, X: str = "X", ell: str = "ell") -> Where:
    """A line that norms a stream, with parameters whose names end so: "_1[l]"."""
    return place(line, X=X, ell=ell, gamma=f"theta.gamma{k}", beta=f"theta.beta{k}")


def norm(*places: Where, mark: str = "") -> tuple[Mistake, ...]:
    """Of lines that norm: a norm that is missing or of the wrong numbers; `mark`: "-{label}" if other lines norm too."""
    of = "({X}, {gamma}, {beta}, c)"
    return _filled(places, (
        ("no-norm" + mark, "the norm is missing", NORMED, "{X}"),
        ("whole-norm" + mark, "mean and variance are of all tokens together", NORMED, f"whole_norm{of}"),
        ("norm-over-tokens" + mark, "each coordinate is normalised over the tokens", NORMED, f"norm_over_tokens{of}"),
        ("norm-twice" + mark, "the norm is applied twice", "NORM[c.norm]({X}[:, t],", "NORM[c.norm](NORM[c.norm]({X}[:, t], {gamma}, {beta}, c),"),
    ))  # fmt: skip


def other_norms(lines: dict[str, str]) -> tuple[Mistake, ...]:
    """Norms of one layer that are taken for each other; line -> the number of its norm."""
    words = dict(zip("12345", ("first", "second", "third", "fourth", "fifth"), strict=True))

    def other(line: str, k: str, j: str) -> Mistake:
        says = f"the parameters of the {words[j]} norm are used"
        old, new = (f"theta.gamma_{i}[l], theta.beta_{i}[l]" for i in (k, j))
        return mistake(line, f"norm-{j}-for-{k}", says, old, new)

    return tuple(other(line, k, j) for line, k in lines.items() for j in lines.values() if j != k)


def attention(here: Where, pre: bool = True, mark: str = "") -> tuple[Mistake, ...]:
    """Of a line that attends; X, read, asked, call.  pre: it reads a norm of X; `mark`: "-{label}" if other lines do too."""
    return _filled([here], (
        ("no-residual-{label}", "the residual connection around attention is missing", "{X} + MHAttention", "MHAttention"),
        ("residual-twice-{label}", "what attention reads is added beside {X}", "{X} + MHAttention", "{X} + {read} + MHAttention"),
        ("no-attention" + mark, "the attention is left out", "{call}", "0 * {X}"),
        *((
            ("residual-overwritten-{label}", "attention is added to the normed {X}, which overwrites the residual stream", "{X} + MHAttention", "{read} + MHAttention"),
            ("attention-on-X" + mark, "attention reads {X} instead of its norm", "MHAttention({read}, {asked},", "MHAttention({X}, {unnormed},"),
        ) if pre else ()),
    ))  # fmt: skip


def residual(line: str, adds: str, what: str, X: str = "X") -> tuple[Mistake, ...]:
    """Of a line that adds to X what begins so, the output of attention or an MLP: other weights of the sum."""
    label, old = line.partition(".")[2], f"{X} + {adds}"

    def of(a: str, b: str) -> tuple[str, str]:
        return old, f"weighted({X}, {a}, {b}) | {adds}"

    return (
        mistake(line, f"residual-minus-{label}", f"{what} is subtracted from {X}, not added", *of("1", "-1")),
        mistake(line, f"residual-root-2-{label}", f"the sum of {X} and {what} is divided by sqrt(2)", *of("0.5 ** 0.5", "0.5 ** 0.5")),
        *numbered(line, f"residual-by-{label}", f"{what} is multiplied by NUMBER before it is added to {X}", *of("1", "NUMBER"), numbers=(0.5,)),
    )  # fmt: skip


_MASKS = (
    ("no-mask", "there is no causal mask", "Full()", True),
    ("mask-transposed", "the mask is transposed: tokens look at later ones", "turned(Mask)", False),
    ("mask-strict", "the mask leaves out the token itself", "strict(Mask)", False),
    ("mask-ahead", "the mask lets a token see one token ahead", "ahead(Mask)", False),
    ("window-wider", "the window is one token too wide", "wider(Mask, 1)", False),
    ("window-narrower", "the window is one token too narrow", "wider(Mask, -1)", False),
)
_INVERTED = "the mask is inverted: tokens see what they may not, and the last one, which then has nobody,"


def causal_mask(line: str, within: bool = False) -> tuple[Mistake, ...]:
    """Another mask than the causal one of a line, put into Algorithm 4, so that a head alone shows it too.

    within: other lines attend too, with masks of their own; buckets of distances know what the line's own mask is.
    """

    def of(key: str, says: str, mask: str, *changes: str) -> Mistake:
        if within:
            found = mistake("4.5", key, says, "Mask(t_z, t_x)", f"({mask})(t_z, t_x)", *changes)
            return replace(found, line=line, within=line)
        return replace(mistake("4", key, says, "Mask", mask, *changes), line=line)

    some = (m for m in _MASKS if not (within and m[0].startswith("window")))
    plain = tuple(
        of(key, says, mask, *(("4.5", "where(Mask(t_z, t_x), S, -inf)", "S") if whole and not within else ()))
        for key, says, mask, whole in some
    )
    nan = ("4.6", f"softmax({SCALED})", f"softmax_or_nan({SCALED})")
    if within:
        inf = mistake(
            "4.5",
            "mask-inverted",
            f"{_INVERTED} sees all alike",
            "where(Mask(t_z, t_x), S, -inf)",
            "where(inverted(Mask)(t_z, t_x), S, -1e9)",
        )
        return (*plain, replace(inf, line=line, within=line), of("mask-inverted-nan", f"{_INVERTED} is no number", "inverted(Mask)", *nan))  # fmt: skip
    return (
        *plain[:4],
        of("mask-inverted", f"{_INVERTED} sees all alike", "inverted(Mask)", "4.5", "-inf", "-1e9"),
        of("mask-inverted-nan", f"{_INVERTED} is no number", "inverted(Mask)", *nan),
        *plain[4:],
    )


_ACTIVATIONS = (
    ("act-GELU", "the activation is the exact form of GELU", ACT, "GELU("),
    ("act-GELU_tanh", "the activation is the tanh form of GELU", ACT, "GELU_tanh("),
    ("act-ReLU", "the activation is ReLU", ACT, "ReLU("),
    ("act-SiLU", "the activation is SiLU", ACT, "SiLU("),
    ("act-ReLU2", "the activation is the square of ReLU", ACT, "ReLU2("),
    ("act-leaky_ReLU", "the activation is the leaky ReLU, 0.01 x below 0", ACT, "leaky_ReLU("),
    ("act-quick_gelu", "the activation is x sigmoid(1.702 x), the quick form of GELU", ACT, "quick_gelu("),
    ("no-activation", "the activation is missing", ACT, "("),
)
_FIRST, _GATE = "theta.W_{one}[l] @ {read} + theta.b_{one}[l][:, None]", "theta.W_{gate}[l] @ {read} + theta.b_{gate}[l][:, None]"  # fmt: skip
_MLP_PRE = (
    ("mlp-on-X", "the MLP reads {X} instead of its norm", "theta.W_{two}[l] @ ACTIVATION[c.activation](theta.W_{one}[l] @ {read}", "theta.W_{two}[l] @ ACTIVATION[c.activation](theta.W_{one}[l] @ {X}"),
    ("gated-mlp-on-X", "the MLP reads {X} instead of its norm", f"{_FIRST}) * (theta.W_{{gate}}[l] @ {{read}}", "theta.W_{one}[l] @ {X} + theta.b_{one}[l][:, None]) * (theta.W_{gate}[l] @ {X}"),
)  # fmt: skip
_PLAIN, _B2 = f"{ACT}{_FIRST})", " + theta.b_{two}[l][:, None]"
_MLP = (
    ("act-after", "the activation stands behind W_{two}, not before it", f"theta.W_{{two}}[l] @ {_PLAIN}{_B2}", f"{ACT}theta.W_{{two}}[l] @ ({_FIRST}){_B2})"),
    ("act-twice", "the activation stands behind W_{two} too", f"theta.W_{{two}}[l] @ {_PLAIN}{_B2}", f"{ACT}theta.W_{{two}}[l] @ {_PLAIN}{_B2})"),
    ("gate-up-swapped", "the gate W_{one} and W_{gate} are swapped", f"({ACT}{_FIRST}) * ({_GATE}))", f"(({_FIRST}) * {ACT}{_GATE}))"),
    ("no-gate", "the gate is missing", f" * ({_GATE})", ""),
    ("no-b_mlp1", "the bias b_{one} is missing", "+ theta.b_{one}[l][:, None]", "+ 0"),
    ("no-b_mlp2", "the bias b_{two} is missing", "+ theta.b_{two}[l][:, None]", "+ 0"),
    ("b_mlp1-doubled", "the bias b_{one} is added twice", "+ theta.b_{one}[l][:, None]", "+ 2 * theta.b_{one}[l][:, None]"),
    ("b_mlp2-doubled", "the bias b_{two} is added twice", "+ theta.b_{two}[l][:, None]", "+ 2 * theta.b_{two}[l][:, None]"),
)  # fmt: skip
_OVERWRITTEN = (("residual-overwritten-{label}", "the MLP is added to the normed {X}, which overwrites the residual stream", "{X} + theta.W_{two}", "{read} + theta.W_{two}"),)  # fmt: skip
_SUM = (
    (
        "residual-twice-{label}",
        "what the MLP reads is added beside {X}",
        "{X} + theta.W_{two}",
        "{X} + {read} + theta.W_{two}",
    ),
    (
        "no-residual-{label}",
        "the residual connection around the MLP is missing",
        "{X} + theta.W_{two}",
        "theta.W_{two}",
    ),
    ("no-mlp", "the MLP is left out", "{X} + theta.W_{two}", "{X} if True else {X} + theta.W_{two}"),
)


def activation(*places: Where) -> tuple[Mistake, ...]:
    """Of lines with an activation."""
    return _filled(places, _ACTIVATIONS)


def mlp(*places: Where, pre: bool = True) -> tuple[Mistake, ...]:
    """Of lines with an MLP, beside its activation; X, read, one, two, gate.  pre: it reads a norm of X."""
    return _filled(places, (*(_MLP_PRE if pre else ()), *_MLP, *(_OVERWRITTEN if pre else ()), *_SUM))


def output(line: str, logits: str = "W_u @ X", ell: str = "ell") -> tuple[Mistake, ...]:
    """Of the last line: a softmax of `logits` and a bias."""
    of, right = "{logits} + theta.b_u[:, None]", f"{logits} + theta.b_u[:, None]"
    numbers = (
        *numbered(line, "logits-divided", "the logits are divided by NUMBER (a temperature)", right, f"({right}) / NUMBER", numbers=(2,)),
        *numbered(line, "logits-capped", "the logits are capped softly, at NUMBER: NUMBER tanh(logit / NUMBER)", right, f"capped({right}, NUMBER)", numbers=(30,)),
    )  # fmt: skip
    return numbers + _filled([place(line, logits=logits, ell=ell)], (
        ("W_u-tied", "the unembedding is W_e transposed, and this model has a W_u of its own", "W_u @ X", "not_tied(theta.W_e, c).T @ X"),
        ("logits-scaled", "X is divided by sqrt(d_e) before the unembedding", "{logits}", "W_u @ (X / sqrt(len(X)))"),
        ("norm-after-final", "one more norm, without parameters, stands before the unembedding", "W_u @ X", "W_u @ columns((NORM[c.norm](X[:, t], 1, 0, c) for t in range({ell})))"),
        ("no-b_u", "the output bias b_u is missing", "+ theta.b_u[:, None]", "+ 0"),
        ("softmax-twice", "softmax is applied twice", f"softmax({of})", f"softmax(softmax({of}))"),
        ("logits-for-P", "these are logits, not probabilities (if that is meant: {line}:logits is the path of logits in dumps, and code declares OUTPUT = 'logits')", f"softmax({of})", of),
        ("softmax-over-tokens", "softmax normalises over the tokens instead of the vocabulary", f"softmax({of})", f"softmax(({of}).T).T"),
    ))  # fmt: skip

"""The known mistakes of encoder-decoders: Algorithm 8, whose layers end with norms, and 8a, whose begin with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from transformulary.conform.mistakes.components import (
    BUCKETS,
    NORM_FORMULA,
    POSITIONS,
    PROJECTIONS,
    QUERIES_KEYS,
    SCORES,
)
from transformulary.conform.mistakes.mistake import Mistake, Where, mistake
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
)

X, Z = {"X": "X", "ell": "ell_x"}, {"X": "Z", "ell": "ell_z"}

#: Ids that specials have: the first few, or the last, as Marian's padding.
OTHER_STARTS = (
    *((str(v), f"id {v}", f"min({v}, c.N_V - 1)") for v in range(4)),
    ("last", "the last id of the vocabulary", "c.N_V - 1"),
)


@dataclass(frozen=True)
class Form:
    """Where the parts of Algorithm 8 or 8a stand.

    embeds        the lines that embed z and x
    norms         the lines of the norms of a layer -> their numbers, of the encoder and of the decoder
    ends          further norms: line -> (the ending of gamma and beta, the stream)
    attends       self-attention of the encoder, of the decoder, and cross-attention
    reads         what those read, of Z and of X
    bundles       their parameters
    mlps          the lines of the MLPs
    last, logits  the last line, and what its softmax is given beside the bias
    gives         the line that has the encoder's embeddings, and the one that ends its layers
    """

    embeds: tuple[str, str]
    norms: tuple[Mapping[str, str], Mapping[str, str]]
    ends: Mapping[str, tuple[str, dict[str, str]]]
    attends: tuple[str, str, str]
    reads: tuple[str, str]
    bundles: tuple[str, str]
    mlps: tuple[str, str]
    last: str
    logits: str
    gives: tuple[str, str]

    @property
    def pre(self) -> bool:
        """Whether norms stand before the parts of a layer."""
        return self.reads != ("Z", "X")

    @property
    def in_mlp(self) -> tuple[Where, Where]:
        return (
            place(self.mlps[0], **Z, read=self.reads[0], one="mlp1", two="mlp2", gate="mlp5"),
            place(self.mlps[1], **X, read=self.reads[1], one="mlp3", two="mlp4", gate="mlp6"),
        )

    def mistakes(self) -> tuple[Mistake, ...]:
        """In the order of the lines; what all models call comes where the first of the lines stands that call it."""
        encoder, decoder, cross = self.attends
        of_z, of_x = self.reads
        calls = (
            place(encoder, **Z, read=of_z, asked=of_z, unnormed="Z", call=f"MHAttention({of_z}, {of_z}, {self.bundles[0]}, Full(), c)"),
            place(decoder, **X, read=of_x, asked=of_x, unnormed="X", call=f"MHAttention({of_x}, {of_x}, {self.bundles[1]}, Causal(), c)"),
            place(cross, **X, read=of_x, asked="Z", unnormed="Z", call=f"MHAttention({of_x}, Z, theta.W_ed[l], Full(), c)"),
        )  # fmt: skip
        return (
            *embedding(*self.embedding()),
            *self.tokens(),
            *(m for where in calls for m in attention(where, self.pre, "-{label}")),
            _causal(encoder, "causal-in-encoder", "there is a causal mask, and every token of an encoder sees all"),
            *causal_mask(decoder, within=True),
            *self.crossing(),
            *PROJECTIONS, *QUERIES_KEYS, *SCORES, *BUCKETS, *POSITIONS,
            *(m for line, k in self._norms() for m in norm(normed_at(line, f"_{k}[l]", **(Z if k in "12" else X)), mark="-{label}")),
            *(m for line, (k, stream) in self.ends.items() for m in norm(normed_at(line, f"_{k}", **stream), mark="-{label}")),
            *(m for lines in self.norms for m in other_norms(dict(lines))),
            *NORM_FORMULA,
            *activation(*self.in_mlp), *mlp(*self.in_mlp, pre=self.pre),
            *output(self.last, self.logits, "ell_x"),
        )  # fmt: skip

    def alone(self) -> tuple[Mistake, ...]:
        """What embeddings, attention, norms and MLPs compute, in one line alone: code may have one of its own in each."""
        normed = (*(line for line, _ in self._norms()), *self.ends)
        return (
            *(m for where in self.embedding() for m in embedding(where)),
            *(m.inside(line) for line in self.embeds for m in POSITIONS),
            *(m.inside(line) for m in (*PROJECTIONS, *QUERIES_KEYS, *SCORES, *BUCKETS) for line in self.attends),
            *(m.inside(line) for m in NORM_FORMULA for line in normed),
            *(m for where in self.in_mlp for m in (*activation(where), *mlp(where, pre=self.pre))),
        )

    def embedding(self) -> tuple[Where, Where]:
        return place(self.embeds[0], ell="ell_z", W_p="W_p"), place(self.embeds[1], ell="ell_x", W_p="theta.W_p")

    def _norms(self) -> list[tuple[str, str]]:
        return [pair for lines in self.norms for pair in lines.items()]

    def tokens(self) -> tuple[Mistake, ...]:
        """What the decoder is given to read."""
        line, W_e = self.embeds[1], "theta.W_e[:, x[t]]"
        return (
            mistake(line, "x-shifted", "x is shifted once more: a token reads the one before it, and the first token itself", W_e, "theta.W_e[:, x[max(t - 1, 0)]]"),
            mistake(line, "no-start", "x is read without its start token: a token reads the one after it, and the last token itself", W_e, "theta.W_e[:, x[min(t + 1, ell_x - 1)]]"),
            *(mistake(line, f"start-{name}", f"the first token of x is taken to be {says}: another start token", W_e, f"theta.W_e[:, x[t] if t else {v}]") for name, says, v in OTHER_STARTS),
            mistake(line, "start-zero", "the first token is embedded as 0", "SCALE[c.embedding_scale](c.d_e) *", "SCALE[c.embedding_scale](c.d_e) * (t > 0) *"),
            mistake(line, "positions-after-z", "positions of x are counted on after those of z", "POSITION[c.positions](t,", "POSITION[c.positions](embedded(ell_z + t, c),"),
        )  # fmt: skip

    def crossing(self) -> tuple[Mistake, ...]:
        """Cross-attention that reads the wrong memory, or has the wrong weights."""
        _, decoder, cross = self.attends
        of_x = self.reads[1]
        asks, own = f"MHAttention({of_x}, Z,", self.bundles[1]
        shared = (
            "(sharing(theta.W_ed[l], theta.B_dec) if c.positions == 'bucketed' else theta.W_ed[l])"
            if self.pre
            else "theta.W_ed[l]"
        )
        return (
            *(mistake(cross, f"memory-{key}", f"cross-attention reads {says}", asks, asks.replace("Z,", f"{memory},")) for key, says, memory in self.memories()),
            mistake(cross, "memory-own", "cross-attention reads the decoder's own X, not Z", asks, asks.replace("Z,", f"{of_x},")),
            mistake(cross, "cross-shares-weights", "cross-attention has the parameters of self-attention", "theta.W_ed[l]", "theta.W_dec[l]"),
            mistake(cross, "cross-first-layer", "cross-attention has the parameters of the first layer's", "theta.W_ed[l]", "theta.W_ed[0]"),
            _causal(cross, "causal-in-cross", "cross-attention has a causal mask"),
            mistake(decoder, "self-shares-weights", "self-attention has the parameters of cross-attention", f", {own},", f", {shared},"),
        )  # fmt: skip

    def memories(self) -> tuple[tuple[str, str, str], ...]:
        """What else of the encoder could be read: the end of a name, a sentence, and where that is in this run."""
        embedded, layers = self.gives
        of_all, of_others = (f"_watch.before(f'{layers}[l={{c.L_enc{less}}}]')" for less in ("", " - 1"))
        final = normed("_enc", "Z", "ell_z")
        return (
            ("embeddings", "the encoder's embeddings, not what its layers give", f"_watch.before('{embedded}a', '{embedded}')"),
            ("unfinished", "what the encoder has before its last layer", of_others),
            *((
                ("unfinished-normed", "what the encoder has before its last layer, with the final norm", f"(lambda Z: {final})({of_others})"),
                ("unnormed", "what the encoder's layers give, without the final norm", of_all),
            ) if self.pre else ()),
        )  # fmt: skip


EIGHT = Form(
    embeds=("8.2", "8.11"),
    norms=({"8.6": "1", "8.8": "2"}, {"8.15": "3", "8.17": "4", "8.19": "5"}),
    ends={"8.3a": ("z", Z), "8.12a": ("x", X)},
    attends=("8.5", "8.14", "8.16"), reads=("Z", "X"), bundles=("theta.W_enc[l]", "theta.W_dec[l]"),
    mlps=("8.7", "8.18"), last="8.21", logits="W_u @ X", gives=("8.3", "8.8"),
)  # fmt: skip
PRE = Form(
    embeds=("8a.2", "8a.12"),
    norms=({"8a.5": "1", "8a.7": "2"}, {"8a.15": "3", "8a.17": "4", "8a.19": "5"}),
    ends={"8a.3a": ("z", Z), "8a.13a": ("x", X), "8a.10": ("enc", Z), "8a.22": ("dec", X)},
    attends=("8a.6", "8a.16", "8a.18"), reads=("Z_tilde", "X_tilde"), bundles=("W", "W"),
    mlps=("8a.8", "8a.20"), last="8a.23", logits="W_u @ X / SCALE[c.unembedding_scale](c.d_e)", gives=("8a.3", "8a.8"),
)  # fmt: skip
#: The lines whose values a run keeps for those mistakes: embeddings, their norms, and what layers give.
KEPT = frozenset(line for form in (EIGHT, PRE) for line in (*form.gives, form.gives[0] + "a"))


#: Both stacks, or one: the end of a name, what a sentence calls them, and their norms.
_STACKS = (("", "", "12345"), ("-encoder", " of the encoder", "12"), ("-decoder", " of the decoder", "345"))


def _in_stacks(key: str, says: str, changes: Mapping[str, tuple[tuple[str, str, str], ...]]) -> tuple[Mistake, ...]:
    """Another order of the lines, in both stacks and in each; changes: "12", "345" -> (line, old, new), ..."""

    def of(end: str, whose: str, norms: str) -> Mistake:
        of_stacks = [change for stack, some in changes.items() if stack in norms for change in some]
        (line, *first), *rest = of_stacks
        return mistake(line, key + end, says.format(whose=whose), *first, *(text for change in rest for text in change))

    return tuple(of(*stack) for stack in _STACKS)


def _norms(index: str = "[l]") -> dict[str, str]:
    """The norms of a layer by their numbers."""
    return {k: normed(f"_{k}{index}", *(("Z", "ell_z") if k in "12" else ("X", "ell_x"))) for k in "12345"}


def _pre_norm() -> tuple[Mistake, ...]:
    """Algorithm 8 with norms before the parts of its layers."""
    n = _norms()
    return _in_stacks(
        "pre-norm",
        "the norms{whose} stand before attention and MLP (pre-norm) and should stand after the residual sums (post-norm)",
        {
            "12": (
                ("8.5", "MHAttention(Z, Z,", f"MHAttention({n['1']}, {n['1']},"),
                ("8.6", n["1"], "Z"),
                ("8.7", "theta.W_mlp1[l] @ Z", f"theta.W_mlp1[l] @ {n['2']}"),
                ("8.8", n["2"], "Z"),
            ),
            "345": (
                ("8.14", "MHAttention(X, X,", f"MHAttention({n['3']}, {n['3']},"),
                ("8.15", n["3"], "X"),
                ("8.16", "MHAttention(X, Z,", f"MHAttention({n['4']}, Z,"),
                ("8.17", n["4"], "X"),
                ("8.18", "theta.W_mlp3[l] @ X", f"theta.W_mlp3[l] @ {n['5']}"),
                ("8.19", n["5"], "X"),
            ),
        },
    )


def _post_norm(key: str, more: str, final: bool) -> tuple[Mistake, ...]:
    """Algorithm 8a with norms after the residual sums.  What stands after a layer is written before what reads it."""
    n, before = _norms(), _norms("[l - 1]")
    after = {"2": _norms("[c.L_enc - 1]")["2"], "5": _norms("[c.L_dec - 1]")["5"]}
    enc, dec = normed("_enc", "Z", "ell_z"), normed("_dec", "X", "ell_x")

    def last(norm: str, of: str, X: str) -> str:
        return f"(lambda {X}: {norm})({of})" if final else of

    def other(line: str, k: int) -> tuple[str, str, str]:
        return line, f"theta.gamma_{k}[l], theta.beta_{k}[l]", f"theta.gamma_{k - 1}[l], theta.beta_{k - 1}[l]"

    return _in_stacks(
        key,
        f"the norms{{whose}} stand after the residual sums (post-norm) and should stand before them (pre-norm){more}",
        {
            "12": (
                ("8a.5", n["1"], f"({before['2']} if l else Z)"),
                ("8a.6", "Z + MHAttention", "Z_tilde + MHAttention"),
                other("8a.7", 2),
                ("8a.8", "Z + theta.W_mlp2", "Z_tilde + theta.W_mlp2"),
                ("8a.10", enc, last(enc, after["2"], "Z")),
            ),
            "345": (
                ("8a.15", n["3"], f"({before['5']} if l else X)"),
                ("8a.16", "X + MHAttention", "X_tilde + MHAttention"),
                other("8a.17", 4),
                ("8a.18", "X + MHAttention", "X_tilde + MHAttention"),
                other("8a.19", 5),
                ("8a.20", "X + theta.W_mlp4", "X_tilde + theta.W_mlp4"),
                ("8a.22", dec, last(dec, after["5"], "X")),
            ),
        },
    )


def _causal(line: str, key: str, says: str) -> Mistake:
    """A causal mask in a line whose mask is full; what buckets know of its mask stays."""
    return replace(mistake("4.5", key, says, "Mask(t_z, t_x)", "Causal()(t_z, t_x)"), line=line, within=line)


def _of_buckets(line: str, key: str, says: str, mask: str) -> Mistake:
    found = mistake("4.4", key, says, "t_z - t_x, Mask", f"t_z - t_x, {mask}")
    return replace(found, line=line, within=line)


def _crossed(key: str, how: str, mask: str) -> Mistake:
    found = mistake(
        "8a.18", key, f"cross-attention has a bias of the distance too, {how}", "theta.W_ed[l]",
        "sharing(theta.W_ed[l], only_bucketed(c) and theta.B_dec)", "4.4", "t_z - t_x, Mask", f"t_z - t_x, {mask}",
    )  # fmt: skip
    return replace(found, within="8a.18")


#: Of T5: its buckets, which the layers of a stack share, and the last scale.
SHARED = (
    _of_buckets("8a.6", "buckets-one-way", "distances to later tokens all have one bucket, and an encoder has buckets for both ways", "Causal()"),
    _of_buckets("8a.16", "buckets-both-ways", "half of the buckets are kept for later tokens, which a decoder does not see", "Full()"),
    mistake("8a.6", "buckets-first-layer", "the bias of the distance is in the first layer only, and all layers share it", ", W,", ", (W if l == 0 else theta.W_enc[l]),"),
    mistake("8a.16", "buckets-first-layer-16", "the bias of the distance is in the first layer only, and all layers share it", ", W,", ", (W if l == 0 else theta.W_dec[l]),"),
    mistake("8a.6", "buckets-of-decoder", "the encoder has the decoder's bias of the distance", ", W,", ", sharing(theta.W_enc[l], only_bucketed(c) and theta.B_dec),"),
    mistake("8a.16", "buckets-of-encoder", "the decoder has the encoder's bias of the distance", ", W,", ", sharing(theta.W_dec[l], only_bucketed(c) and theta.B_enc),"),
    _crossed("buckets-in-cross", "with buckets for one way", "Causal()"),
    _crossed("buckets-in-cross-both-ways", "with buckets for both ways", "Full()"),
    mistake("8a.23", "no-last-scale", "X is not divided by sqrt(d_e) before the unembedding, as in tied models", "/ SCALE[c.unembedding_scale](c.d_e)", "/ 1"),
)  # fmt: skip

MISTAKES_8, ALONE_8, ORDER_8 = EIGHT.mistakes(), EIGHT.alone(), _pre_norm()
MISTAKES_8A, ALONE_8A = (*PRE.mistakes(), *SHARED), PRE.alone()
ORDER_8A = (
    *_post_norm("post-norm", "; the final norms are missing", False),
    *_post_norm("post-norm-final", "", True),
)

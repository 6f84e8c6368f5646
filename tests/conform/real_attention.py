"""Mistakes that were really made in line 6 of Algorithm 10: see `real_mistakes`."""

import math
from dataclasses import replace

import torch
import torch.nn.functional as F

from conform.ordinary import LLAMA
from conform.real import CHUNK, attention, real, softmax_with


def scores(attn, q, k):
    """Scaled and masked, as `attn` would take the softmax of them."""
    return (q @ k.transpose(-2, -1) / math.sqrt(attn.d)).masked_fill(~attn.mask(q.shape[2]), -torch.inf)


def rotates_by(attn, angles, kept=lambda table: table):
    """`attn` rotates by angles(t, frequency), from tables of cosines and sines that are `kept` in some form."""
    frequency = attn.s.base ** (-torch.arange(0, attn.d, 2, dtype=torch.float64) / attn.d)

    def rope(y, offset=0):
        angle = angles(torch.arange(y.shape[2])[:, None], frequency).double()
        cos, sin = kept(angle.cos()), kept(angle.sin())
        a, b = y.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    attn.rope = rope


# Line 6: rotation.


@real(
    "angles-in-half", "positions, frequencies and angles of the rotation are in half precision",
    "EleutherAI/gpt-neox/issues/1003", "6", "layer 2",
    "tokens 2-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    rotates_by(attention(model), lambda t, frequency: t.half() * frequency.half())


@real(
    "tables-in-bfloat16", "the tables of cosines and sines are kept in bfloat16",
    "KellerJordan/modded-nanogpt/issues/39", "6", "layer 2",
    "tokens 2-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    rotates_by(attention(model), lambda t, frequency: t * frequency, lambda table: table.bfloat16().double())


@real(
    "positions-restart", "positions start again in every piece of a prompt that is read in pieces",
    "huggingface/transformers/issues/43082", "6", "layer 2",
    "tokens 9-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    rotates_by(attention(model), lambda t, frequency: t % CHUNK * frequency)


@real(
    "scaling-ignored", "the configuration's llama3 scaling of frequencies is read and not used",
    "lablup/mlxcel/issues/1355", "6", "every layer",
    "tokens 2-12 of 12 differ", sizes=LLAMA,
    right={"frequencies": "llama3", "factor": 8.0, "beta_slow": 1.0, "beta_fast": 4.0, "ell_train": 20},
)  # fmt: skip
def _(model):
    pass  # the ordinary Llama knows no scaling


@real(
    "keys-permuted", "rows of W_k are reordered for the other rotation with a wrong number of heads",
    "ggml-org/llama.cpp/pull/3364", "6", "layer 2",
    "tokens 2-12 of 12 differ", sizes=replace(LLAMA, heads=6, kv_heads=3),
)  # fmt: skip
def _(model):
    attn = attention(model)
    W, H, H_kv = attn.k.weight.data, attn.s.heads, attn.s.kv_heads

    def permuted(rows, heads):
        return rows.view(heads, 2, -1).transpose(1, 2).reshape(-1)

    order = torch.arange(len(W))
    right, wrong = permuted(order, H_kv), permuted(order, H // H_kv)
    attn.k.weight.data = W[wrong[right.argsort()]]


# Line 6: projections and heads.


@real(
    "output-by-group", "columns of W_o are read with the head within its group before the group",
    "nntile/nntile/pull/347", "6", "layer 2",
    "heads 1, 3, 2, 4 stand in place of 1 to 4", sizes=LLAMA,
)  # fmt: skip
def _(model):
    attn, W = attention(model), attention(model).o.weight
    heads = W.data.view(len(W), attn.s.kv_heads, -1, attn.d)
    W.data = heads.transpose(1, 2).reshape(W.shape)


@real(
    "another-layers-queries", "a stage of a pipeline loads the weights of queries by the layer's number within it",
    "tenstorrent/tt-metal/issues/54884", "6", "layer 3",
    "tokens 2-12 of 12 differ",
)  # fmt: skip
def _(model):
    attention(model, 3).q.load_state_dict(attention(model, 1).q.state_dict())


@real(
    "adapter-scale", "a low-rank adapter is merged with the scale of another convention",
    "paiml/aprender/pull/2189", "6", "layer 2",
    "all rows and tokens differ",
)  # fmt: skip
def _(model):
    W, rank = attention(model).v.weight.data, 2
    adapter = 0.1 * torch.outer(W[:, 0], W[0]) + 0.1 * torch.outer(W[:, 1], W[1])
    W -= (math.sqrt(rank) - 1) * adapter  # W holds the adapter, as it should, times alpha / sqrt(rank)


# Line 6: masks.


@real(
    "window-overflows", "a piece of a prompt overwrites keys that its first tokens still have in their window",
    "pytorch/executorch/pull/20346", "6", "layer 2",
    "tokens 9-12 of 12 differ",
)  # fmt: skip
def _(model):
    attn = attention(model)
    usual = attn.mask

    def mask(T):
        t = torch.arange(T)
        return usual(T) & (t[:, None] // CHUNK == t // CHUNK)

    attn.mask = mask


@real(
    "mask-top-left", "for the second piece of a prompt the causal mask is aligned with the first key",
    "pytorch/executorch/pull/21749", "6", "layer 2",
    "tokens 9-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    def mask(T):
        t = torch.arange(T)
        return t <= (t % CHUNK)[:, None]

    attention(model).mask = mask


@real(
    "piece-sees-itself", "the second piece of a prompt is read without a mask",
    "mlx-node/mlx-node/pull/24", "6", "layer 2",
    "tokens 9-11 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    def mask(T):
        t = torch.arange(T)
        return (t <= t[:, None]) | (t[:, None] >= CHUNK)

    attention(model).mask = mask


@real(
    "end-as-padding", "every end-of-text token is taken for padding, and nobody may look at it",
    "microsoft/onnxruntime-genai/pull/1694", "6", "layer 2",
    "tokens 5-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    ids = []
    model.register_forward_pre_hook(lambda model, inputs: ids.append(inputs[0][0]))
    attention(model).mask = lambda T: torch.ones(T, T, dtype=torch.bool).tril() & (ids[-1] != 5)


@real(
    "empty-slots", "until the window is full, its empty slots, keys and values 0, are looked at as well",
    "huggingface/transformers/pull/45940", "6", "layer 2",
    "tokens 1-4 of 12 differ, where every token of every head is the right one times a factor of its own, "
    "0.006602 to 0.8769",
)  # fmt: skip
def _(model):
    attn = attention(model)

    def mix(q, k):
        empty = torch.arange(5) > torch.arange(q.shape[2])[:, None]
        return softmax_with(scores(attn, q, k), torch.zeros(empty.shape).masked_fill(~empty, -torch.inf))

    attn.mix = mix


# Line 6: softmax.


@real(
    "tail-block", "keys are padded with 0 to whole blocks, and the padding is not masked",
    "flashinfer-ai/flashinfer/pull/5090", "6", "layer 2",
    "every token of every head is the right one times a factor of its own, 0.03244 to 0.998",
    sizes=LLAMA,
)  # fmt: skip
def _(model):
    attn = attention(model)
    attn.mix = lambda q, k: softmax_with(scores(attn, q, k), torch.zeros(-q.shape[2] % CHUNK))


@real(
    "merged-with-wrong-weights", "halves of the keys are merged by a log-sum-exp whose maximum is scaled twice",
    "HKUSTDial/flash-sparse-attention/pull/106", "6", "layer 2",
    "tokens 7-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    attn = attention(model)

    def mix(q, k):
        halves = scores(attn, q, k).split(6, -1)
        log_sum = [h.logsumexp(-1) - (1 - 1 / math.sqrt(attn.d)) * h.amax(-1) for h in halves]
        share = torch.stack(log_sum).nan_to_num(nan=-torch.inf).softmax(0)
        return torch.cat([h.softmax(-1).nan_to_num() * w[..., None] for h, w in zip(halves, share, strict=True)], -1)

    attn.mix = mix


@real(
    "stale-sum", "the sum of values is not set to 0 for the next query that the same block computes",
    "flashinfer-ai/flashinfer/pull/5029", "6", "layer 2",
    "tokens 9-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    attn = attention(model)

    def mix(q, k):
        A = scores(attn, q, k).softmax(-1)
        return A + F.pad(A, (0, 0, CHUNK, 0))[..., : A.shape[2], :]

    attn.mix = mix


@real(
    "dropout-stays-on", "dropout of the attention weights is not switched off for inference",
    "suno-ai/bark/pull/662", "6", "layer 2",
    "all rows and tokens differ",
)  # fmt: skip
def _(model):
    attn = attention(model)
    attn.mix = lambda q, k: F.dropout(scores(attn, q, k).softmax(-1), 0.1, training=True)


@real(
    "part-of-the-cache-empty", "where a core's share of the cache crosses a head's end, some keys and values stay 0",
    "tenstorrent/tt-metal/issues/54413", "6", "layer 2",
    "tokens 5-11 of 12, heads 2 of 4 differ",
)  # fmt: skip
def _(model):
    attn = attention(model)
    usual, d = attn.project, attn.d

    def project(layer, x, name):
        y = usual(layer, x, name)
        if name in "kv":
            y[:, 4:7, d : 2 * d] = 0
        return y

    attn.project = project


@real(
    "residual-scaled-twice", "X is divided once more by the number of devices before attention is added",
    "deepspeedai/DeepSpeed/pull/2310", "6", "layer 2",
    "X is multiplied by 0.5",
)  # fmt: skip
def _(model):
    block = model.blocks[1]

    def forward(x):
        x = x / 2 + block.attn(block.ln_1(x))
        return x + block.mlp(block.ln_2(x))

    block.forward = forward

"""Mistakes that were really made, found in public threads, and that the table of known mistakes does not hold.

Each is planted where its author made it, by hand, in the ordinary GPT or Llama of `ordinary.py`: in one layer, so
that its place is known.  What is said of a thread is in our own words; the thread is where to read about it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from conform.ordinary import GEMMA, GPT, LLAMA, PLACES, Sizes, build

#: The ids of every run: twelve tokens, of which 5 comes three times.
X = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]
#: Implementations that read a prompt in pieces read it in pieces of this many tokens here.
CHUNK = 8


@dataclass(frozen=True)
class Real:
    """One mistake.

    key      its name in tests
    says     what the implementation does
    thread   where it was described: owner/repository/issues/number, or .../pull/...
    line     of Algorithm 10, where `conform` must find it
    where    the layer, or "" where the line is in none
    looks    what `conform` must say that the difference looks like
    plant    makes the mistake in an ordinary model
    sizes    of that model
    right    what the reference's configuration has beyond the ordinary one's
    places   where the lines of the wrong model can be seen
    output   what it gives, logits or probabilities
    """

    key: str
    says: str
    thread: str
    line: str
    where: str
    looks: str
    plant: Callable
    sizes: Sizes = GPT
    right: dict | None = None
    places: dict | None = None
    output: str = "logits"

    @property
    def name(self):
        """owner/repository#number, as threads are cited."""
        owner, repository, _, number = self.thread.split("/")
        return f"{owner}/{repository}#{number}"

    @property
    def link(self):
        return f"[{self.name}](https://github.com/{self.thread})"

    def build(self, places=None):
        """(model with the mistake, its table, the reference that is right)."""
        model, table, ref = build(self.sizes, places=places or self.places or PLACES)
        self.plant(model)
        config = replace(ref.config, **self.right) if self.right else ref.config
        return model, replace(table, output=self.output), replace(ref, config=config)


REAL = []


def real(key, says, thread, line, where, looks, **more):
    """Adds the function below it, which plants the mistake, to the table."""
    return lambda plant: REAL.append(Real(key, says, thread, line, where, looks, plant, **more))


def attention(model, layer=2):
    return model.blocks[layer - 1].attn


def scores(attn, q, k):
    """Scaled and masked, as `attn` would take the softmax of them."""
    return (q @ k.transpose(-2, -1) / math.sqrt(attn.d)).masked_fill(~attn.mask(q.shape[2]), -torch.inf)


def softmax_with(s, extra):
    """Softmax of scores and of `extra` further ones, which are given up afterwards; extra: (..., n)."""
    return torch.cat([s, extra.expand(*s.shape[:-1], -1)], -1).softmax(-1)[..., : s.shape[-1]]


def rotates_by(attn, angles, kept=lambda table: table):
    """`attn` rotates by angles(t, frequency), from tables of cosines and sines that are `kept` in some form."""
    frequency = attn.s.base ** (-torch.arange(0, attn.d, 2, dtype=torch.float64) / attn.d)

    def rope(y, offset=0):
        angle = angles(torch.arange(y.shape[2])[:, None], frequency).double()
        cos, sin = kept(angle.cos()), kept(angle.sin())
        a, b = y.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    attn.rope = rope


# Line 3: the embedding.


@real(
    "padding-row-zero", "the embedding of the padding id is 0, whatever its row of the matrix holds",
    "PaddlePaddle/Paddle/issues/62301", "3", "",
    "tokens 5, 9, 11 of 12 differ, where the same column is added to every token",
)  # fmt: skip
def _(model):
    model.wte.register_forward_hook(lambda wte, inputs, out: out * (inputs[0] != 5)[..., None])


@real(
    "token-types", "ids of token types, all 0, are looked up in the token embedding and added",
    "huggingface/transformers/issues/4922", "3", "",
    "the same column is added to every token",
)  # fmt: skip
def _(model):
    model.wte.register_forward_hook(lambda wte, inputs, out: out + wte.weight[0])


@real(
    "normalizer-precision", "sqrt(d_e) is multiplied with in another precision than in training",
    "google/gemma_pytorch/pull/67", "3", "",
    "all rows and tokens differ", sizes=GEMMA,
)  # fmt: skip
def _(model):
    root = math.sqrt(model.s.width)
    model.wte.register_forward_hook(lambda wte, inputs, out: out * (torch.tensor(root).bfloat16().double() / root))


# Lines 5, 7 and 10: the norms.


@real(
    "variance-of-padding", "the last block's padding is counted in the variance, as if it held 0",
    "linkedin/Liger-Kernel/issues/518", "5", "layer 2",
    "every token of what beta is added to is the right one times a factor of its own, 0.9825 to 1",
)  # fmt: skip
def _(model):
    norm = model.blocks[1].ln_1

    def forward(x, of=None):
        mean = x.mean(-1, keepdim=True)
        padded = F.pad(x, (0, 32 - x.shape[-1])) - mean
        var = padded.pow(2).sum(-1, keepdim=True) / x.shape[-1]
        return (x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias

    norm.forward = forward


@real(
    "cast-before-scale", "the normed value is rounded to bfloat16 before it is multiplied by gamma",
    "huggingface/text-generation-inference/pull/1658", "7", "layer 2",
    "all rows and tokens differ, by no more than rounding to bfloat16 does", sizes=LLAMA,
)  # fmt: skip
def _(model):
    norm = model.blocks[1].ln_2
    norm.forward = lambda x, of=None: (x / (x.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()).bfloat16() * norm.weight


@real(
    "squares-in-bfloat16", "the mean of the squares is computed in bfloat16",
    "sgl-project/sglang/pull/27540", "10", "",
    "every token is the right one times a factor of its own, 0.9987 to 1.001", sizes=LLAMA,
)  # fmt: skip
def _(model):
    norm = model.ln_f
    norm.forward = lambda x, of=None: (
        x / (x.bfloat16().pow(2).mean(-1, keepdim=True).double() + norm.eps).sqrt() * norm.weight
    )


@real(
    "parallel-residual", "the MLP reads the X that attention reads, as GPT-J's does, and not what attention made of it",
    "deepspeedai/DeepSpeed/pull/2446", "7", "layer 2",
    "all rows and tokens differ", places=PLACES | {"10.6[l]": "blocks.{l}.mid:out"},
)  # fmt: skip
def _(model):
    for number, block in enumerate(model.blocks, 1):
        block.mid = nn.Identity()

        def forward(x, block=block, parallel=number == 2):
            mid = block.mid(x + block.attn(block.ln_1(x)))
            return mid + block.mlp(block.ln_2(x if parallel else mid))

        block.forward = forward


# Line 6: rotation.


@real(
    "angles-in-half", "positions, frequencies and angles of the rotation are in half precision",
    "EleutherAI/gpt-neox/issues/1003", "6", "layer 2",
    "tokens 2-12 of 12 differ, by no more than rounding to float16 does", sizes=LLAMA,
)  # fmt: skip
def _(model):
    rotates_by(attention(model), lambda t, frequency: t.half() * frequency.half())


@real(
    "tables-in-bfloat16", "the tables of cosines and sines are kept in bfloat16",
    "KellerJordan/modded-nanogpt/issues/39", "6", "layer 2",
    "tokens 2-12 of 12 differ, by no more than rounding to bfloat16 does", sizes=LLAMA,
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
    "qkv-by-group", "Q, K and V were stacked one below the other, and are read group by group",
    "NVIDIA-NeMo/RL/pull/2802", "6", "layer 2",
    "all rows and tokens differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    attn = attention(model)
    parts = [attn.q.weight.data, attn.k.weight.data, attn.v.weight.data]
    groups = torch.cat(parts).view(attn.s.kv_heads, -1, parts[0].shape[1])
    q, k, v = groups.split([groups.shape[1] - 2 * attn.d, attn.d, attn.d], 1)
    attn.q.weight.data, attn.k.weight.data, attn.v.weight.data = (part.flatten(0, 1) for part in (q, k, v))


@real(
    "output-by-group", "columns of W_o are read with the head within its group before the group",
    "nntile/nntile/pull/347", "6", "layer 2",
    "heads 2-3 of 4 differ, where heads 1, 3, 2, 4 stand in place of 1 to 4", sizes=LLAMA,
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
    "window-beyond-config", "every layer gets a window, although the configuration switches it off",
    "InternLM/lmdeploy/pull/3614", "6", "layer 2",
    "tokens 6-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    attention(model).mask = lambda T: torch.ones(T, T, dtype=torch.bool).tril().triu(-4)


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
    "0.006602 to 1",
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
    "soft-cap", "scores are capped softly, as the family's other models do",
    "ggml-org/llama.cpp/pull/21613", "6", "layer 2",
    "tokens 2-12 of 12 differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    attn = attention(model)
    attn.mix = lambda q, k: (5.0 * (scores(attn, q, k) / 5.0).tanh()).masked_fill(
        ~attn.mask(q.shape[2]), -torch.inf
    ).softmax(-1)  # fmt: skip


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


# Line 8: the MLP.


@real(
    "bias-on-every-device", "each of two devices adds the bias b_mlp2 before their results are added",
    "Wenyueh/MinivLLM/issues/80", "8", "layer 2",
    "the same column is added to every token",
)  # fmt: skip
def _(model):
    model.blocks[1].mlp.down.bias.data *= 2


@real(
    "gelu-by-table", "GELU is looked up for its argument rounded to half precision",
    "ggml-org/llama.cpp/issues/29252", "8", "layer 2",
    "all rows and tokens differ, by no more than rounding to float16 does",
)  # fmt: skip
def _(model):
    mlp = model.blocks[1].mlp
    mlp.act = lambda x: F.gelu(x.half().double(), approximate="tanh").half().double()


@real(
    "tanh-saturates-late", "the tanh within GELU tends to 1.044 instead of 1",
    "Tencent/ncnn/pull/6979", "8", "layer 2",
    "all rows and tokens differ",
)  # fmt: skip
def _(model):
    def act(x):
        tanh = (math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)).tanh()
        return 0.5 * x * (1 + tanh * (1 + 0.044 * tanh**8))

    model.blocks[1].mlp.act = act


@real(
    "gate-with-gate", "the stacked gate and up matrices are divided between devices, and each halves its part again",
    "tenstorrent/tt-forge-models/pull/855", "8", "layer 2",
    "all rows and tokens differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    mlp = model.blocks[1].mlp
    first, second = (W.weight.data.chunk(2) for W in (mlp.gate, mlp.up))
    mlp.gate.weight.data = torch.cat([first[0], second[0]])
    mlp.up.weight.data = torch.cat([first[1], second[1]])


# Line 11: the logits.


@real(
    "padded-vocabulary", "the vocabulary is padded to whole blocks with logits of 0, which softmax counts",
    "verl-project/verl/pull/5349", "11", "",
    "every token is the right one times a factor of its own, 0.8911 to 0.9614", output="probabilities",
)  # fmt: skip
def _(model):
    model.head.register_forward_hook(lambda head, inputs, out: softmax_with(out, torch.zeros(-out.shape[-1] % 16)))


@real(
    "vocabulary-cut", "the last token of the sequence was meant to be dropped, and the last of the vocabulary is",
    "kanishkamisra/minicons/pull/34", "11", "",
    "its shape is (36, 12), and should be (37, 12)",
)  # fmt: skip
def _(model):
    model.head.register_forward_hook(lambda head, inputs, out: out[..., :-1])


HEAD = """\
# Mistakes that were really made

Found in public threads of many projects; none of them is in the table of known mistakes. Each is planted by hand in an
ordinary PyTorch GPT or Llama (`tests/conform/real_mistakes.py`), in one place, in float64. `conform` names the line and
the layer of every one, says that no known mistake explains it, and describes the difference. Written by
`bench/real_mistakes.py`.

| what the implementation does | described in | line of Algorithm 10 | what the difference looks like |
|---|---|---|---|
"""


def page():
    """docs/real-mistakes.md, from the table; that `conform` says so is tested."""
    return HEAD + "".join(f"| {m.says} | {m.link} | {m.line} | {m.looks} |\n" for m in REAL)

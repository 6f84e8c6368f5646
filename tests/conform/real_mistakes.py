"""Mistakes that were really made, found in public threads, and that the table of known mistakes does not hold.

Each is planted where its author made it, by hand, in the ordinary GPT or Llama of `ordinary.py`: in one layer, so
that its place is known.  What is said of a thread is in our own words; the thread is where to read about it.
"""

import math

import torch
import torch.nn.functional as F

import conform.real_attention  # noqa: F401  (line 6)
from conform.ordinary import GEMMA, LLAMA
from conform.real import REAL, real, softmax_with

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
    "all rows and tokens differ", sizes=LLAMA,
)  # fmt: skip
def _(model):
    norm = model.blocks[1].ln_2
    norm.forward = lambda x, of=None: (x / (x.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()).bfloat16() * norm.weight


# Line 8: the MLP.


@real(
    "gelu-by-table", "GELU is looked up for its argument rounded to half precision",
    "ggml-org/llama.cpp/issues/29252", "8", "layer 2",
    "all rows and tokens differ",
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
    "it has 36 numbers for each of 12 tokens, and should have 37 for each of 12",
)  # fmt: skip
def _(model):
    model.head.register_forward_hook(lambda head, inputs, out: out[..., :-1])


HEAD = """\
# Mistakes that were really made

Found in public threads of many projects; none of them is in the table of known mistakes. Each is planted by hand in an
ordinary PyTorch GPT or Llama (`tests/conform/real_*.py`), in one place, in float64. `conform` names the line and
the layer of every one from its values, says that no known mistake explains it, and describes the difference; for those
that are planted in the weights, comparing these says it too. From the logits alone every one is seen as well, and
nothing is named (measured on 2026-11-30, with a table of 160 mistakes). Written by `bench/real_mistakes.py`.

| what the implementation does | described in | line of Algorithm 10 | what the difference looks like |
|---|---|---|---|
"""


def page():
    """docs/real-mistakes.md, from the table; that `conform` says so is tested."""
    rows = (f"| {m.says} | {m.link} | {m.line} | {m.looks} |\n" for m in sorted(REAL, key=lambda m: int(m.line)))
    return HEAD + "".join(rows)

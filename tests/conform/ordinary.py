"""An ordinary PyTorch GPT and Llama, as an engineer writes them, in which every known mistake can be planted.

Nothing of ours computes here: tokens are rows, heads are views, weights lie in nn.Linear.  A fault is written
by hand where an engineer would make it, at a layer or, for 0, everywhere.
"""

import math
import re
from dataclasses import dataclass, field, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from conform.ordinary_norm import Norm
from conform.ordinary_parameters import config_of, theta_of
from transformulary.conform.candidates.places import Table
from transformulary.conform.reference import Reference
from transformulary.oracle.watch import holds


@dataclass(frozen=True)
class Sizes:
    """What the two models have in common, in an engineer's words."""

    llama: bool = False
    vocab: int = 37
    context: int = 20
    layers: int = 3
    heads: int = 4
    kv_heads: int = 4
    width: int = 24
    hidden: int = 20
    eps: float = 1e-5
    scaled: bool = True
    embedding_scaled: bool = False
    qk_norm: bool = False
    windows: tuple = (None, 5)
    base: float = 20000.0
    act: str = "gelu_tanh"
    faults: dict = field(default_factory=dict)

    def has(self, layer, key):
        return key in self.faults and holds(self.faults[key], layer)

    def number(self, layer, key, usual=None):
        """The number of a fault whose name ends in one, "eps-1e-05"; else the usual one."""
        found = (name.removeprefix(f"{key}-") for name in self.faults if self.has(layer, name))
        return next((float(number) for number in found if re.fullmatch(r"[\d.]+(e[-+]\d+)?", number)), usual)


GPT, LLAMA = Sizes(), Sizes(llama=True, kv_heads=2, eps=1e-6, windows=(None,), act="silu")
WIDE = replace(LLAMA, width=32, heads=2, kv_heads=1)
QWEN = replace(LLAMA, qk_norm=True)
NEO, GEMMA = Sizes(scaled=False), Sizes(embedding_scaled=True)


class Attention(nn.Module):
    """Causal attention; windows, groups and rotation as the sizes say."""

    def __init__(self, s, layer):
        super().__init__()
        self.s, self.d, self.layer = s, s.width // s.heads, layer
        self.has, self.number = partial(s.has, layer), partial(s.number, layer)
        bias = not s.llama
        self.q = nn.Linear(s.width, s.heads * self.d, bias=bias)
        self.k = nn.Linear(s.width, s.kv_heads * self.d, bias=bias)
        self.v = nn.Linear(s.width, s.kv_heads * self.d, bias=bias)
        self.o = nn.Linear(s.heads * self.d, s.width, bias=bias)
        self.ln_q = Norm(s, "q", layer, self.d) if s.qk_norm else None
        self.ln_k = Norm(s, "k", layer, self.d) if s.qk_norm else None

    def project(self, layer, x, name):
        turned = self.has(f"W_{name}-transposed") or self.has("all-transposed")
        W = layer.weight.T if turned else layer.weight
        b = None if self.has(f"no-b_{name}") else layer.bias
        b = 2 * b if self.has(f"b_{name}-doubled") else b
        return F.linear(x, W, b)

    def split(self, y, heads):
        B, T, _ = y.shape
        if self.has("heads-interleaved"):
            return y.view(B, T, self.d, heads).permute(0, 3, 1, 2)
        if self.has("heads-unsplit") or self.has("heads-unsplit-unmerged"):
            return y.view(B, heads, T, self.d)
        return y.view(B, T, heads, self.d).transpose(1, 2)

    def fused(self, q, k, v, by_head):
        """The rows of one matrix, read in the other order than they lie in."""
        (B, T, _), kv, d = q.shape, self.s.kv_heads, self.d
        if by_head:
            y = torch.cat((q, k, v), -1).view(B, T, kv, -1, d)
            return y[..., :-2, :].flatten(2), y[..., -2, :].flatten(2), y[..., -1, :].flatten(2)
        groups = torch.cat([y.view(B, T, kv, -1, d) for y in (q, k, v)], 3)
        return groups.flatten(2).split([y.shape[-1] for y in (q, k, v)], -1)

    def rope(self, y, offset=0):
        s, T = self.s, y.shape[2]
        base = self.number("rope-base", s.base)
        step = 1 if self.has("rope-exponent") else 2
        freq = base ** (
            -torch.arange(y.shape[-1] // 2, dtype=y.dtype) * step / (s.width if self.has("rope-d_e") else y.shape[-1])
        )
        angle = (torch.arange(T, dtype=y.dtype) + offset)[:, None] / self.number("rope-slower", 1) * freq
        cos, sin = angle.cos(), angle.sin() * (-1 if self.has("rope-backwards") else 1)
        cos, sin = (sin, cos) if self.has("rope-cos-sin") else (cos, sin)
        y = y.unflatten(-1, (2, -1)).mT.flatten(-2) if self.has("rope-rows") else y
        a, b = (y[..., 0::2], y[..., 1::2]) if self.has("rope-neighbours") else y.chunk(2, -1)
        turned = (a * cos - b * sin, b * cos + a * sin)
        return torch.stack(turned, -1).flatten(-2) if self.has("rope-neighbours") else torch.cat(turned, -1)

    def rotate(self, y, offset=0):
        d = self.d // 2 if self.has("rope-half") else self.d // 4 if self.has("rope-quarter") else self.d
        return torch.cat([self.rope(y[..., :d], offset), y[..., d:]], -1)

    def normed(self, q, k):
        if not self.s.qk_norm:
            return q, k
        q_norm, k_norm = (self.ln_k, self.ln_q) if self.has("q-k-norms-swapped") else (self.ln_q, self.ln_k)
        return q if self.has("no-q-norm") else q_norm(q), k if self.has("no-k-norm") else k_norm(k)

    def mask(self, T):
        has, s = self.has, self.s
        i, j = torch.arange(T)[:, None], torch.arange(T)[None]
        shift = 1 if has("mask-cycle") else 0
        window = self.number("window", s.windows[(self.layer - 1 + shift) % len(s.windows)])
        if window is not None:
            window += has("window-wider") - has("window-narrower")
        if has("no-mask"):
            return torch.ones(T, T, dtype=torch.bool)
        if has("mask-ahead"):
            i = i + 1
        keep = j <= i if window is None else (j <= i) & (i - j < window)
        if has("mask-strict-finite") or has("mask-strict-nan"):
            keep = keep & (i != j)
        if has("mask-strict"):
            keep = keep & ((i != j) | (i == 0))
        keep = keep ^ (has("mask-inverted") or has("mask-inverted-nan"))
        return keep.T if has("mask-transposed") else keep

    def forward(self, x):
        has, s = self.has, self.s
        q, k, v = self.project(self.q, x, "q"), self.project(self.k, x, "k"), self.project(self.v, x, "v")
        if has("q-k-swapped"):
            q, k = k, q
        if has("order-kvq"):
            q, k, v = k, v, q
        if has("order-vqk"):
            q, k, v = v, q, k
        if has("k-v-swapped"):
            k, v = v, k
        if has("q-v-swapped"):
            q, v = v, q
        if has("qkv-by-head") or has("qkv-by-kind"):
            q, k, v = self.fused(q, k, v, has("qkv-by-head"))
        q, k, v = self.split(q, s.heads), self.split(k, s.kv_heads), self.split(v, s.kv_heads)
        late = has("qk-norm-after-rotation")
        q, k = (q, k) if late else self.normed(q, k)
        if s.llama and not has("rope-missing"):
            q = q if has("rope-not-on-q") else self.rotate(q, 1 if has("rope-q-from-1") else 0)
            k = k if has("rope-not-on-k") else self.rotate(k)
            v = self.rope(v) if has("rope-on-v") else v
        q, k = self.normed(q, k) if late else (q, k)
        group = s.heads // s.kv_heads

        def by(t, name):
            if has("multi-query"):
                return t[:, :1].expand(-1, s.heads, -1, -1)
            tiled = has("groups-by-remainder") or has(f"{name}-by-remainder")
            return t.repeat(1, group, 1, 1) if tiled else t.repeat_interleave(group, 1)

        y = self.mix(q, by(k, "keys")) @ by(v, "values")
        y = y.flip(1) if has("heads-reversed") else y
        B, H, T, d = y.shape
        if has("heads-merged-interleaved"):
            return self.output(y.permute(0, 2, 3, 1).reshape(B, T, H * d))
        unmerged = has("heads-not-merged") or has("heads-unsplit-unmerged")
        y = y.reshape(B, T, H * d) if unmerged else y.transpose(1, 2).reshape(B, T, H * d)
        return self.output(y)

    def mix(self, q, k):
        has, T = self.has, q.shape[2]
        scale = 1 / math.sqrt(self.d) if self.s.scaled else 1.0
        scale = 1.0 if has("no-scale") else 1 / math.sqrt(self.d) if has("scale-added") else scale
        scale = 1 / self.d if has("scale-no-root") else math.sqrt(self.d) if has("scale-inverted") else scale
        scale = 1 / math.sqrt(self.s.width) if has("scale-of-d_e") else scale
        scale = 1 / self.s.width if has("scale-d_e-no-root") else scale
        scale = 1 / self.number("scale-by", 1 / scale)
        if unscaled := self.number("mask-unscaled"):
            return ((q @ k.transpose(-2, -1)).masked_fill(~self.mask(T), -unscaled) * scale).softmax(-1)
        scores, keep = q @ k.transpose(-2, -1) * scale, self.mask(T)
        cap = self.number("scores-capped")
        scores = cap * (scores / cap).tanh() if cap else scores
        if has("alibi"):
            slopes = 2.0 ** (-8 / self.s.heads * torch.arange(1, self.s.heads + 1))
            scores = scores + (slopes[:, None, None] * (torch.arange(T) - torch.arange(T)[:, None])).to(scores.dtype)
        if has("no-softmax"):
            return scores.masked_fill(~keep, 0)
        if has("mask-after-softmax"):
            return scores.softmax(-1).masked_fill(~keep, 0)
        if added := self.number("mask-added"):
            return scores.where(keep, scores - added).softmax(-1)
        if has("softmax-plus-1"):
            e = scores.masked_fill(~keep, -torch.inf).exp()
            return e / (1 + e.sum(-1, keepdim=True))
        fill = -1e9 if has("mask-strict-finite") or has("mask-inverted") else 0.0 if has("mask-zero") else -torch.inf
        fill = -self.number("mask-finite", -fill)
        return scores.masked_fill(~keep, fill).softmax(-2 if has("softmax-over-queries") else -1)

    def output(self, y):
        has, b = self.has, self.o.bias
        if b is not None:
            b = b * 0 if has("no-b_o") else b * self.s.heads if has("b_o-per-head") else b
            b = b * 2 if has("b_o-doubled") else b
        if has("no-W_o"):
            return y if b is None else y + b
        return F.linear(y, self.o.weight.T if has("W_o-transposed") or has("all-transposed") else self.o.weight, b)


ACTIVATIONS = {
    "GELU": F.gelu, "GELU_tanh": partial(F.gelu, approximate="tanh"), "ReLU": F.relu, "SiLU": F.silu,
    "ReLU2": lambda x: x.relu() ** 2, "leaky_ReLU": F.leaky_relu,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}  # fmt: skip


class MLP(nn.Module):
    """Two layers, or three with a gate."""

    def __init__(self, s, layer):
        super().__init__()
        self.s, self.has = s, partial(s.has, layer)
        self.up = nn.Linear(s.width, s.hidden, bias=not s.llama)
        self.down = nn.Linear(s.hidden, s.width, bias=not s.llama)
        self.gate = nn.Linear(s.width, s.hidden, bias=False) if s.llama else None

    def act(self, x):
        usual = "SiLU" if self.s.act == "silu" else "GELU_tanh"
        name = next((n for n in ACTIVATIONS if self.has(f"act-{n}")), usual)
        return x if self.has("no-activation") else ACTIVATIONS[name](x)

    def forward(self, x):
        has = self.has
        if self.gate is not None:
            if has("gate-up-swapped"):
                return self.down(self.gate(x) * self.act(self.up(x)))
            return self.down(self.act(self.gate(x)) * (1 if has("no-gate") else self.up(x)))
        b = None if has("no-b_mlp1") else self.up.bias * 2 if has("b_mlp1-doubled") else self.up.bias
        h = F.linear(x, self.up.weight, b)
        h = h if has("act-after") else self.act(h)
        b = None if has("no-b_mlp2") else self.down.bias * 2 if has("b_mlp2-doubled") else self.down.bias
        y = F.linear(h, self.down.weight, b)
        return self.act(y) if has("act-after") or has("act-twice") else y


class Block(nn.Module):
    """Pre-norm."""

    def __init__(self, s, layer):
        super().__init__()
        self.has, self.number = partial(s.has, layer), partial(s.number, layer)
        self.mid = nn.Identity()
        self.ln_1, self.attn = Norm(s, "5", layer), Attention(s, layer)
        self.ln_2, self.mlp = Norm(s, "7", layer), MLP(s, layer)

    def forward(self, x):
        has = self.has
        if has("post-norm") or has("post-norm-final"):
            return self.ln_2((x := self.ln_1(x + self.attn(x))) + self.mlp(x))
        h = self.ln_1(x, self.ln_2 if has("norm-2-for-1") else None)
        a = self.attn(x if has("attention-on-X") else h) * (not has("no-attention"))
        a = a + h * has("residual-twice-6")
        before, x = x, self.mid(self.plus(h if has("residual-overwritten-6") else x, a, "6"))
        read, of = before if has("parallel-norm") else x, self.ln_1 if has("norm-1-for-2") else None
        h = h if has("parallel") else self.ln_2(read, of)
        m = self.mlp(x if has("mlp-on-X") or has("gated-mlp-on-X") else h) * (not has("no-mlp"))
        m = m + h * has("residual-twice-8")
        return self.plus(h if has("residual-overwritten-8") else x, m, "8")

    def plus(self, x, added, line):
        added = -added if self.has(f"residual-minus-{line}") else added * self.number(f"residual-by-{line}", 1)
        total = added if self.has(f"no-residual-{line}") else x + added
        return total / math.sqrt(2) if self.has(f"residual-root-2-{line}") else total


class Head(nn.Module):
    """Logits."""

    def __init__(self, s):
        super().__init__()
        self.has, self.number, self.eps = partial(s.has, 0), partial(s.number, 0), s.eps
        self.weight = nn.Parameter(torch.zeros(s.vocab, s.width))
        self.bias = None if s.llama else nn.Parameter(torch.zeros(s.vocab))

    def forward(self, x, weight=None):
        x = x / math.sqrt(x.shape[-1]) if self.has("logits-scaled") else x
        if self.has("norm-after-final"):
            norm = F.layer_norm if self.bias is not None else F.rms_norm
            x = norm(x, x.shape[-1:], eps=self.eps)
        logits = F.linear(x, self.weight if weight is None else weight, None if self.has("no-b_u") else self.bias)
        logits, cap = logits / self.number("logits-divided", 1), self.number("logits-capped")
        logits = cap * (logits / cap).tanh() if cap else logits
        if self.has("softmax-over-tokens"):
            return logits.softmax(-2)
        return logits.softmax(-1) if self.has("softmax-twice") else logits


class Ordinary(nn.Module):
    """The whole model: ids (B, T) -> logits (B, T, vocab)."""

    def __init__(self, s):
        super().__init__()
        self.s, self.has = s, partial(s.has, 0)
        self.wte = nn.Embedding(s.vocab, s.width)
        self.wpe = None if s.llama else nn.Embedding(s.context, s.width)
        self.blocks = nn.ModuleList(Block(s, l + 1) for l in range(s.layers))
        self.ln_f, self.head = Norm(s, "10", 0), Head(s)
        if not s.llama:
            self.head.weight = self.wte.weight

    def forward(self, ids):
        e = self.wte(ids)
        if self.has("embedding-scaled") or (self.s.embedding_scaled and not self.has("embedding-unscaled")):
            e = e * math.sqrt(self.s.width)
        if self.wpe is not None and not self.has("no-positions"):
            t = torch.arange(ids.shape[1])
            t = t * 0 if self.has("position-stuck") else t
            t = t + self.has("positions-from-1") + 2 * self.has("positions-from-2")
            t = t.flip(0) if self.has("positions-reversed") else t
            t = (t - 1) % self.s.context if self.has("positions-before") else t
            t = t + self.s.context - len(t) if self.has("positions-right") else t
            e = e + self.wpe(t) * (2 if self.has("positions-doubled") else 1)
        for block in self.blocks:
            e = block(e)
        e = e if self.has("post-norm") else self.ln_f(e)
        return self.head(e, self.wte.weight if self.has("W_u-tied") else self.head.weight)


PLACES = {
    "10.3": "blocks.0.ln_1:in", "10.5[l]": "blocks.{l}.ln_1:out", "10.6[l]": "blocks.{l}.ln_2:in",
    "10.7[l]": "blocks.{l}.ln_2:out", "10.8[l]": "blocks.{l}:out", "10.10": "ln_f:out", "10.11": "head:out",
}  # fmt: skip


def build(s, seed=0, places=PLACES, dtype=torch.float64, kind=Ordinary):
    """(model with its faults, its table, the reference that is right)."""
    generator = torch.Generator().manual_seed(seed)
    model = kind(s).double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(
                0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64)
                + (name.endswith("weight") and "ln_" in name)
            )
    if "parallel-norm" in s.faults and "10.6[l]" in places:  # what ln_2 reads is not the sum
        places = places | {"10.6[l]": "blocks.{l}.mid:out"}
    config = config_of(s)
    right = Reference("right", config, theta_of(model, config))
    output = "probabilities" if s.has(0, "logits-for-P") or s.has(0, "softmax-over-tokens") else "logits"
    return model.to(dtype), Table(places, output=output), right

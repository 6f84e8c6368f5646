"""An ordinary PyTorch BERT, encoder-decoder and T5, as an engineer writes them, in which known mistakes can be planted.

Nothing of ours computes here: tokens are rows, weights lie in nn.Linear.  A fault is written by hand where an engineer
would make it, at a layer or, for 0, everywhere.
"""

import math
import re
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from conform.ordinary import ACTIVATIONS, Norm
from conform.ordinary_thetas import config_of, theta_of
from transformulary.conform.candidates.places import Table
from transformulary.conform.reference import Reference
from transformulary.oracle.watch import holds


@dataclass(frozen=True)
class Sizes:
    """What the models have in common, in an engineer's words."""

    kind: str = "bert"
    vocab: int = 37
    context: int = 24
    layers: int = 2
    decoder_layers: int = 3
    heads: int = 4
    width: int = 24
    head: int = 6
    hidden: int = 20
    eps: float = 1e-5
    act: str = "gelu"
    positions: str = "learned"
    scaled: bool = True
    llama: bool = False  # the norm is RMSnorm
    faults: dict = field(default_factory=dict)

    def has(self, layer, key):
        return key in self.faults and holds(self.faults[key], layer)

    def number(self, layer, key, usual=None):
        found = (name.removeprefix(f"{key}-") for name in self.faults if self.has(layer, name))
        return next((float(n) for n in found if re.fullmatch(r"[\d.]+(e[-+]?\d+)?", n)), usual)


BERT = Sizes()
SEQ2SEQ = Sizes("seq2seq", act="relu", positions="halves")
T5 = Sizes("t5", eps=1e-6, act="relu", positions="buckets", scaled=False, llama=True, head=5)


def buckets(s, distance, both, most, n=32):
    """T5's: near distances have one each, far ones share, up to `most`."""
    offset = (distance > 0) * (n // 2) if both else 0
    far = distance.abs() if both else (-distance).clamp(min=0)
    n = n // 2 if both else n
    near = n // 2
    log = (far.clamp(min=1) / near).log() / math.log(most / near) * (n - near)
    return offset + torch.where(far < near, far, (near + log.long()).clamp(max=n - 1))


class Attention(nn.Module):
    """From one sequence to another, or to itself."""

    def __init__(self, s, layer, line, causal=False):
        super().__init__()
        self.s, self.line, self.causal = s, line, causal
        self.has, self.number = partial(s.has, layer), partial(s.number, layer)
        bias = s.kind != "t5"
        inner = s.heads * s.head
        self.q, self.k, self.v = (nn.Linear(s.width, inner, bias=bias) for _ in range(3))
        self.o = nn.Linear(inner, s.width, bias=bias)

    def mask(self, ell, ell_z):
        has, i, j = self.has, torch.arange(ell)[:, None], torch.arange(ell_z)[None]
        causal = self.causal and not has("no-mask")
        causal |= has("causal-in-encoder") and self.line in ("5", "6")
        causal |= has("causal-in-cross") and self.line in ("16x", "18x")
        if not causal:
            return torch.ones(ell, ell_z, dtype=torch.bool)
        if not self.causal:
            return j <= i
        keep = j <= i + has("mask-ahead")
        keep = keep & ((i != j) | (i == 0)) if has("mask-strict") else keep
        return keep.T if has("mask-transposed") else keep

    def forward(self, x, z=None, bias=None, of=None):
        has, s, of = self.has, self.s, of or self
        z = x if z is None else z
        q = F.linear(x, of.q.weight, None if has("no-b_q") else of.q.bias)
        k, v = of.k(z), F.linear(z, of.v.weight, None if has("no-b_v") else of.v.bias)
        q, v = (v, q) if has("q-v-swapped") else (q, v)
        q, k, v = (y.unflatten(-1, (s.heads, -1)).transpose(1, 2) for y in (q, k, v))
        scale = 1 / math.sqrt(s.head) if s.scaled else 1.0
        scale = 1.0 if has("no-scale") else 1 / math.sqrt(s.head) if has("bucketed-scale-added") else scale
        scale = 1 / s.head if has("scale-no-root") or has("bucketed-scale-no-root") else scale
        scores = q @ k.mT * scale + (0 if bias is None else bias)
        weights = scores.masked_fill(~self.mask(x.shape[1], z.shape[1]), -torch.inf).softmax(-1)
        y = (weights @ v).transpose(1, 2).flatten(2)
        return F.linear(y, of.o.weight, None if has("no-b_o") else of.o.bias)


class MLP(nn.Module):
    """Two layers."""

    def __init__(self, s, layer):
        super().__init__()
        self.s, self.has = s, partial(s.has, layer)
        self.up = nn.Linear(s.width, s.hidden, bias=s.kind != "t5")
        self.down = nn.Linear(s.hidden, s.width, bias=s.kind != "t5")

    def forward(self, x):
        b = None if self.has("no-b_mlp1") else self.up.bias
        h = activate(self.s, self.has, F.linear(x, self.up.weight, b))
        return F.linear(h, self.down.weight, None if self.has("no-b_mlp2") else self.down.bias)


def activate(s, has, x):
    """The activation, or another."""
    usual = {"gelu": "GELU", "relu": "ReLU"}[s.act]
    name = next((n for n in ACTIVATIONS if has(f"act-{n}")), usual)
    return x if has("no-activation") else ACTIVATIONS[name](x)


class Block(nn.Module):
    """One layer: attention, if it is a decoder's cross-attention, and an MLP; `lines` of the sums."""

    def __init__(self, s, layer, lines, cross):
        super().__init__()
        self.s, self.has, self.lines = s, partial(s.has, layer), lines
        self.attn = Attention(s, layer, lines[0], causal=cross)
        self.cross = Attention(s, layer, lines[1] + "x") if cross else None
        self.mlp = MLP(s, layer)
        step = -1 if s.kind == "t5" else 1
        self.norms = nn.ModuleList(Norm(s, str(int(n) + step), layer) for n in lines)

    def forward(self, x, z=None, bias=None, more=None):
        parts = [lambda h: self.attn(h, bias=bias, of=self.cross if self.has("self-shares-weights") else None)]
        if self.cross is not None:
            parts.append(partial(self.crossed, z=z, more=more or {}))
        parts.append(self.mlp)
        for k, (part, norm) in enumerate(zip(parts, self.norms, strict=True)):
            x = self.step(x, part, norm, self.lines[k], k)
        return x

    def crossed(self, h, z, more):
        others = {**more["memories"], "memory-own": h}
        z = next((other for key, other in others.items() if self.has(key)), z)
        return self.cross(h, z, more.get("bias"), self.attn if self.has("cross-shares-weights") else None)

    def step(self, x, part, norm, line, k):
        has, number = self.has, line
        other = next((n for j, n in enumerate(self.norms) if has(self.taken(j, k))), None)
        ends = ("", "-encoder" if self.cross is None else "-decoder")
        if (self.s.kind == "t5") != any(has(key + end) for key in ("pre-norm", "post-norm-final") for end in ends):
            h = norm(x, other)
            y = part(x if has(f"attention-on-X-{number}") else h)
            return y if has(f"no-residual-{number}") else h + y if has(f"residual-overwritten-{number}") else x + y
        if has("norm-of-parts"):
            return x + norm(part(x), other)
        y = part(x) * (not (has(f"no-attention-{number}") or (k == 0 and has("no-attention"))))
        return norm(y if has(f"no-residual-{number}") else x + y, other)

    def taken(self, j, k):
        first = 1 if len(self.norms) == 2 else 3
        return f"norm-{first + j}-for-{first + k}"


class Stack(nn.Module):
    """Layers, and for T5 the bias that they share and the last norm."""

    def __init__(self, s, layers, lines, cross, last):
        super().__init__()
        self.s, self.cross, self.has = s, cross, partial(s.has, 0)
        self.blocks = nn.ModuleList(Block(s, l + 1, lines, cross) for l in range(layers))
        self.bias = nn.Embedding(32, s.heads) if s.kind == "t5" else None
        self.ln_f = Norm(s, last, 0) if s.kind == "t5" else None

    def distance(self, ell, ell_z, of):
        s, has = self.s, self.has
        if has("no-buckets"):
            return None
        t = torch.arange(ell_z)[None] - torch.arange(ell)[:, None]
        t = -t if has("buckets-backwards") else t
        both = not self.cross if not (has("buckets-one-way") or has("buckets-both-ways")) else (
            has("buckets-both-ways") if self.cross else not has("buckets-one-way")
        )  # fmt: skip
        most = s.number(0, "buckets-up-to", 128)
        return of.bias(buckets(s, t, both, most)).permute(2, 0, 1)

    def forward(self, x, z=None, memories=None, other=None):
        swapped = self.has("buckets-of-encoder" if self.cross else "buckets-of-decoder")
        own = self.distance(x.shape[1], x.shape[1], other if swapped else self) if self.bias else None
        more = {"memories": memories}
        if z is not None and self.has("buckets-in-cross"):
            more["bias"] = self.distance(x.shape[1], z.shape[1], self)
        first = self.has("buckets-first-layer-16" if self.cross else "buckets-first-layer")
        for l, block in enumerate(self.blocks):
            self.before, x = x, block(x, z, None if first and l else own, more)
            self.after = x
        return self.ln_f(x) if self.ln_f is not None else x


def sinusoids(ell, width, s, has):
    """Sines, then cosines; or in turn."""
    exponent = torch.arange(width // 2, dtype=torch.float64) * (1 if has("2h-exponent") else 2) / width
    angle = torch.arange(ell, dtype=torch.float64)[:, None] / s.number(0, "2h-base", 10000.0) ** exponent
    if has("positions-t2t"):
        angle = torch.arange(ell)[:, None] / 10000 ** (torch.arange(width // 2).double() / (width / 2 - 1))
    sin, cos = (angle.cos(), angle.sin()) if has("2h-sin-cos") else (angle.sin(), angle.cos())
    return torch.stack([sin, cos], -1).flatten(1) if has("positions-interleaved") else torch.cat([sin, cos], 1)


class Embedding(nn.Module):
    """Tokens and positions; a fault holds for both sequences, or for one, as its layer says: 1 for z, 2 for x."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.tokens = nn.Embedding(s.vocab, s.width)
        self.wpe = nn.Embedding(s.context, s.width) if s.positions == "learned" else None

    def forward(self, ids, side=0, ell_z=0):
        s, has = self.s, partial(self.s.has, side)
        if side == 2 and has("x-shifted"):
            ids = torch.cat([ids[:, :1], ids[:, :-1]], 1)
        if side == 2 and (start := s.number(side, "start", s.vocab - 1 if has("start-last") else None)) is not None:
            ids = torch.cat([torch.full_like(ids[:, :1], int(start)), ids[:, 1:]], 1)
        if side == 2 and has("no-start"):
            ids = torch.cat([ids[:, 1:], ids[:, -1:]], 1)
        e, scale = self.tokens(ids), math.sqrt(s.width) if s.kind == "seq2seq" else 1.0
        scale = 1.0 if has("embedding-unscaled") else s.width if has("embedding-scaled-twice") else scale
        e = e * (math.sqrt(s.width) if has("embedding-scaled") else scale)
        if side == 2 and has("start-zero"):
            e = torch.cat([0 * e[:, :1], e[:, 1:]], 1)
        offset = 1 if has("positions-from-1") else ell_z if has("positions-after-z") else 0
        t = torch.arange(ids.shape[1]) + offset
        if has("no-positions") or s.positions == "buckets":
            return e
        p = self.wpe(t) if self.wpe is not None else sinusoids(40, s.width, s, has)[t].to(e.dtype)
        return e + p * (math.sqrt(s.width) if has("positions-scaled") else 1)


class Logits(nn.Module):
    """Tied to the embedding."""

    def __init__(self, s, tokens):
        super().__init__()
        self.s, self.has = s, partial(s.has, 0)
        self.weight = tokens.weight
        self.bias = nn.Parameter(torch.zeros(s.vocab)) if s.kind != "t5" else None

    def forward(self, x):
        if self.s.kind == "t5" and not self.has("no-last-scale"):
            x = x / math.sqrt(self.s.width)
        logits = F.linear(x, self.weight, None if self.has("no-b_u") else self.bias)
        return logits.softmax(-1) if self.has("softmax-twice") else logits


class Bert(nn.Module):
    """Masked language model: ids and segments -> logits."""

    def __init__(self, s):
        super().__init__()
        self.s, self.has = s, partial(s.has, 0)
        self.embedding, self.segments, self.ln_e = Embedding(s), nn.Embedding(2, s.width), Norm(s, "3a", 0)
        self.encoder = Stack(s, s.layers, ("5", "7"), False, "")
        self.dense, self.ln_h = nn.Linear(s.width, s.width), Norm(s, "11", 0)
        self.logits = Logits(s, self.embedding.tokens)

    def forward(self, ids, segments):
        has = self.has
        segments = 1 - segments if has("segments-swapped") else segments
        segments = segments * 0 + 1 if has("segments-last") else segments * (not has("segments-first"))
        e = self.embedding(ids) + (0 if has("no-segments") else self.segments(segments))
        x = self.encoder(self.ln_e(e))
        if has("no-transform"):
            return self.logits(x)
        x = F.linear(x, self.dense.weight, None if has("no-b_f") else self.dense.bias)
        if has("norm-before-activation"):
            return self.logits(activate(self.s, has, self.ln_h(x)))
        return self.logits(self.ln_h(x.tanh() if has("tanh-for-activation") else activate(self.s, has, x)))


class Seq2Seq(nn.Module):
    """Encoder-decoder: (z, x) -> logits."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        t5 = s.kind == "t5"
        self.embedding = Embedding(s)
        self.encoder = Stack(s, s.layers, ("6", "8") if t5 else ("5", "7"), False, "10")
        self.decoder = Stack(s, s.decoder_layers, ("16", "18", "20") if t5 else ("14", "16", "18"), True, "22")
        self.logits = Logits(s, self.embedding.tokens)

    def forward(self, z, x):
        embedded = self.embedding(z, 1)
        encoder = self.encoder
        last = encoder.ln_f.forward if encoder.ln_f is not None else lambda z: z  # which no hook sees
        memory = encoder(embedded, other=self.decoder)
        others = {"embeddings": embedded, "unfinished": encoder.before, "unfinished-normed": last(encoder.before),
                  "unnormed": encoder.after}  # fmt: skip
        memories = {f"memory-{key}": other for key, other in others.items()}
        y = self.decoder(self.embedding(x, 2, z.shape[1]), memory, memories, encoder)
        return self.logits(y)


def _post(number, stack, lines):
    found = {}
    for k, line in enumerate(lines):
        found[f"{number}.{line}[l]"] = f"{stack}.blocks.{{l}}.norms.{k}:in"
        found[f"{number}.{line + 1}[l]"] = f"{stack}.blocks.{{l}}.norms.{k}:out"
    return found


def _pre(stack, lines):
    found = {}
    for k, line in enumerate(lines):
        found[f"8a.{line - 1}[l]"] = f"{stack}.blocks.{{l}}.norms.{k}:out"
        last = k + 1 == len(lines)
        found[f"8a.{line}[l]"] = f"{stack}.blocks.{{l}}:out" if last else f"{stack}.blocks.{{l}}.norms.{k + 1}:in"
    return found | {"8a.10" if stack == "encoder" else "8a.22": f"{stack}.ln_f:out"}


PLACES = {
    "bert": {"9.3": "ln_e:in", "9.3a": "ln_e:out", **_post("9", "encoder", (5, 7)), "9.10": "ln_h:in",
             "9.11": "ln_h:out", "9.12": "logits:out"},
    "seq2seq": {"8.3": "encoder.blocks.0:in", **_post("8", "encoder", (5, 7)), "8.12": "decoder.blocks.0:in",
                **_post("8", "decoder", (14, 16, 18)), "8.21": "logits:out"},
    "t5": {"8a.3": "encoder.blocks.0:in", **_pre("encoder", (6, 8)), "8a.13": "decoder.blocks.0:in",
           **_pre("decoder", (16, 18, 20)), "8a.23": "logits:out"},
}  # fmt: skip
LOGITS = {"bert": {"9.12": "logits:out"}, "seq2seq": {"8.21": "logits:out"}, "t5": {"8a.23": "logits:out"}}


def build(s, seed=0, places=None, dtype=torch.float64):
    """(model with its faults, its table, the reference that is right)."""
    generator = torch.Generator().manual_seed(seed)
    model = (Bert if s.kind == "bert" else Seq2Seq)(s).double().eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_scale = name.endswith("weight") and ("norms" in name or "ln_" in name)
            p.copy_(0.3 * torch.randn(p.shape, generator=generator, dtype=torch.float64) + is_scale)
    right = Reference("right", config_of(s), theta_of(model, config_of(s)))
    return model.to(dtype), Table(places or PLACES[s.kind]), right

"""The ordinary GPT and Llama with a cache and padding, in which an engineer's mistakes with either can be planted."""

from types import SimpleNamespace

import torch

from conform.ordinary import Attention, Ordinary


class CachedAttention(Attention):
    """Reads what its layer kept of earlier tokens, and keeps those of these."""

    def forward(self, x):
        has, s, run = self.has, self.s, self.run
        q, k, v = self.split(self.q(x), s.heads), self.split(self.k(x), s.kv_heads), self.split(self.v(x), s.kv_heads)
        turned = (lambda y: self.rope(y, run.offset)) if s.llama else (lambda y: y)
        old_k, old_v = run.old[self.reads()] or (k[:, :, :0], v[:, :, :0])
        v = torch.cat([old_v, v], 2)
        if has("keys-again"):
            kept = k = self.rope(torch.cat([old_k, k], 2))
        elif has("keys-raw"):
            kept, k = torch.cat([old_k, k], 2), torch.cat([old_k, turned(k)], 2)
        elif has("keys-newest"):
            kept = torch.cat([old_k, k], 2)
            k = self.rope(kept, run.offset - torch.arange(kept.shape[2]) if run.past else 0)
        else:
            kept = k = torch.cat([old_k, turned(k)], 2)
        cut = 2 if has("cache-cut") and not run.past else 0
        run.new.append((kept[:, :, cut:], v[:, :, cut:]))
        return self.o(self.attend(turned(q), k, v, run).transpose(1, 2).flatten(2))

    def reads(self):
        last = self.s.layers - 1
        wrong = {"layer-before": self.layer - 2, "layer-after": self.layer % (last + 1), "layer-first": 0}
        return next((wrong[key] for key in wrong if self.has(key)), self.layer - 1)

    def attend(self, q, k, v, run):
        group = self.s.heads // self.s.kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        n, T = q.shape[2], k.shape[2]
        i, j = torch.arange(n)[:, None] + (0 if self.has("mask-first") else T - n), torch.arange(T)[None]
        window = self.s.windows[(self.layer - 1) % len(self.s.windows)] or T + 1
        if run.past:
            window += self.has("window-wide") - self.has("window-narrow") + T * self.has("window-gone")
        keep = (j <= i) & (i - j < window)
        if run.real is not None and not self.has("padding-seen"):
            keep = keep & run.real[:, None, None]
        scores = (q @ k.mT / self.d**0.5).masked_fill(~keep, torch.finfo(q.dtype).min)
        return scores.softmax(-1) @ v


class Cached(Ordinary):
    """ids, past (how many tokens, and of each layer its keys and values), attention_mask -> logits."""

    def __init__(self, s):
        super().__init__(s)
        for l, block in enumerate(self.blocks):
            block.attn = CachedAttention(s, l + 1)

    def forward(self, ids, past=None, attention_mask=None):
        has, (length, past) = self.has, past or (0, [])
        offset = 0 if has("restart") else min(length, 6) if has("stay") else length
        offset += (has("ahead") - has("behind")) if past else 0
        t = (offset + torch.arange(ids.shape[1])).expand(ids.shape)
        real = None if attention_mask is None else attention_mask.bool()
        if real is not None and not has("padding-counted"):
            t = (real.cumsum(1) - 1).clamp(min=0)
        old = [None] * len(self.blocks) if not past or has("lost") else list(past)
        run = SimpleNamespace(old=old, new=[], offset=offset, past=bool(past), real=real)
        e = self.wte(ids) if self.wpe is None else self.wte(ids) + self.wpe(t)
        for block in self.blocks:
            block.attn.run = run
            e = block(e)
        rows = (lambda A: A.flip(0)) if has("rows-flipped") and not past else (lambda A: A)
        self.past = length + ids.shape[1], [(rows(k), rows(v)) for k, v in run.new]
        return self.head(self.ln_f(e))


def decode(model, pieces):
    model.past = None
    return torch.cat([model(piece, model.past) for piece in pieces], 1)

"""The norms of the ordinary models, in which every known mistake of a norm can be planted."""

from functools import partial

import torch
from torch import nn


class Norm(nn.Module):
    """Layer norm, or RMSnorm."""

    def __init__(self, s, slot, layer, width=None):
        super().__init__()
        width = width or s.width
        self.llama, self.eps, self.slot = s.llama, s.eps, slot
        self.has, self.number = partial(s.has, layer), partial(s.number, layer)
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = None if s.llama else nn.Parameter(torch.zeros(width))

    def forward(self, x, of=None):
        of = of or self
        if self.here("no-norm"):
            return x
        if self.here("norm-twice"):
            return self.once(self.once(x, of, -1), of, -1)
        dim = (-2, -1) if self.here("whole-norm") else -2 if self.here("norm-over-tokens") else -1
        return self.once(x, of, dim)

    def here(self, key):
        """A fault of every norm of the stream, or, with its line, of one of them."""
        return self.has(f"{key}-{self.slot}") or (self.has(key) and self.slot.isdigit())

    def once(self, x, of, dim):
        has, p = self.has, "rms-" if self.llama else ""
        eps = self.number(f"{p}eps", 0.0 if has(f"{p}no-eps") else self.eps)
        x = x.half().to(x.dtype) if has("rms-of-half" if self.llama else "norm-of-half") else x
        x = x.bfloat16().to(x.dtype) if has("rms-of-bfloat16" if self.llama else "norm-of-bfloat16") else x
        mean = x.mean(dim, keepdim=True)
        if self.llama:
            centred = x - mean if has("layer-norm-for-rms") else x
            squared = centred.bfloat16() if has("rms-mean-in-bfloat16") else centred
            var = squared.pow(2).mean(dim, keepdim=True).to(x.dtype)
            var = var * x.shape[-1] / (x.shape[-1] - 1) if has("rms-sample-variance") else var
            var = var * x.shape[-1] if has("rms-sum") else var
        else:
            centred = x if has("rms-for-layer-norm") or has("mean-not-removed") else x - mean
            var = (
                x.pow(2).mean(dim, keepdim=True)
                if has("rms-for-layer-norm")
                else x.var(dim, keepdim=True, unbiased=has("sample-variance"))
            )
        root = var.sqrt() + eps if has(f"{p}eps-outside") else (var + eps).sqrt()
        y = centred / root
        if has("rms-in-half" if self.llama else "norm-in-half"):
            y = (centred.half() / root.half()).to(x.dtype)
        y = y + of.bias if has("beta-inside") else y
        y = y if has(f"{p}no-gamma") else y * (1 + of.weight if has(f"{p}gamma-plus-1") else of.weight)
        return y if of.bias is None or has("no-beta") or has("beta-inside") else y + of.bias

"""Weights and tokens to look at."""

import numpy as np

HOSTILE = [
    "a<b<c",
    "&amp;",
    "</script>",
    "#include <stdio.h>",
    "\n",
    "\t",
    " ",
    "\u202e",
    "\0",
    "\ud800",
    "<!--",
    "{{css}}",
]
HOSTILE += [
    "<img src=x onerror=document.title='hacked'>",
    "$x_1^2$",
    "日本",
    "",
    "\\",
    '"',
    "'",
    "`${1}`",
    "\u2028",
    "👩‍🚀",
]


def weights(L, H, ell, causal=True, seed=0):
    """Random float32 weights, one array (H, ell, ell) per layer; rows sum to 1."""
    scores = np.random.default_rng(seed).normal(scale=3, size=(L, H, ell, ell))
    if causal:
        scores[..., ~np.tri(ell, dtype=bool)] = -np.inf
    w = np.exp(scores - scores.max(-1, keepdims=True))
    return list((w / w.sum(-1, keepdims=True)).astype(np.float32))

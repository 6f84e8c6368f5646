"""A GPT-2 in PyTorch, as one writes it in an afternoon.

`transformulary conform examples/ordinary_gpt.py --against gpt2` finds its mistake.
"""

import json
import re
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

#: Where the lines of Algorithm 10 can be seen; {l} counts the blocks from 0.
PLACES = {
    "10.3": "blocks.0.ln_1:in",
    "10.5[l]": "blocks.{l}.ln_1:out",
    "10.6[l]": "blocks.{l}.ln_2:in",
    "10.7[l]": "blocks.{l}.ln_2:out",
    "10.8[l]": "blocks.{l}:out",
    "10.10": "ln_f:out",
    "10.11": "head:out",
}


class Block(nn.Module):
    """Attention and MLP, each on the norm of the stream."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def attend(self, x):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.heads, C // self.heads).transpose(1, 2) for y in self.qkv(x).split(C, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(B, T, C))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.out(F.gelu(self.fc(self.ln_2(x))))


class GPT(nn.Module):
    """ids (B, T) -> logits (B, T, vocab)."""

    def __init__(self, vocab, context, width, layers, heads, hidden):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))


NAMES = {"attn.c_attn": "qkv", "attn.c_proj": "proj", "mlp.c_fc": "fc", "mlp.c_proj": "out"}


def load(folder):
    """The model of a folder in GPT-2's format."""
    c = json.loads((Path(folder) / "config.json").read_text())
    hidden = c["n_inner"] or 4 * c["n_embd"]
    model = GPT(c["vocab_size"], c["n_positions"], c["n_embd"], c["n_layer"], c["n_head"], hidden)
    state = {}
    for name, tensor in load_file(f"{folder}/model.safetensors").items():
        name = re.sub(r"^h\.", "blocks.", name.removeprefix("transformer."))
        for theirs, ours in NAMES.items():
            if theirs in name:
                name, tensor = name.replace(theirs, ours), tensor.T if tensor.ndim == 2 else tensor
        state[name] = tensor
    state["head.weight"] = state["wte.weight"]
    model.double().load_state_dict(state)
    return model
